"""The state of a run on disk: checkpoints, written whole or not at all, and how far the run was."""
