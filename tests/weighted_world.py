"""The simulator's background twice: as it is, and as weighted files of single processes that stand for it.

The weighted files have the processes in other shares than the mix, generator weights in other units, and
weights of both signs: an event has +1/(1 - 2p) with probability 1 - p, and -1/(1 - 2p) with probability p, so
that its mean is 1 whatever the event is. p grows with HT from 5 to 40 %. With the yields of
`expected_yields`, the weighted sample has the density of the mix, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.events.files import EventWriter
from covad.events.layout import Events
from covad.events.processes import BACKGROUND, BACKGROUND_MIX, PROCESS_NAMES, process_code
from covad.simulation.simulate import Simulation

#: Shares of the processes in the weighted files. Those of the mix are 0.592, 0.338, 0.067 and 0.003.
RAW_SHARES = {"w": 0.45, "qcd": 0.30, "z": 0.15, "ttbar": 0.10}
#: The size of a generator weight: every generator has its own.
UNITS = {"w": 7.3e4, "qcd": 1.0, "z": 2.1e4, "ttbar": 11.0}
#: GeV of HT over which the share of negative weights rises.
_HT = 200.0
#: Events of each process that `effective_share` is found from.
_PILOT = 16_384

Float64 = NDArray[np.float64]


def negative_share(events: Events) -> Float64:
    """Return the probability of a negative weight, per event."""
    ht = events.objects("jet")[..., 0].sum(axis=1, dtype=np.float64)
    return 0.05 + 0.35 * -np.expm1(-ht / _HT)


def signed_weights(events: Events, rng: np.random.Generator) -> Float64:
    """Throw weights of both signs, of mean 1 for every event."""
    p = negative_share(events)
    return np.where(rng.random(len(p)) < p, -1.0, 1.0) / (1.0 - 2.0 * p)


def expected_yields(expected: float) -> dict[str, float]:
    """Return the yields with which the weighted files are the mix; all events pass the usual cuts."""
    return {process: round(expected * share, 9) for process, share in BACKGROUND_MIX.items()}


def write_weighted(folder: Path, n_events: int, seed: int, *, signs: bool = True) -> list[Path]:
    """Write a file of each process of the background, of `n_events` together; return the files.

    Without `signs` every weight is replaced by its absolute value. That is wrong, and has to be caught.
    """
    numbers = {process: round(n_events * share) for process, share in RAW_SHARES.items()}
    return [
        write_process(folder / f"{process}.h5", process, number, seed, signs=signs)
        for process, number in numbers.items()
    ]


def write_process(path: Path, process: str, n_events: int, seed: int, *, signs: bool = True) -> Path:
    """Write weighted events of one process, a signal for instance."""
    simulation = Simulation(process, n_events, seed)
    rng, unit = np.random.default_rng([seed, process_code(process)]), UNITS.get(process, 1.0)

    def weighted(events: Events) -> Events:
        weights = unit * signed_weights(events, rng)
        return replace(
            events,
            process=np.zeros(len(events), dtype=np.int16),
            process_names=(process,),
            weights=weights if signs else np.abs(weights),
        )

    blocks = (weighted(events) for events in simulation.blocks())
    return _write(path, blocks, simulation, (process,), {process: unit * n_events})


def write_unweighted(path: Path, n_events: int, seed: int, process: str = BACKGROUND) -> Path:
    """Write events without weights: the mix, or one process."""
    simulation = Simulation(process, n_events, seed)
    return _write(path, simulation.blocks(), simulation, PROCESS_NAMES, None)


def effective_share(seed: int = 0) -> float:
    """Return the effective events (sum w)^2 / sum w^2 of the weighted files, per event."""
    squares = 0.0
    for process, mixed in BACKGROUND_MIX.items():
        events = next(iter(Simulation(process, _PILOT, seed).blocks()))
        squares += mixed**2 / RAW_SHARES[process] * float(np.mean((1.0 - 2.0 * negative_share(events)) ** -2))
    return 1.0 / squares


def _write(
    path: Path,
    blocks: Iterable[Events],
    simulation: Simulation,
    names: tuple[str, ...],
    sum_of_weights: Mapping[str, float] | None,
) -> Path:
    """Write events with their labels among `names`; a file without a sum of weights has no weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with EventWriter(
        path,
        simulation.layout,
        names,
        simulation.provenance,
        weighted=sum_of_weights is not None,
        sum_of_weights=sum_of_weights,
    ) as writer:
        for events in blocks:
            writer.append(events)
    return path
