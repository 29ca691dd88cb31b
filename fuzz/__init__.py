"""Fuzzing of every parser of the package; `make fuzz`."""
