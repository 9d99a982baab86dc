"""The strategy of one device: the plain path, which every other strategy equals."""
