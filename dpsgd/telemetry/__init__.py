"""What clipping did to whom, over time."""
