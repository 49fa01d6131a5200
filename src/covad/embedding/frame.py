"""The frame of an event: physics knows no azimuth of the detector, and no sign of eta or of azimuth.

The azimuth of every object becomes relative to an axis of the event. The event is mirrored so that the axis
has eta >= 0, and so that the missing momentum lies at a positive relative azimuth. An event that is rotated
or mirrored as a whole looks the same in its frame, and an encoder need not learn that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from covad.errors import UnknownNameError
from covad.events.layout import EventLayout
from covad.events.observables import LEPTONS

#: Collections of the missing momentum: no axis if there is another, but the first choice for the mirror.
MISSING = ("met", "puppimet", "missing", "missing_momentum")


@dataclass(frozen=True)
class EventFrame:
    """Turns events of a layout into their own frames: a pure function of each event.

    The axis is the object of largest momentum among the slots `axis`, or among all that have an azimuth if
    these are empty. The mirror is the first of `mirror`, or the largest object that is not the axis.
    """

    layout: EventLayout
    axis: NDArray[np.bool_]  # slots
    mirror: NDArray[np.bool_]

    @classmethod
    def of(cls, layout: EventLayout, axis: Sequence[str] | None = None) -> EventFrame:
        """Return the frame with these collections for the axis; None: leptons, else all that are there.

        Raise UnknownNameError if the layout does not have one of them, or has no azimuth for it.
        """
        names = [c.name for c in layout.collections]
        missing = [name for name in names if name.lower() in MISSING]
        for name in axis or ():
            if "phi" not in layout.collection(name).features:
                raise UnknownNameError(f"the collection '{name}' has no phi, which an axis needs")
        if axis is None:
            leptons = [name for name in names if name.lower().removesuffix("s") in LEPTONS]
            axis = leptons or [name for name in names if name not in missing]
        slots = np.array(names)[layout.slot_collection]
        return cls(layout, np.isin(slots, list(axis)), np.isin(slots, missing))

    def __call__(self, particles: torch.Tensor) -> torch.Tensor:
        """Return the objects in the frames of their events; empty slots are zero before and after."""
        columns = list(particles.unbind(dim=-1))
        momentum, features = columns[0], self.layout.features
        # without an azimuth the axis only says which side of the detector is positive
        turning = self._offered("phi" if "phi" in features else features[0], particles)
        axis = _leading(momentum * turning, torch.from_numpy(self.axis).to(particles.device))
        if "eta" in features:
            eta = columns[layout_eta := features.index("eta")]
            along = (eta * axis).sum(dim=1, keepdim=True)
            # an axis without eta, a missing momentum for instance, leaves the choice to all objects
            along = torch.where(along == 0, (momentum * eta).sum(dim=1, keepdim=True), along)
            columns[layout_eta] = torch.where(along < 0, -eta, eta)
        if "phi" in features:
            phi = columns[layout_phi := features.index("phi")]
            relative = phi - (phi * axis).sum(dim=1, keepdim=True)
            relative = relative - 2 * math.pi * torch.round(relative / (2 * math.pi))
            relative = torch.where((momentum > 0) & turning, relative, torch.zeros_like(phi))
            others = torch.where(axis, torch.zeros_like(momentum), momentum * turning)
            mirror = _leading(others, torch.from_numpy(self.mirror).to(particles.device))
            side = (torch.sin(relative) * mirror).sum(dim=1, keepdim=True)
            columns[layout_phi] = torch.where(side < 0, -relative, relative)
        return torch.stack(columns, dim=-1)

    def _offered(self, feature: str, like: torch.Tensor) -> torch.Tensor:
        """Return the slots whose collection has a feature."""
        return torch.from_numpy(self.layout.offered[:, self.layout.column(feature)].copy()).to(like.device)

    def of_arrays(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the same of an array."""
        framed: NDArray[np.float32] = self(torch.from_numpy(np.ascontiguousarray(particles))).numpy()
        return framed


def _leading(momentum: torch.Tensor, preferred: torch.Tensor) -> torch.Tensor:
    """Return which object is the largest, (events, slots): a preferred one if any is there; none of none."""
    first = momentum * preferred
    score = torch.where((first > 0).any(dim=1, keepdim=True), first, momentum)
    largest = score.argmax(dim=1, keepdim=True) == torch.arange(score.shape[1], device=score.device)
    return largest & (score > 0)
