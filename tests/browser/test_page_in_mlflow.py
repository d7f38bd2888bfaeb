from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from planted_pages import usual_page

pytestmark = pytest.mark.slow

PATIENCE = 180
LOG = """
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run(experiment_id="0") as run:
    mlflow.log_artifact(sys.argv[2])
print(run.info.run_id)
"""


@pytest.fixture
def server(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = ["--backend-store-uri", f"sqlite:///{tmp_path}/store.db",
             "--artifacts-destination", str(tmp_path / "artifacts")]  # fmt: skip
    run = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *store]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(run, stdout=log, stderr=log, cwd=tmp_path)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address)
            yield address
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait(address):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()  # noqa: S310
        except OSError:
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.5)
        else:
            return


def test_mlflow_shows_the_page_inline(server, browser, tmp_path):
    file = usual_page(tmp_path / "runs")
    environment = {**os.environ, "MLFLOW_HTTP_REQUEST_TIMEOUT": str(PATIENCE)}
    logged = subprocess.run(
        [sys.executable, "-c", LOG, server, str(file)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    run = logged.stdout.split()[-1]
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{server}/#/experiments/0/runs/{run}/artifacts/atlas.html")
    holder = page.wait_for_selector("iframe")
    sandbox = holder.get_attribute("sandbox")
    assert sandbox is not None
    assert "allow-same-origin" not in sandbox
    frame = holder.content_frame()
    frame.wait_for_selector("body[data-ready=yes]")
    tiles = frame.locator("#map .layer_0_marks path")
    assert tiles.count() > 0
    tiles.nth(20).click(position={"x": 4, "y": 4})
    frame.wait_for_selector("#panel:not([hidden])")
    frame.click("#copy")
    frame.wait_for_function("document.getElementById('copied').textContent !== ''")
    if os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{os.environ['SCREENSHOTS']}/mlflow.png")
    context.close()
