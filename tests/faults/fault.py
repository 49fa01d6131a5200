"""A fault as data: what is done to a copy of the world, the command, and what has to be said.

`{run}`, `{study}`, `{observed}`, `{folder}` in a command stand for the paths of the copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from faults.outcome import LIMIT_SECONDS
from faults.world import STUDY, World

REFUSED = 2
Prepare = Callable[[World], None]
#: A new run of the study, up to the first stage.
RUN = ("run", "{study}", "--out", "{folder}/new", "--until", "events", "--workers", "1")
#: The finished run once more.
AGAIN = ("run", "{study}", "--out", "{run}", "--workers", "1")
TEST = ("test", "{run}", "{observed}")


@dataclass(frozen=True)
class Fault:
    """What is done, the exit code, and a pattern that has to be among the words."""

    name: str
    command: tuple[str, ...]
    says: str
    code: int = REFUSED
    prepare: Prepare | None = None
    seconds: float = LIMIT_SECONDS


def replace(path: Path, content: bytes) -> None:
    """Write a file anew: it may be a link to one of the undamaged world."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def writing(name: str, content: bytes) -> Prepare:
    """Return what gives a file of the world another content."""
    return lambda world: replace(world.path / name, content)


def study_with(key: str, value: Any) -> Prepare:
    """Return what gives a key of the study another value."""

    def prepare(world: World) -> None:
        study = copy.deepcopy(STUDY)
        part: Any = study
        *path, last = key.split(".")
        for name in path:
            part = part.setdefault(name, {})
        part[last] = value
        world.study.write_text(yaml.safe_dump(study, sort_keys=False))

    return prepare
