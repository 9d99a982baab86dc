"""The version of the package, which the build reads from the text."""

__version__ = "0.1.0"
