"""CNLL (Karim et al., 2022): an algorithm with its own training loop."""

from remnant.methods.cnll.method import Cnll as Cnll
