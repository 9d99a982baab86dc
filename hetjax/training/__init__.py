"""The parts of the training loop: the run and its folder, records and loggers, saving, meters, and the guard of the loss."""
