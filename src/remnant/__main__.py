"""python -m remnant."""

from remnant.cli import main

main()
