"""`python -m covad` is the command line."""

from covad.cli.main import main

main()
