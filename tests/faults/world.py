"""The undamaged world: a tiny study of collisions, its finished run, an observed file and the answer for it.

Everything is made by real commands in real processes. The process that forks faults never opens a run itself:
what covad checks once per process is checked in every child.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

COVAD = (sys.executable, "-m", "covad")
#: Events of the observed file, about what the study expects.
OBSERVED_EVENTS = 205
#: The user's systematic, beside the study file.
MODULE = '''"""A jet energy scale of a user's own."""

import numpy as np


def stretch(events, amount):
    """Scale all jets by the exponential of the amount."""
    particles = events.particles.copy()
    particles[:, events.layout.slots("jet"), 0] *= np.float32(np.exp(amount))
    return events.with_particles(particles)
'''
STUDY: dict[str, Any] = {
    "seed": 5,
    "source": {
        "kind": "events",
        "background": {"simulate": 9000},
        "signals": {"a4l": {"simulate": 200}},
        "systematics": [{"name": "stretch", "function": "shifts:stretch", "sigma": 0.05}],
        "splits": {
            "encoder": 4500,
            "response": 1400,
            "check": 1000,
            "basis": 300,
            "reference": 850,
            "data": 850,
        },
        "spaces": {"contrastive": {"alpha": 0}, "covariant": {"alpha": 10}},
        "encoder": {
            "width": 8,
            "layers": 1,
            "heads": 2,
            "feed_forward": 8,
            "outputs": 2,
            "projector": 8,
        },
        "training": {
            "steps": 6,
            "batch": 64,
            "validate_every": 3,
            "validation_batches": 1,
            "warm_up": 1,
            "ratio_hidden": [8],
        },
        "response": {"epochs": 1, "hidden": [8], "batch": 256},
    },
    "sizes": {"expected": 200, "reference": 800},
    "tests": {"network": {"clip": "tune", "hidden": [2]}, "convex": {"bumps": 6}},
    "configurations": [
        {"space": "contrastive", "treatment": "none"},
        {"space": "covariant"},
        {"space": "covariant", "order": 2},
    ],
    "nu": [0, 1],
    "nu_norm": [],
    "signals": {"a4l": [30]},
    "toys": 20,
}
#: The configuration that `covad test` takes unless told, and the quadratic one.
MAIN, QUADRATIC = "covariant-profiled", "covariant-profiled-quadratic"


@dataclass(frozen=True)
class World:
    """A folder with everything that a user of the tiny study has: study file, module, observed file, run."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.yaml"

    @property
    def module(self) -> Path:
        return self.path / "shifts.py"

    @property
    def observed(self) -> Path:
        return self.path / "observed.h5"

    @property
    def run(self) -> Path:
        return self.path / "run"

    def files(self) -> list[Path]:
        """Return every file, relative to the world."""
        return sorted(file.relative_to(self.path) for file in self.path.rglob("*") if file.is_file())

    def copy(self, to: Path) -> World:
        """Return a private copy: large files are links, for covad replaces files and never writes into one.

        Small ones are copied, because a training appends to its metrics.
        """

        def link_or_copy(source: str, target: str) -> None:
            if Path(source).stat().st_size > 1 << 16:
                os.link(source, target)
            else:
                shutil.copy2(source, target)

        shutil.copytree(self.path, to, copy_function=link_or_copy)
        return World(to)


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a real covad command."""
    words = [*COVAD, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def make_inputs(path: Path, study: dict[str, Any] | None = None) -> World:
    """Write the study file, the module and the observed file."""
    path.mkdir(parents=True, exist_ok=True)
    world = World(path)
    world.study.write_text(yaml.safe_dump(study or STUDY, sort_keys=False))
    world.module.write_text(MODULE)
    must(
        "simulate",
        "--process",
        "background",
        "--events",
        OBSERVED_EVENTS,
        "--seed",
        77,
        "--out",
        world.observed,
    )
    return world


def make_world(path: Path) -> World:
    """Make the world; one that is there whole is taken as it is."""
    world, whole = World(path), path.with_suffix(".whole")
    if whole.exists():
        return world
    shutil.rmtree(path, ignore_errors=True)
    make_inputs(path)
    must("run", world.study, "--out", world.run, "--workers", 2)
    must("test", world.run, world.observed)
    must("report", world.run)
    must("export", world.run)
    whole.write_text("whole\n")
    return world


def must(*arguments: object) -> str:
    """Run a command that has to succeed, and return what it said."""
    done = command(*arguments)
    if done.returncode != 0:
        raise RuntimeError(
            f"covad {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr}"
        )
    return done.stdout
