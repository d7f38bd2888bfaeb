"""From stored pixels to model inputs."""

from __future__ import annotations

import numpy as np

from dpsgd.errors import ConfigError

PIXELS = "pixels divided by a declared constant; no statistic of the data is used"
"""The note of image data."""

FLOATS = "inputs are taken as they are; what scaled them is not known, and not covered by ε"
"""The note of inputs that came scaled."""


def channels_first(images: np.ndarray, key: str, source: str) -> np.ndarray:
    """Return ``[n, c, h, w]`` float32 of images ``[n, h, w]`` or ``[n, h, w, c]``.

    uint8 is divided by 255. Floats are taken as they are and must be finite. ``key`` and
    ``source`` say where the images are from if they are refused: raises ConfigError.
    """
    if images.ndim not in (3, 4) or 0 in images.shape:
        allowed = f"{source} has shape {list(images.shape)}; needs [n, h, w] or [n, h, w, c]"
        raise ConfigError(key, source, allowed)
    if images.dtype == np.uint8:
        pixels = images.astype(np.float32) / np.float32(255)
    elif np.issubdtype(images.dtype, np.floating):
        pixels = images.astype(np.float32)
        if not np.isfinite(pixels).all():
            row = int(np.argwhere(~np.isfinite(pixels))[0, 0]) + 1
            raise ConfigError(key, source, f"image {row} has a value that is not finite")
    else:
        raise ConfigError(key, source, f"{source} has dtype {images.dtype}; needs uint8 or a float")
    stacked = pixels[:, None] if images.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(stacked)
