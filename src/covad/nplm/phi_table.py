"""Columns of pool events, computed once and memory-mapped: a toy then only gathers rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from covad.errors import DatasetError, FileFormatError
from covad.nplm.dataset import Float32
from covad.nplm.features import FeatureMap, Precomputed

#: Rows written at once.
PIECE = 65_536


@dataclass(frozen=True)
class PhiTable:
    """`rows` holds phi of every event of a pool, as float32."""

    rows: Float32
    n_ridged: int

    @classmethod
    def create(cls, path: Path, features: FeatureMap, events: Float32) -> PhiTable:
        """Compute and store phi; the file appears under its name only when it is whole."""
        unfinished = path.with_name(path.name + ".part")
        table = np.lib.format.open_memmap(
            unfinished, mode="w+", dtype=np.float32, shape=(len(events), features.n_columns)
        )
        for start in range(0, len(events), PIECE):
            features.fill(events[start : start + PIECE], table[start : start + PIECE])
        table.flush()
        with unfinished.open("rb") as stream:
            os.fsync(stream.fileno())
        unfinished.replace(path)
        return cls.open(path, features)

    @classmethod
    def open(cls, path: Path, features: FeatureMap) -> PhiTable:
        """Map a stored table; the features must be those that it was made with."""
        try:
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as bad:
            raise FileFormatError(f"{path} is not a table of features: {bad}") from bad
        if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != features.n_columns:
            raise FileFormatError(
                f"{path} holds {rows.dtype} of shape {rows.shape}, "
                f"float32 with {features.n_columns} columns was expected"
            )
        return cls(rows, features.n_ridged)

    @property
    def features(self) -> Precomputed:
        """The map that belongs to gathered rows."""
        return Precomputed(self.rows.shape[1], self.n_ridged)

    def gather(self, indices: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Float32:
        """Rows of the events with these indices, which stand for the events in a `Dataset`."""
        if len(indices) and not (indices.min() >= 0 and indices.max() < len(self.rows)):
            raise DatasetError(f"events beyond the {len(self.rows)} of the table of features were asked for")
        gathered: Float32 = np.take(self.rows, indices, axis=0)
        return gathered
