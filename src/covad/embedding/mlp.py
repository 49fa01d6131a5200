"""The MLP: a fully connected network on the slots of an event, and on how many of them are filled."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.dense import dense
from covad.embedding.encoder import Encoder
from covad.embedding.scaling import n_columns


class Mlp(Encoder):
    """An encoder with inputs of fixed length: small, and fast on a CPU."""

    def _build(self) -> None:
        layout = self.layout
        n_inputs = layout.n_slots * (n_columns(layout) + 1) + len(layout.collections)
        self.layers = dense((n_inputs, *self.settings.hidden, self.settings.outputs))

    def forward(self, particles: NDArray[np.float32]) -> torch.Tensor:
        events = torch.from_numpy(np.ascontiguousarray(particles)).to(self.device)
        return self.padded(events, events[..., 0] > 0)

    def padded(self, particles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        there = torch.where(mask.unsqueeze(-1), particles, torch.zeros_like(particles))
        slots = self.scaling.slots(self.framed(there), mask, self.layout)
        numbers = self.scaling.multiplicities(mask, self.layout)
        z: torch.Tensor = self.layers(torch.cat([slots.flatten(1), numbers], dim=1))
        return z
