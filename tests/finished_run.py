"""A whole run from collisions, as small as it can be: every stage is real, no physics can be learned."""

from pathlib import Path
from typing import Any

import pytest

from covad.events.files import EventWriter
from covad.events.processes import PROCESS_NAMES
from covad.pipeline import STAGES, checks, encoder, events, pools, response, run_study
from covad.simulation.simulate import Simulation
from covad.study import Study, parse_study
from covad.toys.toy import run_block

TINY: dict[str, Any] = {
    "seed": 5,
    "source": {
        "kind": "events",
        "background": {"simulate": 12000},
        "splits": {
            "encoder": 4500,
            "response": 1500,
            "check": 1000,
            "basis": 300,
            "reference": 2200,
            "data": 2200,
        },
        "spaces": {"covariant": {"alpha": 10}},
        "encoder": {"width": 8, "layers": 2, "heads": 2, "feed_forward": 16, "projector": 8},
        "training": {
            "steps": 4,
            "batch": 64,
            "validate_every": 4,
            "ratio_hidden": [8],
            "validation_share": 0.4,
        },
        "response": {"epochs": 1, "hidden": [8]},
    },
    "sizes": {"expected": 200, "reference": 1000},
    "tests": {"network": {"clip": 1.5}, "convex": {"bumps": 5}},
    "configurations": [
        {"treatment": "none"},
        {"treatment": "profiled"},
        {"treatment": "profiled", "order": 2},
    ],
    "nu": [0, 1],
    "nu_norm": [],
    "prior": False,
    "toys": 10,
}
#: Toys at other yields and from the prior too, as a study has them unless it says otherwise.
EVERYWHERE: dict[str, Any] = {"nu_norm": [-3, -1.5, 1.5, 3], "prior": True}


def tiny_study(**changes: Any) -> Study:
    return parse_study(TINY | changes, "here")


def here(blocks: Any) -> Any:
    """A backend without processes."""
    for block in blocks:
        yield block, run_block(block)


def one_by_one(function: Any, jobs: Any, workers: int) -> None:
    """`covad.parallel.run_jobs` without processes, each of which would import torch again."""
    for job in jobs:
        function(*job)


def make_run(path: Path, until: str = STAGES[-1], **changes: Any) -> Path:
    """Run the tiny study in this process and hand back its directory."""
    return run_here(tiny_study(**changes), path, until)


def run_here(study: Study, path: Path, until: str = STAGES[-1]) -> Path:
    """Run a study in this process and hand back its directory."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (events, encoder, response, pools, checks):
            patch.setattr(module, "run_jobs", one_by_one)
        run_study(study, path, here, until=until, workers=1)
    return path


def simulated(path: Path, process: str, n_events: int, seed: int) -> Path:
    """Write events of a process to a file, as `covad simulate` does."""
    sample = Simulation(process, n_events, seed)
    with EventWriter(path, sample.layout, PROCESS_NAMES, sample.provenance) as writer:
        for block in sample.blocks():
            writer.append(block)
    return path
