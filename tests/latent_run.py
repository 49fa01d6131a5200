"""A small run of the latent world with both tests, drawn at other yields and from the prior by default."""

from pathlib import Path
from typing import Any

from finished_run import here

from covad.pipeline import run_study
from covad.study import parse_study

STUDY: dict[str, Any] = {
    "seed": 5,
    "source": {"kind": "latent"},
    "sizes": {"expected": 300, "reference": 1500},
    "tests": {"network": {"clip": 1.5}, "convex": {"bumps": 8}},
    "configurations": [{"treatment": "none"}, {"treatment": "profiled"}],
    "nu": [0, 1],
    "signals": {"signal": [40]},
    "toys": 40,
}


#: A run of seconds, in which one configuration leaves a test out.
SMALL: dict[str, Any] = {
    "sizes": {"expected": 100, "reference": 500},
    "configurations": [{"treatment": "none"}, {"treatment": "profiled", "tests": ["convex"]}],
    "nu_norm": [],
    "prior": False,
    "toys": 12,
}


def make_latent_run(path: Path, **changes: Any) -> Path:
    run_study(parse_study(STUDY | changes, "here"), path, here)
    return path
