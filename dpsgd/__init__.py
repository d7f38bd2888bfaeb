"""The clipping atlas: which kinds of example does a DP-SGD clipping rule erase?"""

__version__ = "0.1.0"
