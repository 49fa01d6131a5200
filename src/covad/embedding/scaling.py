"""From objects to network inputs: one scaling, fitted once on nominal events and stored with the encoder.

A scaling that were fitted again on every shifted sample would hide part of the shift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.errors import LayoutError
from covad.events.layout import EventLayout, Events

#: Features that are angles: they enter as sine and cosine, which have no seam.
ANGLES = ("phi",)


def n_inputs(layout: EventLayout) -> int:
    """Numbers that describe one object to the network."""
    return sum(2 if feature in ANGLES else 1 for feature in layout.features)


@dataclass(frozen=True)
class InputScaling:
    """Centre and width per collection and feature; the first feature, a momentum, enters as logarithm."""

    centre: NDArray[np.float32]  # (collections, features)
    width: NDArray[np.float32]

    @classmethod
    def fit(cls, events: Events) -> InputScaling:
        layout = events.layout
        shape = (len(layout.collections), len(layout.features))
        centre, width = np.zeros(shape, np.float32), np.ones(shape, np.float32)
        for i, collection in enumerate(layout.collections):
            present = events.objects(collection.name)[events.present(collection.name)].astype(np.float64)
            if len(present) < 2:
                continue
            present[:, 0] = np.log(present[:, 0])
            spread = present.std(axis=0)
            centre[i] = present.mean(axis=0)
            width[i] = np.where(spread > 1e-6, spread, 1.0)
        return cls(centre, width)

    def check(self, layout: EventLayout) -> None:
        expected = (len(layout.collections), len(layout.features))
        if self.centre.shape != expected or self.width.shape != expected:
            raise LayoutError(
                f"the encoder was made for (collections, features) {self.centre.shape}, not {expected}"
            )

    def inputs(self, objects: torch.Tensor, kind: torch.Tensor, layout: EventLayout) -> torch.Tensor:
        """Network inputs of present objects (..., features), each of collection `kind`."""
        centre, width = torch.from_numpy(self.centre)[kind], torch.from_numpy(self.width)[kind]
        columns = []
        for number, feature in enumerate(layout.features):
            value = objects[..., number]
            if feature in ANGLES:
                columns += [torch.sin(value), torch.cos(value)]
                continue
            if number == 0:
                value = torch.log(value)
            columns.append((value - centre[..., number]) / width[..., number])
        return torch.stack(columns, dim=-1)
