"""L_keep: what z must retain beside the processes, so that what is unusual is not forgotten.

The paper's loss has no such term (beta = 0). Four kinds, each near 1 where nothing is kept:

observables  a decoder predicts generic observables of the event from z
inputs       a decoder predicts the objects of the event, in its frame
variance     no decoder: z must spread, in all its dimensions, within every process
changes      a classifier tells events whose objects were changed from others (`covad.events.changes`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from covad.embedding.batches import Batch, Sampler
from covad.embedding.dense import dense
from covad.embedding.frame import EventFrame
from covad.embedding.scaling import InputScaling
from covad.embedding.settings import KeepKind, TrainingSettings
from covad.errors import TrainingError, UnknownNameError
from covad.events.layout import EventLayout, Events
from covad.events.observables import Observables

#: What the decoder of `keep: observables` predicts, as far as the layout has the objects.
OBSERVABLES = (
    "log_met",
    "log_ht",
    "log_st",
    "log_mt",
    "log_m_leptons",
    "log_m_jets",
    "n_jets",
    "n_leptons",
    "log_lead_jet_pt",
    "log_lead_lepton_pt",
    "lead_lepton_abs_eta",
    "dphi_lepton_met",
)
#: Events on which targets are scaled.
_SCALED_ON = 100_000
#: Slots that fewer events fill are no targets: a single event would decide the loss.
_RARE = 0.01
#: A process with fewer events in a batch has no spread worth measuring.
_LEAST = 8
_TINY = 1e-6

Floats = NDArray[np.float32]


class Keep(nn.Module, ABC):
    """L_keep of a batch: `z` of its nominal events, by which z is standardised, and of its changed ones."""

    @abstractmethod
    def forward(self, z: torch.Tensor, z_changed: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the loss."""


class Decoded(Keep):
    """A decoder from z to targets of the event; subclasses say which.

    The loss is the mean squared error of standardised targets: 1 is a decoder that knows nothing.
    """

    kind: ClassVar[KeepKind]
    centre: torch.Tensor
    width: torch.Tensor

    def __init__(self, events: Events, n_dimensions: int, settings: TrainingSettings) -> None:
        super().__init__()
        self.layout = events.layout
        few = events[:: -(-len(events) // _SCALED_ON)]
        self.prepare(few)
        targets = self.targets(few.particles).astype(np.float64)
        varied = targets.std(axis=0) > _TINY
        self.chosen = np.flatnonzero(varied & self.frequent(few))
        if not len(self.chosen):
            raise TrainingError(f"keep: {self.kind} finds nothing that varies: leave beta and keep out")
        for name, values in (("centre", targets.mean(axis=0)), ("width", targets.std(axis=0))):
            self.register_buffer(name, torch.from_numpy(values[self.chosen]).float())
        self.decoder = dense((n_dimensions, *settings.keep_hidden, len(self.chosen)))

    @abstractmethod
    def prepare(self, events: Events) -> None:
        """Fit what the targets need."""

    @abstractmethod
    def targets(self, particles: Floats) -> Floats:
        """Return what is to be predicted, (events, targets)."""

    def frequent(self, events: Events) -> NDArray[np.bool_]:
        """Return which targets enough events have."""
        return np.ones(self.targets(events.particles[:1]).shape[1], dtype=bool)

    def forward(self, z: torch.Tensor, z_changed: torch.Tensor, batch: Batch) -> torch.Tensor:  # noqa: ARG002
        targets = torch.from_numpy(self.targets(batch.particles)[:, self.chosen]).to(z.device)
        wanted = (targets - self.centre) / self.width
        error: torch.Tensor = self.decoder(z) - wanted
        return error.square().mean()


class KeepObservables(Decoded):
    """z tells the built-in observables of `OBSERVABLES` for which the layout has the objects."""

    kind = "observables"

    def prepare(self, events: Events) -> None:
        self.observables = Observables(observables_there(events.layout))

    def targets(self, particles: Floats) -> Floats:
        return self.observables(self.layout, particles)


def observables_there(layout: EventLayout) -> tuple[str, ...]:
    """Return the names of `OBSERVABLES` that a layout has the objects for; raise TrainingError if of none."""
    nothing = np.zeros((1, *layout.shape), dtype=np.float32)
    there = []
    for name in OBSERVABLES:
        try:
            Observables((name,))(layout, nothing)
        except UnknownNameError:
            continue
        there.append(name)
    if not there:
        raise TrainingError(
            "keep: observables needs a collection of jets, leptons or missing momentum, called as in the "
            "list of built-in observables: take keep: inputs"
        )
    return tuple(there)


class KeepInputs(Decoded):
    """z tells the objects of the event in its frame: presence, log momentum, eta, relative azimuth."""

    kind = "inputs"

    def prepare(self, events: Events) -> None:
        self.frame = EventFrame.of(events.layout)
        framed = self.frame.of_arrays(events.particles)
        self.scaling = InputScaling.fit(replace(events, particles=framed))

    def targets(self, particles: Floats) -> Floats:
        framed = self.frame(torch.from_numpy(np.ascontiguousarray(particles)))
        slots = self.scaling.slots(framed, framed[..., 0] > 0, self.layout)
        return np.asarray(slots.flatten(1).numpy())

    def frequent(self, events: Events) -> NDArray[np.bool_]:
        filled = (events.particles[..., 0] > 0).mean(axis=0) >= _RARE
        columns = self.targets(events.particles[:1]).shape[1] // len(filled)
        return np.repeat(filled, columns)


class KeepVariance(Keep):
    """z spreads within every process as widely as over all, and its dimensions are uncorrelated there.

    Two terms, each weighted by the events of a process: the mean over dimensions of max(0, 1 - spread), which
    is 1 where a process is a point, and the mean over dimensions of the sum of squared covariances with the
    others.
    """

    def forward(self, z: torch.Tensor, z_changed: torch.Tensor, batch: Batch) -> torch.Tensor:  # noqa: ARG002
        terms, sizes = [], []
        for label in np.unique(batch.labels):
            of_process = z[torch.from_numpy(np.flatnonzero(batch.labels == label)).to(z.device)]
            if len(of_process) < _LEAST:
                continue
            spread = torch.sqrt(of_process.var(dim=0) + _TINY)
            covariance = torch.cov(of_process.T).reshape(z.shape[1], z.shape[1])
            mixed = covariance.square().sum() - covariance.diagonal().square().sum()
            terms.append(torch.relu(1.0 - spread).mean() + mixed / z.shape[1])
            sizes.append(len(of_process))
        if not terms:
            return z.sum() * 0.0
        share = torch.tensor(sizes, dtype=z.dtype, device=z.device) / sum(sizes)
        return (torch.stack(terms) * share).sum()


class KeepChanges(Keep):
    """z tells changed events from others, and by which change.

    The loss is the cross entropy of a classifier, in units of that of one which knows the numbers alone.
    """

    def __init__(self, n_dimensions: int, n_changes: int, settings: TrainingSettings) -> None:
        super().__init__()
        self.classifier = dense((n_dimensions, *settings.keep_hidden, 1 + n_changes))

    def forward(self, z: torch.Tensor, z_changed: torch.Tensor, batch: Batch) -> torch.Tensor:
        if batch.changed is None:
            raise ValueError("keep: changes needs batches with changed events")
        if not len(z_changed):  # none of them has passed the cuts
            return z.sum() * 0.0
        kinds = np.concatenate([np.zeros(len(z), dtype=np.int64), 1 + batch.changed.changes])
        shares = np.unique(kinds, return_counts=True)[1] / len(kinds)
        entropy = float(-(shares * np.log(shares)).sum())
        answers = self.classifier(torch.cat([z, z_changed]))
        return nn.functional.cross_entropy(answers, torch.from_numpy(kinds).to(z.device)) / entropy


class KeepAll(Keep):
    """Several kinds at once: their mean."""

    def __init__(self, parts: Sequence[Keep]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, z: torch.Tensor, z_changed: torch.Tensor, batch: Batch) -> torch.Tensor:
        return torch.stack([part(z, z_changed, batch) for part in self.parts]).mean()


def make_keep(sampler: Sampler, n_dimensions: int, settings: TrainingSettings) -> Keep | None:
    """Return L_keep of these settings for batches of this sampler, None without one."""
    parts = [_make_one(kind, sampler, n_dimensions, settings) for kind in settings.kept]
    return KeepAll(parts) if len(parts) > 1 else parts[0] if parts else None


def _make_one(kind: KeepKind, sampler: Sampler, n_dimensions: int, settings: TrainingSettings) -> Keep:
    match kind:
        case "observables":
            return KeepObservables(sampler.events, n_dimensions, settings)
        case "inputs":
            return KeepInputs(sampler.events, n_dimensions, settings)
        case "variance":
            return KeepVariance()
        case "changes":
            first = sampler.batch(0, shifted=False).changed
            if first is None or not len(first.particles):
                told = ", ".join(sampler.changes)
                raise TrainingError(
                    f"keep: changes finds no event in a batch that passes the cuts and to which a change did "
                    f"something ({told}): name others in source.training.changes, or leave it out"
                )
            return KeepChanges(n_dimensions, len(sampler.changes), settings)
