"""What RAF sends, by kind: the names that a report of traffic has."""

PARTIAL, WEIGHTS, ROWS = "partial_aggregations", "replicated_weights", "shared_learnable_rows"
SAMPLING = "sampling"  # what processes tell each other while they sample
