"""Graphs from Python objects: arrays and lists, frames, PyG, DGL and networkx objects; and back to each."""
