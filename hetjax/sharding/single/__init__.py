"""One device: the plain path, which every other strategy equals."""
