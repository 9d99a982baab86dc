"""How a model runs: on one device, and on meshes of them."""
