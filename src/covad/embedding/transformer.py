"""The transformer: attention over the objects that are present in an event (sec:stage1).

An event of the paper's layout has 19 slots, but only 3 to 8 objects. The encoder never computes padding: a
batch is cut into groups of events with the same number of objects, which gives the same result as padded
batches with a mask, several times faster. Each object is a token with the embedding of its collection; one
more token (CLS) gathers the event, and its last state is projected to z; so the last block computes it alone.
In the frame of the event the CLS token begins with the numbers of objects, which attention can only average.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from covad.embedding.encoder import Encoder
from covad.embedding.scaling import n_columns
from covad.embedding.settings import EncoderSettings
from covad.events.layout import EventLayout


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


class Transformer(Encoder):
    """An encoder that attends to the objects of an event."""

    def _build(self) -> None:
        settings, d = self.settings, self.settings.width
        self.lift = nn.Linear(n_columns(self.layout), d)
        self.kinds = nn.Embedding(len(self.layout.collections), d)
        self.cls = nn.Parameter(torch.zeros(d))
        self.blocks = nn.ModuleList(AttentionBlock(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, settings.outputs)
        self.count = None if self.scaling.numbers is None else nn.Linear(len(self.layout.collections), d)

    def forward(self, particles: NDArray[np.float32]) -> torch.Tensor:
        device = self.device
        if self.frame is not None:
            particles = self.frame.of_arrays(particles)
        groups = group_by_multiplicity(particles, self.layout)
        if not groups:
            return torch.zeros(0, self.settings.outputs, device=device)
        *inner, last = self.blocks
        parts = []
        for rows, objects, kind in groups:
            objects, kind = objects.to(device), kind.to(device)
            tokens = self.lift(self.scaling.inputs(objects, kind, self.layout)) + self.kinds(kind)
            x = torch.cat([self._first(torch.from_numpy(particles[rows, :, 0] > 0)), tokens], dim=1)
            for block in inner:
                x = block(x)
            parts.append(self.out(self.norm(last(x, n_asked=1)[:, 0])))
        order = np.concatenate([rows for rows, _, _ in groups])
        return torch.cat(parts)[torch.from_numpy(np.argsort(order)).to(device)]

    def _first(self, mask: torch.Tensor) -> torch.Tensor:
        """Return the CLS token of every event, (events, 1, width)."""
        if self.count is None:
            return self.cls.expand(mask.shape[0], 1, -1)
        numbers = self.scaling.multiplicities(mask.to(self.device), self.layout)
        first: torch.Tensor = self.cls + self.count(numbers)
        return first.unsqueeze(1)

    def padded(self, particles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kind = torch.from_numpy(self.layout.slot_collection).to(particles.device)
        there = mask.unsqueeze(-1)
        framed = self.framed(torch.where(there, particles, torch.zeros_like(particles)))
        filled = torch.where(there, framed, torch.ones_like(particles))
        tokens = self.lift(self.scaling.inputs(filled, kind, self.layout)) + self.kinds(kind)
        x = torch.cat([self._first(mask), tokens], dim=1)
        seen = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)[:, None, None, :]
        for each in self.blocks:
            # `AttentionBlock.forward` for tokens of which only some may be attended to
            block = cast("AttentionBlock", each)
            normed = block.norm1(x)
            query, key, value = (
                part.unflatten(2, (block.heads, -1)).transpose(1, 2)
                for part in (block.query(normed), *block.key_value(normed).chunk(2, dim=2))
            )
            mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen)
            x = x + block.merge(mixed.transpose(1, 2).flatten(2))
            x = x + block.narrow(gelu(block.widen(block.norm2(x))))
        z: torch.Tensor = self.out(self.norm(x[:, 0]))
        return z


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
