"""The border to the terminal: names and texts of files are shown, never obeyed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from covad.messages import visible
from covad.storage.atomic import replacing, writing

#: What a shell says of a program whose reader has left: 128 + SIGPIPE.
CLOSED_PIPE = 141


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text on stdout, or on stderr."""
    try:
        click.echo(visible(text), err=err, nl=nl)
    except BrokenPipeError:
        leave_quietly()


def complain(sentence: str, code: int) -> int:
    """Print one sentence, in one line, on stderr and return the exit code."""
    with suppress(BrokenPipeError):
        click.echo(f"covad: {visible(sentence, keep='')}", err=True)
    return code


def leave_quietly() -> NoReturn:
    """End because nobody reads what is printed, as in `covad status RUN | head -1`: that is no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # for what is still in the buffer
    sys.exit(CLOSED_PIPE)


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; a pipe or a device, such as /dev/stdout, is written to as it is."""
    if path.exists() and not path.is_file():
        with writing(path):
            path.write_text(text)
        return
    with replacing(path.resolve()) as temporary, writing(path):
        temporary.write_text(text)
