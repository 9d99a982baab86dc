"""Readers: from the formats that people already have to a `HetGraph`."""
