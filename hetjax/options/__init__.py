"""The options of every command: their defaults and checks, their help, and how they are read; no jax."""
