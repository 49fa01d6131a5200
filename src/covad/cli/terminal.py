"""The border to the terminal: names and texts of files are shown, never obeyed."""

from __future__ import annotations

import click

from covad.messages import visible


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text on stdout, or on stderr."""
    click.echo(visible(text), err=err, nl=nl)


def complain(sentence: str, code: int) -> int:
    """Print one sentence, in one line, on stderr and return the exit code."""
    click.echo(f"covad: {visible(sentence, keep='')}", err=True)
    return code
