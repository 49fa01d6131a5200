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
    arrived: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
        if arrived:
            signal.raise_signal(arrived[0])
