"""A model whose cells fail as they are told, once their training is over and for as long as a flag
is there.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dpsgd.models.shape import DataShape


@dataclass(frozen=True)
class Faulty:
    """A linear model; ``fault`` names what happens at evaluation while the file ``flag`` exists."""

    name: str
    fault: str
    flag: str

    def build(self, shape: DataShape) -> nn.Module:
        return Net(shape, self.fault, Path(self.flag))


class Net(nn.Module):
    def __init__(self, shape: DataShape, fault: str, flag: Path) -> None:
        super().__init__()
        self.fault, self.flag = fault, flag
        self.head = nn.Linear(torch.Size(shape.inputs).numel(), shape.classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training and self.flag.exists():
            happen(self.fault)
        return self.head(inputs.flatten(1))


def happen(fault: str) -> None:
    """Do what ``fault`` says; nothing for a name that is no fault."""
    if fault == "raise":
        raise ValueError("planted in this cell\nwith a second line")
    if fault == "exit":
        sys.exit(3)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "vanish":
        os._exit(7)
    if fault == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        torch.zeros(2**30).fill_(1.0)
    if fault == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if fault == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    if fault == "killworker":
        os.kill(os.getppid(), signal.SIGKILL)
    if fault == "sleep":
        time.sleep(300)
