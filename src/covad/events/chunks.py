"""Datasets that grow by whole storage chunks, compressed here and not by HDF5: twice as fast, and in threads.

Event arrays are mostly padding. Deflate that looks for runs only (`Z_RLE`) finds it as well as the search of
HDF5's own filter, which costs more than to read and convert the events. What is written is the same format:
every HDF5 program reads it.
"""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray


class GrowingChunks:
    """A dataset of HDF5, chunked along its first axis and declared as gzip, to append rows to."""

    def __init__(self, dataset: Any, threads: int) -> None:
        self._dataset = dataset
        self._threads = threads
        self._length = int(dataset.chunks[0])
        self._written = 0
        self._waiting = np.empty((0, *dataset.shape[1:]), dtype=dataset.dtype)

    def append(self, rows: NDArray[Any]) -> None:
        """Write all chunks that are full with these rows; the others wait for more."""
        needed = (self._length - len(self._waiting)) % self._length
        begun = np.concatenate([self._waiting, rows[:needed]])
        if len(begun) < self._length and needed:
            self._waiting = begun
            return
        full = needed + (len(rows) - needed) // self._length * self._length
        whole = [rows[start : start + self._length] for start in range(needed, full, self._length)]
        self._write([begun, *whole] if needed else whole, len(begun) + full - needed)
        self._waiting = rows[full:].copy()

    def finish(self) -> None:
        """Write what waits; the last chunk of a dataset is a whole one too, filled with zeros."""
        if rows := len(self._waiting):
            last = np.zeros((self._length, *self._waiting.shape[1:]), dtype=self._waiting.dtype)
            last[:rows] = self._waiting
            self._write([last], rows)

    def _write(self, chunks: list[NDArray[Any]], n_rows: int) -> None:
        self._dataset.resize(self._written + n_rows, axis=0)
        corner = (0,) * (len(self._dataset.shape) - 1)
        with ThreadPoolExecutor(self._threads) as pool:
            for piece in pool.map(_compressed, chunks):
                self._dataset.id.write_direct_chunk((self._written, *corner), piece)
                self._written += self._length


def _compressed(rows: NDArray[Any]) -> bytes:
    deflate = zlib.compressobj(1, strategy=zlib.Z_RLE)
    return deflate.compress(np.ascontiguousarray(rows).data) + deflate.flush()
