"""Tensor parallelism: the columns are divided, and every device folds all edges."""
