"""Tensor parallelism: the columns are divided, and every device aggregates all edges."""
