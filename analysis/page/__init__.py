"""The interactive page: one self-contained file of linked charts, and the lab."""
