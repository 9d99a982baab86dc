"""Options that the user leaves open, chosen by the graph, and checked against one another."""
