"""The clipping atlas: see which kinds of example a DP-SGD clipping rule erases."""

__version__ = "0.1.0"
