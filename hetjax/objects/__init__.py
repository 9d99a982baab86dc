"""Graphs from what Python users have: arrays and lists, frames, PyG, DGL and networkx objects; and back to each."""
