"""Continual learning under noisy labels."""
