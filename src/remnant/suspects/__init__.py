"""Suspect labels: statistics of training, scores, thresholds, and the table of suspects."""
