"""Grids of runs, executed by processes of this machine, by Ray or by SLURM."""
