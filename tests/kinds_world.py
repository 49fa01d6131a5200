"""A background in which systematics of different kinds do the same: a study that has them all.

The jets of every event are scaled together by e^{SMEARING u}, with a normal u that no file keeps. One
sigma of two nuisances moves u by STEP, so that all jets have 5 % more momentum:

- `moved` scales the jets, by a function of the user;
- `weighed` leaves them, and gives the event the ratio of the densities of u, phi(u - STEP nu) / phi(u).

Both give the same distribution of events at nu = +1 and -1, cuts or not. (Beyond, weights are continued
log-linearly, which gives another yield.) Two further ones scale the jets of w events:

- `jet_energy_scale` scales them in the events themselves, which are matched;
- `w_model` has other events of w, simulated apart, whose jets are scaled.

`ttbar_rate` is the normalisation of ttbar, 5 % of the events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from covad.events.files import EventWriter
from covad.events.layout import Events
from covad.simulation.simulate import Simulation

SHARES = {"w": 0.56, "qcd": 0.32, "z": 0.07, "ttbar": 0.05}
SMEARING, STEP = 0.25, 0.2
SIGMA = SMEARING * STEP
UNCERTAINTY = 0.3
NAMES = ("ttbar_rate", "jet_energy_scale", "w_model", "moved", "weighed")


#: Ten minutes on a free core.
SPLITS = {
    "encoder": 40_000,
    "response": 120_000,
    "check": 60_000,
    "basis": 10_000,
    "reference": 80_000,
    "data": 100_000,
}
MODULE = '''"""All jets of an event have e^amount of their momentum."""

import numpy as np


def scale(events, amount):
    particles = events.particles.copy()
    particles[:, events.layout.slots("jet"), 0] *= np.float32(np.exp(amount))
    return events.with_particles(particles)
'''


def smeared(process: str, n_events: int, seed: int, shift: float = 0.0) -> Iterator[Events]:
    """Yield events of a process, u shifted by so many sigma, with the weights that shift it by one more."""
    rng = np.random.default_rng([seed, 1])
    for block in Simulation(process, n_events, seed).blocks():
        u = rng.normal(size=len(block))
        particles = block.particles.copy()
        factor = np.exp(SMEARING * (u + STEP * shift)).astype(np.float32)
        particles[:, block.layout.slots("jet"), 0] *= factor[:, None]
        up, down = (np.exp(sign * STEP * u - 0.5 * STEP**2) for sign in (1.0, -1.0))
        yield replace(
            block.with_particles(particles),
            process=np.zeros(len(block), dtype=np.int16),
            process_names=(process,),
            weights=np.ones(len(block)),
            variations={"up": up, "down": down},
        )


def write(path: Path, process: str, n_events: int, seed: int, shift: float = 0.0) -> str:
    simulation = Simulation(process, n_events, seed)
    with EventWriter(
        path,
        simulation.layout,
        (process,),
        simulation.provenance,
        weighted=True,
        variations=("up", "down"),
    ) as writer:
        for events in smeared(process, n_events, seed, shift):
            writer.append(events)
    return str(path)


def write_world(folder: Path, seed: int) -> dict[str, Any]:
    """Write all files and the user's module; return the study that takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jets.py").write_text(MODULE)
    total = sum(SPLITS.values())
    numbers = {process: round(share * total) + 1 for process, share in SHARES.items()}
    files = [
        write(folder / f"{process}.h5", process, number, seed + place)
        for place, (process, number) in enumerate(numbers.items())
    ]
    sides = {
        side: {"files": [write(folder / f"w_{side}.h5", "w", numbers["w"], seed + place, shift)]}
        for side, place, shift in (("up", 10, 1.0), ("down", 11, -1.0))
    }
    systematics = [
        {"name": "ttbar_rate", "kind": "normalisation", "uncertainty": UNCERTAINTY, "only": ["ttbar"]},
        {"name": "jet_energy_scale", "sigma": SIGMA, "only": ["w"]},
        {"name": "w_model", "kind": "samples", "process": "w", **sides},
        {"name": "moved", "function": "jets:scale", "sigma": SIGMA},
        {"name": "weighed", "kind": "weights", "up": "up", "down": "down"},
    ]
    return {
        "seed": seed,
        "source": {
            "kind": "events",
            "background": {"files": files},
            "systematics": systematics,
            "splits": SPLITS,
            "spaces": {"contrastive": {"alpha": 0}},
            "training": {"steps": 400, "warm_up": 50, "validate_every": 100},
            "response": {"hidden": [64, 64], "epochs": 8, "fits": 2, "bootstrap": True},
        },
        "sizes": {"expected": 3000, "reference": 12_000},
        "tests": {"convex": {"bumps": 100}},
        "configurations": [{"treatment": "none"}, {"treatment": "profiled"}],
        "nu": [0, *({name: 1} for name in NAMES)],
        "nu_norm": [],
        "prior": False,
        "toys": 400,
    }
