"""The clipping atlas's plugin for Hydra: a sweeper that checks every cell first."""
