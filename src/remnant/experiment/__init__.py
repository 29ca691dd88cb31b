"""Execution of an experiment: runner, checkpoints, evaluation, metrics, loggers."""
