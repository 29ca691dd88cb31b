"""Trained networks in files, which can be loaded and used without the training data."""
