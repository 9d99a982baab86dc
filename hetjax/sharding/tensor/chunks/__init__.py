"""Tensor parallelism of graphs larger than a device: a layer is computed chunk by chunk, and the rest is on the host."""
