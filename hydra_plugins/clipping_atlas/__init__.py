"""The clipping atlas's plugin for Hydra: a sweeper that finishes.

Hydra imports and runs every module here at every start, in every job, but those whose names begin
with an underscore: the plugin itself is in ``sweeper``, all else is in those.
"""
