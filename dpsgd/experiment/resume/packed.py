"""A checkpoint as bytes that know whether they are whole."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

FORMAT = b"dpsgd checkpoint 1\n"


def packed(content: Mapping[str, Any]) -> bytes:
    """Return ``content``, plain data and tensors, behind its SHA-256.

    Raises TypeError for anything else, of which reading back would have to run code.
    """
    _check(content, "checkpoint")
    buffer = io.BytesIO()
    torch.save(content, buffer)
    body = buffer.getvalue()
    return FORMAT + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpacked(data: bytes) -> dict[str, Any] | None:
    """Return the content of :func:`packed`; None for bytes that are torn, edited or foreign."""
    if not data.startswith(FORMAT):
        return None
    digest, _, body = data.removeprefix(FORMAT).partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    try:
        content = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError):
        return None  # whole, but nothing that this version of torch reads as plain data
    return content if isinstance(content, dict) else None


def _check(value: Any, where: str) -> None:
    if type(value) in (str, int, float, bool, type(None), Tensor):
        return
    if isinstance(value, Mapping) and type(value) is dict:
        for name, inner in value.items():
            _check(name, where)
            _check(inner, f"{where}.{name}")
    elif isinstance(value, Sequence) and type(value) in (list, tuple):
        for inner in value:
            _check(inner, where)
    else:
        raise TypeError(f"{where} holds a {type(value).__name__}, which is no plain data")
