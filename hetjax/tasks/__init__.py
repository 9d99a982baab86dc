"""Tasks: their examples, seeds, head, loss, metrics, predictions and baselines; they know no partition and no device."""
