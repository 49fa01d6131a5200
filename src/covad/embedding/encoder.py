"""The encoder f_theta: events -> z (sec:stage1). Its kinds differ in the network only.

`covad.embedding.encoders` makes and loads one of the kind that the settings ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from covad.embedding.dense import dense
from covad.embedding.frame import EventFrame
from covad.embedding.scaling import InputScaling
from covad.embedding.settings import EncoderSettings
from covad.events.layout import EventLayout
from covad.storage.tensors import save_weights


class Encoder(nn.Module, ABC):
    """Events -> z. `project` gives the normalised vectors on which the contrastive loss acts."""

    def __init__(self, layout: EventLayout, scaling: InputScaling, settings: EncoderSettings) -> None:
        super().__init__()
        scaling.check(layout)
        self.layout, self.scaling, self.settings = layout, scaling, settings
        self.frame = EventFrame.of(layout, settings.axis) if settings.frame == "event" else None
        self._build()
        p = settings.projector
        self.head = dense((settings.outputs, p, p, p))

    @abstractmethod
    def _build(self) -> None:
        """Make the network; the projector comes after it."""

    @abstractmethod
    def forward(self, particles: NDArray[np.float32]) -> torch.Tensor:
        """Return z of every event, (N, outputs); particles are events x slots x features."""

    @abstractmethod
    def padded(self, particles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return z of padded events, as one graph: `mask` (N, slots) says where an object is."""

    def framed(self, particles: torch.Tensor) -> torch.Tensor:
        """Return events as the network sees them: of the detector, or in their own frames."""
        return particles if self.frame is None else self.frame(particles)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def outputs(self) -> int:
        return self.settings.outputs

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"z{number}" for number in range(self.outputs))

    @torch.no_grad()
    def encode(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return z of some events as an array: an encoder is a space (`covad.embedding.spaces`)."""
        z: NDArray[np.float32] = self(particles).cpu().numpy()
        return z

    def project(self, z: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.head(z), dim=1)

    def save(self, path: Path, trained_on: dict[str, Any]) -> None:
        tensors = dict(self.state_dict())
        tensors["scaling.centre"] = torch.from_numpy(self.scaling.centre)
        tensors["scaling.width"] = torch.from_numpy(self.scaling.width)
        if self.scaling.numbers is not None:
            tensors["scaling.numbers"] = torch.from_numpy(self.scaling.numbers)
        settings = {
            "layout": self.layout.describe(),
            "encoder": self.settings.model_dump(),
            "trained_on": trained_on,
        }
        save_weights(path, "encoder", tensors, settings)
