"""What covad says while it works: its own lines on stderr, in its own words, and no other."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import TextIO

#: The lines of all rooms.
LOG = logging.getLogger("covad")


class _Stderr(logging.StreamHandler[TextIO]):
    """Write to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def show_messages(level: int = logging.INFO) -> None:
    """Show covad's lines from this level on, and nothing that the libraries log."""
    LOG.setLevel(level)
    if not any(isinstance(handler, _Stderr) for handler in LOG.handlers):
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("covad: %(message)s"))
        LOG.addHandler(handler)
        logging.getLogger().addHandler(logging.NullHandler())  # or Python shows what nobody handles


def hide_library_warnings() -> None:
    """Hide what libraries warn their programmers of, unless Python itself was asked to show it (-W)."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def counted(number: int, noun: str) -> str:
    """Return '1 file' or '3 files'."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def time_left(seconds: float) -> str:
    """Return a time that was estimated: '40 s', '3 min', '2 h 10 min'."""
    if seconds < 90:
        return f"{max(seconds, 1.0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
