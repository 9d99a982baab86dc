"""The use of a run that was trained: predictions, answers for a few nodes, and a start for another run."""
