"""A child of a process that is warm imports next to nothing before it trains."""

import json
import subprocess
import sys

from composed import composer

RUN = """
import json, sys
from pathlib import Path
import dpsgd.experiment.warm
from dpsgd.experiment.cell import run_cell
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
before = set(sys.modules)
prepared = prepare(read_cell(json.load(open(sys.argv[1]))))
run_cell(prepared, Path(sys.argv[2]), lambda plan: lambda *step: None)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_a_cell_finds_all_large_libraries_imported(tmp_path):
    config = composer()(["debug=fast", "model=mlp", "data=mnist_tail", "tracker=none"])
    (tmp_path / "config.json").write_text(json.dumps(config))
    arguments = [sys.executable, "-c", RUN, tmp_path / "config.json", tmp_path / "runs"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    late = json.loads(done.stdout.splitlines()[-1])
    libraries = {name.partition(".")[0] for name in late} - {"dpsgd", "mlxtend", "sklearn"}
    assert len([name for name in late if name.partition(".")[0] in libraries]) < 60, late


def test_a_child_collects_no_garbage_among_what_was_imported():
    code = "import gc, dpsgd.experiment.sweep.preload; print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 100_000
