"""Models as folds: what one relation contributes to a node, and how contributions combine. They never know where they run."""
