"""Computation: optimizers, learning-rate schedules, inference, threads."""
