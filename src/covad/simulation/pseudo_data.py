"""Pseudo-data: background with signals hidden in it, measured by a detector that is off, as nature may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covad.errors import CovadError
from covad.events.layout import Events, concatenate
from covad.events.processes import PROCESS_NAMES
from covad.events.systematics import Systematic, make_systematic
from covad.simulation.simulate import ENGINES, Simulation

#: The largest amount of a shift. All built-in systematics count relatively; 0.5 is 5 sigma of the widest.
LARGEST_SHIFT = 0.5
#: Signals are made at once, in memory.
MOST_INJECTED = 10_000_000


@dataclass(frozen=True)
class PseudoData:
    """A sample with events of signals at random places, and objects shifted by built-in systematics.

    `injected` has the number of events of each signal, `shifts` the amount of each systematic in its own
    unit: 0.025 of jet_energy_scale multiplies the energy of jets by e^0.025, which is 2.5 %.
    """

    sample: Simulation
    injected: Mapping[str, int] = field(default_factory=dict)
    shifts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # refuse names and numbers that are impossible before anything is made
        for process, number in self.injected.items():
            if process == self.sample.process:
                raise CovadError(f"--inject: {process} is the sample itself, and cannot be hidden in it")
            if number < 1:
                raise CovadError(f"--inject: at least one event of {process} can be hidden, not {number}")
        most, asked = min(self.sample.n_events, MOST_INJECTED), sum(self.injected.values())
        if asked > most:
            raise CovadError(
                f"--inject: {asked} events cannot be hidden in a sample of {self.sample.n_events}: "
                f"inject at most {most}"
            )
        self._signals()
        self._systematics()
        for name, amount in self.shifts.items():
            if not abs(amount) <= LARGEST_SHIFT:
                raise CovadError(
                    f"--shift: the amount of {name} is relative, 0.025 is 2.5 %, and not in units of sigma: "
                    f"give one from {-LARGEST_SHIFT} to {LARGEST_SHIFT}, not {amount:g}"
                )

    @property
    def n_events(self) -> int:
        return self.sample.n_events + sum(self.injected.values())

    @property
    def provenance(self) -> dict[str, Any]:
        """All that is needed to make it again."""
        hidden = {"injected": dict(self.injected), "shifts": dict(self.shifts)}
        return self.sample.provenance | {key: value for key, value in hidden.items() if value}

    def blocks(self) -> Iterator[Events]:
        """Yield the events block by block; without signals and shifts they are the sample as it is."""
        if not self.provenance.keys() - self.sample.provenance.keys():
            yield from self.sample.blocks()
            return
        rng = np.random.default_rng(np.random.SeedSequence(self.sample.seed, spawn_key=(len(PROCESS_NAMES),)))
        size = ENGINES[self.sample.engine].block_size
        signals = [block for signal in self._signals() for block in signal.blocks()]
        hidden = concatenate(signals) if signals else None
        place = rng.integers(self.sample.n_events, size=0 if hidden is None else len(hidden)) // size
        for number, block in enumerate(self.sample.blocks()):
            events = block
            if hidden is not None:
                mixed = concatenate([block, hidden[place == number]])
                events = mixed[rng.permutation(len(mixed))]
            for systematic, amount in self._systematics():
                events = systematic.shift(events, amount).events
            yield replace(events, provenance=self.provenance)

    def _signals(self) -> list[Simulation]:
        return [
            replace(self.sample, process=process, n_events=n_events)
            for process, n_events in self.injected.items()
        ]

    def _systematics(self) -> list[tuple[Systematic, float]]:
        """Return the systematics in units of 1, and by how much each shifts."""
        return [(make_systematic({"name": name, "sigma": 1.0}), x) for name, x in self.shifts.items()]
