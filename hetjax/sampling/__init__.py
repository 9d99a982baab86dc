"""Neighbour sampling: the edges that a step aggregates, as blocks of static shape."""
