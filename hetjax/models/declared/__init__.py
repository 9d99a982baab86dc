"""The options of each model: a module per `model.name` that has some, with a dataclass `Options`; no jax and no model is imported."""
