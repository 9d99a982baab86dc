"""The kinds of RAF's traffic: the names in a report of traffic."""

PARTIAL, WEIGHTS, ROWS = "partial_aggregations", "replicated_weights", "shared_learnable_rows"
SAMPLING = "sampling"  # what processes tell each other while they sample
