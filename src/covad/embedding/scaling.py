"""Inputs of encoders: momenta as logarithms, angles as sine and cosine, scaled on nominal events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.errors import LayoutError
from covad.events.layout import EventLayout, Events

#: Features that are angles: they enter as sine and cosine, which have no seam.
ANGLES = ("phi",)


@dataclass(frozen=True)
class InputScaling:
    """Centre and width per collection and feature; the first feature, a momentum, enters as logarithm.

    `numbers` scale how many objects of each collection an event has; None if the encoder is not told.
    """

    centre: NDArray[np.float32]  # (collections, features)
    width: NDArray[np.float32]
    numbers: NDArray[np.float32] | None = None  # centre and width, (2, collections)

    @classmethod
    def fit(cls, events: Events, counted: bool = False) -> InputScaling:
        """Fit the objects of events; those of events with weights count by |w|, as batches are drawn.

        `counted` fits the numbers of objects too, for encoders that are told them.
        """
        layout = events.layout
        shape = (len(layout.collections), len(layout.features))
        centre, width = np.zeros(shape, np.float32), np.ones(shape, np.float32)
        for i, collection in enumerate(layout.collections):
            filled = events.present(collection.name)
            present = events.objects(collection.name)[filled].astype(np.float64)
            if len(present) < 2:
                continue
            present[:, 0] = np.log(present[:, 0])
            if events.weights is None:
                spread, mean = present.std(axis=0), present.mean(axis=0)
            else:
                size = np.abs(events.weights)[np.nonzero(filled)[0]]
                if not size.any():
                    continue
                mean = np.average(present, axis=0, weights=size)
                spread = np.sqrt(np.average((present - mean) ** 2, axis=0, weights=size))
            centre[i] = mean
            width[i] = np.where(spread > 1e-6, spread, 1.0)
        return cls(centre, width, _fit_numbers(events) if counted else None)

    def check(self, layout: EventLayout) -> None:
        expected = (len(layout.collections), len(layout.features))
        if self.centre.shape != expected or self.width.shape != expected:
            raise LayoutError(
                f"the encoder was made for (collections, features) {self.centre.shape}, not {expected}"
            )

    def inputs(self, objects: torch.Tensor, kind: torch.Tensor, layout: EventLayout) -> torch.Tensor:
        """Return the network inputs of present objects (..., features), each of collection `kind`."""
        centre, width = (torch.from_numpy(x).to(objects.device)[kind] for x in (self.centre, self.width))
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

    def slots(self, particles: torch.Tensor, mask: torch.Tensor, layout: EventLayout) -> torch.Tensor:
        """Return inputs of fixed length, (events, slots, columns + 1): zero where a slot is empty.

        The last column says whether there is an object.
        """
        filled = torch.where(mask.unsqueeze(-1), particles, torch.ones_like(particles))
        kind = torch.from_numpy(layout.slot_collection).to(particles.device)
        inputs = self.inputs(filled, kind, layout) * mask.unsqueeze(-1)
        return torch.cat([inputs, mask.unsqueeze(-1).to(inputs.dtype)], dim=-1)

    def multiplicities(self, mask: torch.Tensor, layout: EventLayout) -> torch.Tensor:
        """Return the scaled number of objects of every collection, (events, collections)."""
        if self.numbers is None:
            raise TypeError("this scaling was fitted without the numbers of objects")
        centre, width = torch.from_numpy(self.numbers).to(mask.device)
        number = mask.to(centre.dtype) @ torch.from_numpy(_membership(layout)).to(mask.device)
        scaled: torch.Tensor = (number - centre) / width
        return scaled


def n_columns(layout: EventLayout) -> int:
    """Return the network inputs of one object."""
    return sum(2 if feature in ANGLES else 1 for feature in layout.features)


def _membership(layout: EventLayout) -> NDArray[np.float32]:
    """Return which slot belongs to which collection, (slots, collections), as 0 and 1."""
    return np.eye(len(layout.collections), dtype=np.float32)[layout.slot_collection]


def _fit_numbers(events: Events) -> NDArray[np.float32]:
    number = (events.particles[..., 0] > 0).astype(np.float64) @ _membership(events.layout)
    size = np.abs(events.event_weights)
    mean = np.average(number, axis=0, weights=size)
    spread = np.sqrt(np.average((number - mean) ** 2, axis=0, weights=size))
    return np.stack([mean, np.where(spread > 1e-6, spread, 1.0)]).astype(np.float32)
