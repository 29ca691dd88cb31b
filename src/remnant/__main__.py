"""Entry point of `python -m remnant`."""

from remnant.cli import main

main()
