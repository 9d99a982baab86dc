"""Where node features live, and how learnable rows are updated."""
