"""`python -m covad` is the command line."""

from covad.cli import main

main()
