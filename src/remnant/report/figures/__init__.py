"""Figures of finished runs: those of the paper, and those that compare methods. matplotlib is optional."""
