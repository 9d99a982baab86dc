"""A method of partitioning a stream per file; `registry` has them by name."""
