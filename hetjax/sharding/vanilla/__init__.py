"""Vanilla execution: data parallelism over an edge-cut of the nodes, which fetches the features of others' nodes."""
