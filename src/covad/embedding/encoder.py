"""The encoder f_theta: a transformer over the objects that are present in an event (sec:stage1).

An event of the paper's layout has 19 slots, but only 3 to 8 objects. The encoder never computes padding: a
batch is cut into groups of events with the same number of objects, which gives the same result as padded
batches with a mask, several times faster. Each object is a token with the embedding of its collection; one
more token (CLS) gathers the event, and its last state is projected to z; so the last block computes it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from covad.embedding.settings import EncoderSettings
from covad.errors import CovadError, FileFormatError, LayoutError
from covad.events.layout import EventLayout, Events
from covad.storage.tensors import load_weights, save_weights

#: Features that are angles: they enter as sine and cosine, which have no seam.
ANGLES = ("phi",)


@dataclass(frozen=True)
class InputScaling:
    """Centre and width per collection and feature; the first feature, a momentum, enters as logarithm."""

    centre: NDArray[np.float32]  # (collections, features)
    width: NDArray[np.float32]

    @classmethod
    def fit(cls, events: Events) -> InputScaling:
        """Fit the objects of events; those of events with weights count by |w|, as batches are drawn."""
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
        return cls(centre, width)

    def check(self, layout: EventLayout) -> None:
        expected = (len(layout.collections), len(layout.features))
        if self.centre.shape != expected or self.width.shape != expected:
            raise LayoutError(
                f"the encoder was made for (collections, features) {self.centre.shape}, not {expected}"
            )

    def inputs(self, objects: torch.Tensor, kind: torch.Tensor, layout: EventLayout) -> torch.Tensor:
        """Return the network inputs of present objects (..., features), each of collection `kind`."""
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


class AttentionBlock(nn.Module):
    """Attention and feed-forward with residuals, normalised before each."""

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__()
        d = settings.width
        self.heads = settings.heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.key_value, self.merge = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.widen, self.narrow = nn.Linear(d, settings.feed_forward), nn.Linear(settings.feed_forward, d)

    def forward(self, x: torch.Tensor, n_asked: int | None = None) -> torch.Tensor:
        """Return new states of the first `n_asked` tokens (all by default); they attend to every token."""
        normed = self.norm1(x)
        asking = self._by_head(self.query(normed[:, :n_asked]))
        key, value = (self._by_head(part) for part in self.key_value(normed).chunk(2, dim=2))
        mixed = scaled_dot_product_attention(asking, key, value).transpose(1, 2).flatten(2)
        x = x[:, :n_asked] + self.merge(mixed)
        out: torch.Tensor = x + self.narrow(torch.nn.functional.gelu(self.widen(self.norm2(x))))
        return out

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        """Reshape (events, tokens, width) to (events, heads, tokens, width per head)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class Encoder(nn.Module):
    """Events -> z. `project` gives the normalised vectors on which the contrastive loss acts."""

    def __init__(self, layout: EventLayout, scaling: InputScaling, settings: EncoderSettings) -> None:
        super().__init__()
        scaling.check(layout)
        self.layout, self.scaling, self.settings = layout, scaling, settings
        d, p = settings.width, settings.projector
        self.lift = nn.Linear(sum(2 if feature in ANGLES else 1 for feature in layout.features), d)
        self.kinds = nn.Embedding(len(layout.collections), d)
        self.cls = nn.Parameter(torch.zeros(d))
        self.blocks = nn.ModuleList(AttentionBlock(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, settings.outputs)
        self.head = nn.Sequential(
            nn.Linear(settings.outputs, p), nn.GELU(), nn.Linear(p, p), nn.GELU(), nn.Linear(p, p)
        )

    def forward(self, particles: NDArray[np.float32]) -> torch.Tensor:
        """Return z of every event, (N, outputs); particles are events x slots x features."""
        groups = group_by_multiplicity(particles, self.layout)
        if not groups:
            return torch.zeros(0, self.settings.outputs)
        *inner, last = self.blocks
        parts = []
        for _, objects, kind in groups:
            tokens = self.lift(self.scaling.inputs(objects, kind, self.layout)) + self.kinds(kind)
            x = torch.cat([self.cls.expand(len(tokens), 1, -1), tokens], dim=1)
            for block in inner:
                x = block(x)
            parts.append(self.out(self.norm(last(x, n_asked=1)[:, 0])))
        order = np.concatenate([rows for rows, _, _ in groups])
        return torch.cat(parts)[torch.from_numpy(np.argsort(order))]

    @property
    def outputs(self) -> int:
        return self.settings.outputs

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"z{number}" for number in range(self.outputs))

    @torch.no_grad()
    def encode(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return z of some events as an array: an encoder is a space (`covad.embedding.spaces`)."""
        z: NDArray[np.float32] = self(particles).numpy()
        return z

    def project(self, z: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.head(z), dim=1)

    def save(self, path: Path, trained_on: dict[str, Any]) -> None:
        tensors = dict(self.state_dict())
        tensors["scaling.centre"] = torch.from_numpy(self.scaling.centre)
        tensors["scaling.width"] = torch.from_numpy(self.scaling.width)
        settings = {
            "layout": self.layout.describe(),
            "encoder": self.settings.model_dump(),
            "trained_on": trained_on,
        }
        save_weights(path, "encoder", tensors, settings)

    @classmethod
    def load(cls, path: Path, layout: EventLayout | None = None) -> Encoder:
        """Read an encoder; with a layout, refuse one that was made for another."""
        tensors, stored = load_weights(path, "encoder")
        try:
            made_for = EventLayout.from_description(stored["layout"])
            scaling = InputScaling(
                tensors.pop("scaling.centre").numpy(), tensors.pop("scaling.width").numpy()
            )
            encoder = cls(made_for, scaling, EncoderSettings(**stored["encoder"]))
            encoder.load_state_dict(tensors)
        except (KeyError, RuntimeError, TypeError, CovadError) as failure:
            raise FileFormatError(
                f"{path}: the stored encoder is incomplete ({failure}); delete it and run again"
            ) from failure
        if layout is not None and layout != made_for:
            raise FileFormatError(
                f"{path}: the encoder was trained for another event layout; delete it and run again"
            )
        return encoder


Group = tuple[NDArray[np.int64], torch.Tensor, torch.Tensor]


def group_by_multiplicity(particles: NDArray[np.float32], layout: EventLayout) -> list[Group]:
    """Group events of equal multiplicity: their rows, present objects, and the collection of each."""
    present = particles[..., 0] > 0
    number = present.sum(axis=1)
    groups = []
    for n in np.unique(number):
        rows = np.flatnonzero(number == n)
        slots = np.nonzero(present[rows])[1].reshape(len(rows), n)
        objects = particles[rows[:, None], slots]
        groups.append((rows, torch.from_numpy(objects), torch.from_numpy(layout.slot_collection[slots])))
    return groups
