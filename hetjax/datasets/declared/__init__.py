"""The options of each reader: a module per `data.format` that has some, with a dataclass `Options`; no jax, numpy or reader is imported."""
