"""Reports: the summary of a run, published results to compare it with, transition matrices."""
