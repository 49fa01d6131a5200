"""The border to the terminal: names and texts of files are shown, never obeyed."""

from __future__ import annotations

import logging
import unicodedata
from typing import Any

import click

#: Categories of characters that a terminal acts upon, or cannot show: controls, direction marks, surrogates.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_LINES = {"\n", "\t"}


def visible(text: str, keep: set[str] = _LINES) -> str:
    """Return a text with every control character written out, as in \\x1b, but those of `keep`."""
    return "".join(
        _written_out(c) if unicodedata.category(c) in _HIDDEN and c not in keep else c for c in text
    )


def _written_out(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text on stdout, or on stderr."""
    click.echo(visible(text), err=err, nl=nl)


def complain(sentence: str, code: int) -> int:
    """Print one sentence, in one line, on stderr and return the exit code."""
    click.echo(f"covad: {visible(sentence, keep=set())}", err=True)
    return code


class LogFormatter(logging.Formatter):
    """Messages of covad, one line each."""

    def __init__(self) -> None:
        super().__init__("covad: %(message)s")

    def format(self, record: Any) -> str:
        return visible(super().format(record))
