"""Many commands of one program, each in a fork of one process that has imported it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PROGRAM = """
import json, os, sys
import dpsgd.experiment.sweep.preload
from dpsgd.run import main

for number, arguments in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if not child:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{number}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv[1:] = arguments
        main()
        sys.exit()
    with open(f"code.{number}", "w") as file:
        file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


def run_each(folder, commands):
    """Return (exit code, first line of its errors) of ``python -m dpsgd.run`` with each command."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(commands)],
        cwd=folder, env=environment, check=True,
    )  # fmt: skip
    return [
        (int(Path(folder, f"code.{n}").read_text()), first_line(Path(folder, f"err.{n}")))
        for n in range(len(commands))
    ]


def first_line(file):
    return (file.read_text().splitlines() or [""])[0]
