"""One run in several processes, which `torchrun` starts: each computes a share of every batch."""
