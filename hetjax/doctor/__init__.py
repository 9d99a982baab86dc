"""Checks of the installation, the machine and a graph, each with its remedy."""
