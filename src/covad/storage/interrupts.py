"""Interrupts that wait until a library has left a state it cannot be interrupted in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM act when the block has ended, not within.

    A signal raises an exception between any two steps. One that comes between opening a file of HDF5 and
    handing it to who closes it leaves the file open, and HDF5 then fails when the interpreter ends. Python
    runs the handlers of signals in the main thread only, so that other threads need nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: dict[int, None] = {}
    try:
        with _held(signal.SIGINT, arrived), _held(signal.SIGTERM, arrived):
            yield
    finally:
        for number in arrived:
            signal.raise_signal(number)


@contextmanager
def _held(number: signal.Signals, arrived: dict[int, None]) -> Iterator[None]:
    """Note a signal instead of handling it; one that is ignored, or not handled by Python, is left alone."""
    before = signal.getsignal(number)
    if before is None or before is signal.SIG_IGN:
        yield
        return
    signal.signal(number, lambda number, _: arrived.setdefault(number))
    try:
        yield
    finally:
        signal.signal(number, before)
