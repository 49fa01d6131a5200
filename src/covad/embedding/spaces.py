"""Spaces: maps from events to z. An encoder is learned, observables are not, and several can be joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from covad.errors import CovadError, FileFormatError
from covad.events.layout import EventLayout
from covad.events.observables import OBSERVABLES_VERSION, Observables
from covad.storage.tensors import load_weights, save_weights


class SpaceMap(Protocol):
    """What turns events of one layout into z; all after it asks for nothing else."""

    @property
    def layout(self) -> EventLayout: ...

    @property
    def outputs(self) -> int:
        """Return the number of dimensions of z."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Return what the dimensions of z are called."""
        ...

    def encode(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return z of some events, (events, outputs); particles are events x slots x features."""
        ...


@dataclass(frozen=True)
class ObservableSpace:
    """Observables of events: nothing in it is learned."""

    layout: EventLayout
    observables: Observables

    @property
    def outputs(self) -> int:
        return len(self.observables.names)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.observables.names

    def encode(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.observables(self.layout, particles)

    def save(self, path: Path, function: str | None, particles: NDArray[np.float32]) -> None:
        """Write what it is: names, version, layout, and the function of the user by its name.

        Some events go with a function, so that reading the space can tell whether it still says the same.
        """
        settings: dict[str, Any] = {
            "layout": self.layout.describe(),
            "observables": list(self.columns),
            "version": OBSERVABLES_VERSION,
            "function": function,
        }
        kept = {} if function is None else {"particles": particles, "observables": self.encode(particles)}
        tensors = {name: torch.from_numpy(np.array(values)) for name, values in kept.items()}
        save_weights(path, "observables", tensors, settings)

    @classmethod
    def load(cls, path: Path, folder: Path | None, where: str) -> ObservableSpace:
        """Read a space; modules of the user are looked for in `folder`, and `where` names it in messages."""
        tensors, stored = load_weights(path, "observables")
        try:
            layout = EventLayout.from_description(stored["layout"])
            names, version, function = (stored[key] for key in ("observables", "version", "function"))
        except (KeyError, CovadError) as failure:
            raise FileFormatError(
                f"{path}: the stored space is incomplete ({failure}); delete it and run again"
            ) from failure
        if version != OBSERVABLES_VERSION:
            raise FileFormatError(
                f"{path}: has version {version} of the observables, this covad has {OBSERVABLES_VERSION}: "
                "run again"
            )
        observables = Observables.make(names, function, folder, where)
        if tensors:
            particles, kept = (tensors[name].numpy() for name in ("particles", "observables"))
            observables.refuse_change(layout, particles, kept)
        return cls(layout, observables)


@dataclass(frozen=True)
class JoinedSpace:
    """Several spaces side by side: z is that of the first, then that of the next."""

    parts: Mapping[str, SpaceMap]

    def __post_init__(self) -> None:
        if len({part.layout for part in self.parts.values()}) > 1:
            raise FileFormatError(
                f"the spaces {', '.join(self.parts)} were made for different event layouts: run again"
            )

    @property
    def layout(self) -> EventLayout:
        return next(iter(self.parts.values())).layout

    @property
    def outputs(self) -> int:
        return sum(part.outputs for part in self.parts.values())

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{name}.{column}" for name, part in self.parts.items() for column in part.columns)

    def encode(self, particles: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.concatenate([part.encode(particles) for part in self.parts.values()], axis=1)

    def save(self, path: Path) -> None:
        """Write which spaces it joins; these have files of their own."""
        save_weights(path, "joined", {}, {"of": list(self.parts), "columns": list(self.columns)})

    @classmethod
    def load(cls, path: Path, parts: Mapping[str, SpaceMap]) -> JoinedSpace:
        """Join spaces again, those that the file names."""
        _, stored = load_weights(path, "joined")
        joined = cls(parts)
        if (stored.get("of"), stored.get("columns")) != (list(parts), list(joined.columns)):
            raise FileFormatError(f"{path}: joins other spaces than {', '.join(parts)}: run again")
        return joined
