"""Neighbour sampling: which edges a step folds, as arrays of static shape."""
