"""Options that one task alone has, a module per task; nothing here imports jax."""
