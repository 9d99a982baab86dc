"""Strategies: training and evaluation of a model on one device, and on meshes of devices, a folder per strategy."""
