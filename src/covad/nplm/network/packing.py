"""Data and reference as one list of weighted events, packed for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Dataset, Float64
from covad.nplm.network.kernels import TILE

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PackedEvents:
    """Events with coordinates z, response g (and D), observed multiplicity n and expected weight w.

    An event of the data has n = 1 and w = 0, one of the reference n = 0 and its weight:
    log L = sum_i [n_i f(z_i) - w_i (e^{f(z_i)} - 1)].
    """

    z: Floats  # (events, dimensions)
    linear: Floats  # (events, K)
    quadratic: Floats | None  # (events, K, K)
    observed: Float64
    expected: Float64
    normalisation: bool

    @classmethod
    def of(cls, dataset: Dataset) -> PackedEvents:
        """Join the data and then the reference."""
        first, second = dataset.data_response, dataset.reference_response
        quadratic = None
        if first.quadratic is not None and second.quadratic is not None:
            quadratic = np.concatenate([first.quadratic, second.quadratic])
        n_data, n_reference = len(dataset.data), len(dataset.reference)
        return cls(
            z=np.concatenate([dataset.data, dataset.reference]),
            linear=np.concatenate([first.linear, second.linear]),
            quadratic=quadratic,
            observed=np.concatenate([np.ones(n_data), np.zeros(n_reference)]),
            expected=np.concatenate([np.zeros(n_data), dataset.weights]),
            normalisation=dataset.normalisation is not None,
        )

    def __len__(self) -> int:
        return len(self.z)

    @property
    def n_columns(self) -> int:
        """Return the number of nuisances: those of the shape and the normalisation."""
        return int(self.linear.shape[1]) + self.normalisation

    def columns(self) -> Floats:
        """Return (g, 1), (events, nuisances)."""
        ones = np.ones((len(self), int(self.normalisation)), dtype=self.linear.dtype)
        return np.concatenate([self.linear, ones], axis=1)


@np.errstate(over="ignore")
def pack(columns: Floats, dtype: type[np.floating[Any]]) -> Floats:
    """Pack (events, columns) as (tiles, columns, TILE); events beyond the end are 0, overflows infinite."""
    n_events, n_columns = columns.shape
    n_tiles = -(-n_events // TILE)
    padded = np.zeros((n_tiles * TILE, n_columns), dtype=dtype)
    padded[:n_events] = columns
    return np.ascontiguousarray(padded.reshape(n_tiles, TILE, n_columns).transpose(0, 2, 1))


def unpack(tiles: Floats, n_events: int) -> Floats:
    """Unpack (tiles, TILE) to (events,)."""
    return tiles.reshape(-1)[:n_events]
