"""hetjax: exact, fast training of heterogeneous graph neural networks in JAX."""
