"""What covad says while it works: its own lines on stderr, in its own words, and no other."""

from __future__ import annotations

import logging
import sys
import unicodedata
import warnings
from typing import TextIO

#: Kinds of characters that a terminal acts upon or cannot show: controls, direction marks, surrogates.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
#: The lines of all rooms.
LOG = logging.getLogger("covad")


class _Stderr(logging.StreamHandler[TextIO]):
    """Write to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Formatter(logging.Formatter):
    """Show what a message quotes, whatever it is."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def show_messages(level: int = logging.INFO) -> None:
    """Show covad's lines from this level on, and nothing that the libraries log."""
    LOG.setLevel(level)
    if not any(isinstance(handler, _Stderr) for handler in LOG.handlers):
        handler = _Stderr()
        handler.setFormatter(_Formatter("covad: %(message)s"))
        LOG.addHandler(handler)
        logging.getLogger().addHandler(logging.NullHandler())  # or Python shows what nobody handles


def shows_progress() -> bool:
    """Return whether progress is wanted: always, unless only warnings are to be shown."""
    return LOG.level <= logging.INFO


def hide_library_warnings() -> None:
    """Hide what libraries warn their programmers of, unless Python itself was asked to show it (-W)."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def counted(number: int, noun: str) -> str:
    """Return '1 file' or '3 files'."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def duration_text(seconds: float) -> str:
    """Return a time in two units at most: '40 s', '3 min', '2 h 10 min'."""
    if seconds < 90:
        return f"{max(seconds, 1.0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def visible(text: str, keep: str = "\n\t") -> str:
    """Return a text with every control character written out, as in \\x1b, but those of `keep`.

    Names and texts of files pass here on their way to a terminal, which must show and not obey them.
    """
    return "".join(
        _written_out(c) if unicodedata.category(c) in _HIDDEN and c not in keep else c for c in text
    )


def _written_out(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
