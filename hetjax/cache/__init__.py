"""The cache of node features on the device, and the tables of learned rows on the host that it reads from."""
