"""Read finished runs and draw the atlas. Imports neither torch nor dpsgd."""
