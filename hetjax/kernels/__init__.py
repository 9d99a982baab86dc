"""Sums over neighbours, attention and products, forward and backward, as operations of XLA's programs on a CPU or in plain jax."""
