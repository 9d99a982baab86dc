"""Graphs from tables: `python -m hetjax.ingest --config graph.json --out STORE`, by the configuration of GraphStorm's gconstruct."""
