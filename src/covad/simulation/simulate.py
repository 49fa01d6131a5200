"""Simulated samples in blocks: one process or the background mix, from either engine.

Block b of process p draws from its own random stream, SeedSequence(seed, spawn_key=(b, p)), and the block
size is fixed. So the events depend on the seed alone, not on how they are buffered, written or read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from covad import __version__
from covad.errors import CovadError, UnknownNameError
from covad.events.layout import EventLayout, Events, concatenate
from covad.events.processes import (
    ADC2021_LAYOUT,
    BACKGROUND,
    BACKGROUND_MIX,
    PROCESS_NAMES,
    process_code,
)
from covad.simulation.detector import Detector
from covad.simulation.parametric import generate as generate_parametric
from covad.simulation.parametric.variants import find_variant
from covad.simulation.pythia import generate as generate_pythia


class Generate(Protocol):
    """An engine: exactly `n_events` events of one process that pass the detector's lepton filter."""

    def __call__(
        self, process: str, n_events: int, rng: np.random.Generator, detector: Detector
    ) -> Events: ...


@dataclass(frozen=True)
class Engine:
    """How events are made, and how many at a time."""

    generate: Generate
    block_size: int


PARAMETRIC = "parametric"
ENGINES = {
    PARAMETRIC: Engine(generate_parametric, block_size=16_384),
    "pythia8": Engine(generate_pythia, block_size=512),
}


@dataclass(frozen=True)
class Simulation:
    """A sample to be made: `blocks` yields its events."""

    process: str
    n_events: int
    seed: int
    engine: str = "parametric"
    detector: Detector = field(default_factory=Detector)
    variant: str | None = None  #: other settings of the process, of the parametric engine

    def __post_init__(self) -> None:
        if self.process != BACKGROUND:
            process_code(self.process)
        if self.engine not in ENGINES:
            raise UnknownNameError(f"unknown engine '{self.engine}' (known: {', '.join(ENGINES)})")
        if self.variant is not None:
            find_variant(self.process, self.variant)
            if self.engine != PARAMETRIC:
                raise CovadError(f"the engine {self.engine} has no variants: leave out '{self.variant}'")
        if self.n_events < 1:
            raise CovadError(f"a sample needs at least one event, not {self.n_events}")
        if self.seed < 0:
            raise CovadError(f"the seed must not be negative, but is {self.seed}")

    @property
    def layout(self) -> EventLayout:
        return ADC2021_LAYOUT

    @property
    def provenance(self) -> dict[str, Any]:
        """All that is needed to make the sample again."""
        return {
            "generator": f"covad {__version__} {self.engine}",
            "process": self.process,
            **({} if self.variant is None else {"variant": self.variant}),
            "events": self.n_events,
            "seed": self.seed,
            "lepton_filter": self.detector.lepton_filter,
            "detector": self.detector.describe(),
        }

    def blocks(self) -> Iterator[Events]:
        """Yield the events in order, block by block."""
        engine = ENGINES[self.engine]
        generate: Generate = engine.generate
        if self.variant is not None:
            generate = partial(generate_parametric, variant=self.variant)
        mix = BACKGROUND_MIX if self.process == BACKGROUND else {self.process: 1.0}
        for block, start in enumerate(range(0, self.n_events, engine.block_size)):
            n_events = min(engine.block_size, self.n_events - start)
            # How many events of each process, and their order, come from a stream of the block's own.
            mixing = self._stream(block, len(PROCESS_NAMES))
            counts = mixing.multinomial(n_events, list(mix.values()))
            parts = [
                generate(name, int(n), self._stream(block, process_code(name)), self.detector)
                for name, n in zip(mix, counts, strict=True)
                if n
            ]
            together = concatenate(parts)
            order = mixing.permutation(n_events)
            process = together.labels_among(PROCESS_NAMES)
            yield Events(
                ADC2021_LAYOUT, together.particles[order], process[order], PROCESS_NAMES, self.provenance
            )

    def _stream(self, block: int, process: int) -> np.random.Generator:
        """Return the random stream of one process in one block."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block, process)))
