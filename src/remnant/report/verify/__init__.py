"""Comparison of results with the numbers and the claims of the paper."""
