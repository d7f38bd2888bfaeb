"""Real servers for tests: PostgreSQL in a folder of its own, and MLflow's tracking server."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import psycopg2
import pytest
from stores import closed_port
from tracked_runs import within

NEEDED = "CLIPPING_ATLAS_NEEDS_POSTGRES"
"""Set where a missing PostgreSQL is a failure, as in .ci/run."""


def program(name):
    """The path of one of PostgreSQL's programs, which Debian keeps off the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(places[-1]) if places else None)
    if found is None:
        missing = pytest.fail if os.environ.get(NEEDED) else pytest.skip
        missing("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return found


@contextlib.contextmanager
def postgres():
    """The address of a PostgreSQL that is empty, and gone afterwards."""
    initdb, server = program("initdb"), program("postgres")
    # It refuses to run as root.
    user = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path is
    if user:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    port = closed_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    data = folder / "data"
    made = [initdb, "-D", data, "-U", "atlas", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(made, check=True, **quiet, **user)
    run = [server, "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"]
    process = subprocess.Popen(run, **quiet, **user)
    uri = f"postgresql://atlas@127.0.0.1:{port}/postgres"
    try:
        assert within(60, lambda: _answers(uri))
        yield uri
    finally:
        process.send_signal(signal.SIGINT)  # a fast shutdown
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


class TrackingServer:
    """``mlflow server`` on a database; it can be stopped and started again at its port."""

    def __init__(self, database, folder):
        self.port = closed_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._command = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1",
            "--port", str(self.port), "--workers", "1", "--backend-store-uri", database,
            "--artifacts-destination", str(folder),
        ]  # fmt: skip
        self._process = None

    def start(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # Its job runner starts seven more processes, none of which is asked for anything here.
        env = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self._process = subprocess.Popen(self._command, start_new_session=True, env=env, **quiet)

    def wait(self):
        assert within(120, self._healthy)

    def stop(self):
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own group: workers too
            self._process.wait()
            self._process = None

    def _healthy(self):
        with contextlib.suppress(OSError):
            url = f"{self.uri}/health"
            with urllib.request.urlopen(url, timeout=5) as health:  # noqa: S310
                return health.status == 200
        return False


def _answers(uri):
    with contextlib.suppress(psycopg2.OperationalError):
        psycopg2.connect(uri).close()
        return True
    return False
