"""Training over partitions of the nodes, whose dependencies are fetched, computed here too, or some of each (NeutronStar)."""
