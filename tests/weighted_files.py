"""Background as an analysis has it: a file per process, signed weights, a mix that is not the raw one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from finished_run import TINY

from covad.events.files import EventWriter
from covad.events.layout import concatenate
from covad.simulation.simulate import Simulation
from covad.study import Study, parse_study

#: Raw events of each process, and the size of their weights in the files.
RAW = {"w": 6000, "qcd": 4500, "z": 2500, "ttbar": 1000}
SIZES = {"w": 2.0, "qcd": 7.0, "z": 0.5, "ttbar": 1.0}
NEGATIVE = 0.1
#: What is expected of each after the cuts.
YIELDS = {"w": 118.0, "qcd": 68.0, "z": 20.0, "ttbar": 8.0}


def write_process(
    path: Path,
    process: str,
    n_events: int,
    seed: int = 1,
    *,
    size: float | None = 1.0,
    negative: float = NEGATIVE,
    generated: float | None = None,
    name: str | None = None,
) -> Path:
    """Write simulated events of a process whose weights are +-size; `size` None: without weights."""
    sample = Simulation(process, n_events, seed)
    events = concatenate(list(sample.blocks()))
    weights = None
    if size is not None:
        sign = np.where(np.random.default_rng(seed).random(n_events) < negative, -1.0, 1.0)
        weights = size * sign
    events = replace(
        events,
        process=np.zeros(n_events, dtype=np.int16),
        process_names=(name or process,),
        weights=weights,
    )
    sums = {} if generated is None else {name or process: generated}
    with EventWriter(
        path, events.layout, (name or process,), {}, weighted=weights is not None, sum_of_weights=sums
    ) as writer:
        writer.append(events)
    return path


def write_processes(folder: Path, **options: Any) -> list[str]:
    """Write one file for each process, and return their paths."""
    return [
        str(
            write_process(
                folder / f"{name}.h5",
                name,
                n,
                seed,
                **({"size": SIZES[name], "generated": 4.0 * n * SIZES[name]} | options),
            )
        )
        for seed, (name, n) in enumerate(RAW.items())
    ]


def weighted_study(files: list[str], processes: Any = None, **changes: Any) -> Study:
    """The tiny study on such files; with processes, the expected events are left out."""
    background = {"files": files} | ({} if processes is None else {"processes": processes})
    splits = TINY["source"]["splits"] | {"response": 2000, "check": 1800}
    source = TINY["source"] | {"background": background, "splits": splits} | changes.pop("source", {})
    sizes = {"reference": 1500} | ({"expected": 200} if processes is None else {})
    study = TINY | {"source": source, "sizes": sizes, "tests": {"convex": {"bumps": 5}}}
    study |= {"configurations": [{"treatment": "profiled"}]}
    return parse_study(study | changes, "here")
