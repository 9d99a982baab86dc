"""Formula 1: a relational dump of 13 tables becomes a graph, and a model predicts podiums from the facts known before each race."""
