"""The standardisation of z, which belongs to the pools of a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.nplm.scale import RobustScale
from covad.runs.directory import SCALE
from covad.storage.json_files import read_json
from covad.storage.ledger import Product


@dataclass(frozen=True)
class Standardisation:
    """z is standardised once for the study, on the reference split; outliers do not decide its scale."""

    centre: NDArray[np.float32]
    width: NDArray[np.float32]

    @classmethod
    def of(cls, z: NDArray[np.float32]) -> Standardisation:
        scale = RobustScale.of(z)
        return cls(scale.location.astype(np.float32), scale.scale.astype(np.float32))

    def __call__(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray((z - self.centre) / self.width)

    def plain(self) -> dict[str, list[float]]:
        return {"centre": self.centre.tolist(), "width": self.width.tolist()}

    @classmethod
    def restore(cls, content: Mapping[str, Any]) -> Standardisation:
        return cls(*(np.array(content[key], dtype=np.float32) for key in ("centre", "width")))


def load_scale(pools: Product) -> Standardisation:
    """Return the standardisation of z that pools were made with; it is verified."""
    path = pools.verified(f"{pools.name}/{SCALE}") / SCALE
    try:
        return Standardisation.restore(read_json(path))
    except (KeyError, TypeError, ValueError) as failure:
        raise FileFormatError(f"{path}: cannot be understood ({failure!r})") from failure
