"""Formula 1: a relational dump of 13 tables becomes a graph, and a model predicts podiums from what was known before each race."""
