"""With what a run was made: manifest.json, and the versions that its toys have seen."""

from __future__ import annotations

from dataclasses import dataclass

from covad.storage.records import Record
from covad.storage.versions import Versions


@dataclass(frozen=True)
class StageVersions(Record):
    """Versions that a stage was done with, and when they were noted first."""

    versions: Versions
    since: str


@dataclass(frozen=True)
class ToyVersions(Record):
    """How many toys of the study these versions computed."""

    versions: Versions
    toys: int


@dataclass(frozen=True)
class Manifest(Record):
    """With what, on what and from what a run was made, and how long each stage took.

    `versions` and `machine` are those of the last call; `stages` lists all that each stage has seen.
    """

    versions: dict[str, str]
    machine: dict[str, str | int]
    seed: int
    hashes: dict[str, str]
    seconds: dict[str, float]
    stages: dict[str, tuple[StageVersions, ...]]
