"""The version of Ottla: a leaf, so that a connection can name it without importing the package's clients."""

__version__ = "0.1.0"
