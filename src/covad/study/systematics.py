"""Systematics in a study file: one class for each kind, and the correlations of their measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from covad.events.systematics.built_in_weights import BUILT_IN_WEIGHTS
from covad.settings import Matrix, Name, Positive, Real, Settings
from covad.study.samples import SampleEntry

#: What the yield's nuisance is called in results.
NORMALISATION = "normalisation"
#: A process, as event files call it or as `label` does.
Process = Annotated[str, Field(min_length=1, pattern=r"^[^/\x00]*$")]
#: Eigenvalues of a correlation matrix below this are none.
_SINGULAR = 1e-6


class _Entry(Settings):
    """What all kinds have: entries of one name are one nuisance."""

    name: Name

    @property
    def processes(self) -> tuple[str, ...]:
        """Return the processes that it acts on, none if it acts on all."""
        return getattr(self, "only", ())

    @property
    def description(self) -> dict[str, Any]:
        """Return what it does as plain data, for recipes and for `make_nuisances`; defaults are left out."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)

    @property
    def samples(self) -> dict[str, SampleEntry]:
        """Return its separate samples by the names that the run has for them."""
        return {}

    @property
    def one_sided(self) -> bool:
        """Return whether it is there at +1 only, and -1 is mirrored."""
        return False

    def resolved(self, folder: Path) -> Self:  # noqa: ARG002, most kinds have no files
        """Return the entry with absolute paths, relative ones being those of a folder."""
        return self

    def overlaps(self, other: _Entry) -> bool:
        """Return whether both act on the same events."""
        mine, theirs = self.processes, other.processes
        return not mine or not theirs or bool(set(mine) & set(theirs))


class ShiftEntry(_Entry):
    """A built-in shift of objects, whose options are keys too, or a user's function."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Literal["shift"] = "shift"
    sigma: Positive | None = None
    #: Which shift of covad it is, if its name does not say so.
    built_in: str | None = None
    function: str | None = None
    only: tuple[Process, ...] = ()


class VariedEntry(_Entry):
    """Other objects of the same events, under names in the group `varied` of their files."""

    kind: Literal["varied"]
    up: str
    down: str
    met: str = "met"
    only: tuple[Process, ...] = ()


class WeightsEntry(_Entry):
    """Other weights of the same events, under names in their files, or a user's function for their ratio."""

    kind: Literal["weights"]
    up: str | None = None
    down: str | None = None
    function: str | None = None
    sigma: Positive | None = None
    only: tuple[Process, ...] = ()

    @model_validator(mode="after")
    def _columns_or_function(self) -> Self:
        columns = [side for side in ("up", "down") if getattr(self, side) is not None]
        if bool(columns) == (self.function is not None):
            raise ValueError(
                "either up and down or a function is needed, or built_in with one of "
                f"{', '.join(BUILT_IN_WEIGHTS)}: give one of them"
            )
        if len(columns) == 1:
            raise ValueError(f"{columns[0]} without {'down' if columns == ['up'] else 'up'}: give both")
        if self.sigma is not None and self.function is None:
            raise ValueError("sigma does nothing beside up and down, which are one sigma: leave it out")
        return self


class BuiltInWeightsEntry(_Entry):
    """Other weights of the same events by a function of covad, whose options are keys too."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Literal["weights"]
    #: Which they are, if the name does not say so.
    built_in: str | None = None
    sigma: Positive | None = None
    only: tuple[Process, ...] = ()

    @model_validator(mode="after")
    def _no_others(self) -> Self:
        for key in {"up", "down", "function"} & set(self.model_extra or ()):
            raise ValueError(f"{key} does nothing beside built_in: leave one of them out")
        return self


class SamplesEntry(_Entry):
    """Other events in the place of those of one process, at nu = +1 and -1; without `down`, at +1."""

    kind: Literal["samples"]
    process: Process
    up: SampleEntry
    down: SampleEntry | None = None

    @property
    def processes(self) -> tuple[str, ...]:
        return (self.process,)

    @property
    def one_sided(self) -> bool:
        return self.down is None

    @property
    def samples(self) -> dict[str, SampleEntry]:
        sides = {"up": self.up} | ({} if self.down is None else {"down": self.down})
        return {f"{self.name}-{self.process}-{side}": sample for side, sample in sides.items()}

    def resolved(self, folder: Path) -> Self:
        sides = {"up": self.up.resolved(folder), "down": self.down and self.down.resolved(folder)}
        return self.model_copy(update=sides)

    @property
    def description(self) -> dict[str, Any]:
        """Return the systematic without the places of its files, which may change."""
        given = super().description
        for side in ("up", "down"):
            given.get(side, {}).pop("files", None)
        return given


class NormalisationEntry(_Entry):
    """Yield of some processes, or of all: log-normal, (1 + uncertainty)^nu."""

    kind: Literal["normalisation"]
    uncertainty: Annotated[Positive, Field(le=10.0)]
    only: tuple[Process, ...] = ()


#: Tags of the union below, each with the kind that the study file says.
SYSTEMATIC_KINDS = {
    "shift": "shift",
    "varied": "varied",
    "weights": "weights",
    "built-in weights": "weights",
    "samples": "samples",
    "normalisation": "normalisation",
}


def _tag(entry: Any) -> str:
    """Return the tag of an entry that is plain data, or made already."""
    if isinstance(entry, BuiltInWeightsEntry):
        return "built-in weights"
    if not isinstance(entry, dict):
        return str(getattr(entry, "kind", "shift"))
    kind = str(entry.get("kind", "shift"))
    if kind != "weights":
        return kind
    bare = not {"up", "down", "function"} & set(entry) and entry.get("name") in BUILT_IN_WEIGHTS
    return "built-in weights" if "built_in" in entry or bare else kind


SystematicEntry = Annotated[
    Annotated[ShiftEntry, Tag("shift")]
    | Annotated[VariedEntry, Tag("varied")]
    | Annotated[WeightsEntry, Tag("weights")]
    | Annotated[BuiltInWeightsEntry, Tag("built-in weights")]
    | Annotated[SamplesEntry, Tag("samples")]
    | Annotated[NormalisationEntry, Tag("normalisation")],
    Discriminator(_tag),
]


class CorrelationEntry(Settings):
    """Correlation of the auxiliary measurements of two nuisances."""

    between: tuple[Name, Name]
    value: Annotated[Real, Field(gt=-1.0, lt=1.0)]


Correlations = tuple[CorrelationEntry, ...]


def check_entries(entries: Sequence[SystematicEntry]) -> None:
    """Raise ValueError if entries of one name contradict each other."""
    for number, entry in enumerate(entries):
        if entry.name == NORMALISATION:
            raise ValueError(f"systematics: the name {NORMALISATION} is taken, choose another one")
        if len(set(entry.processes)) < len(entry.processes):
            raise ValueError(f"systematics.{number}.only: a process stands twice")
    for (first, one), (second, other) in combinations(enumerate(entries), 2):
        if (one.name, one.kind) != (other.name, other.kind) or not one.overlaps(other):
            continue
        both = f"systematics.{first} and systematics.{second}: '{one.name}' acts on the same events"
        for key in ("sigma", "uncertainty"):
            sizes = getattr(one, key, None), getattr(other, key, None)
            if sizes[0] != sizes[1]:
                raise ValueError(
                    f"{both} with different {key}, but one nuisance has one: give them different names, or "
                    "different processes by 'only'"
                )
        if all(getattr(one, key, None) == getattr(other, key, None) for key in ("function", "built_in")):
            raise ValueError(
                f"{both}, twice in the same way: leave one out, or give them different processes by 'only'"
            )


def correlation_matrix(names: Sequence[str], correlations: Correlations) -> Matrix | None:
    """Return the correlations of the auxiliary measurements of all nuisances; None: they are independent.

    Raise ValueError if there cannot be such measurements.
    """
    matrix = np.eye(len(names))
    for number, entry in enumerate(correlations):
        key = f"correlations.{number}"
        for name in entry.between:
            if name not in names:
                raise ValueError(f"{key}: there is no nuisance '{name}' (there are {', '.join(names)})")
        first, second = (names.index(name) for name in entry.between)
        if first == second:
            raise ValueError(f"{key}: a nuisance has the correlation 1 with itself: name two")
        if matrix[first, second]:
            raise ValueError(f"{key}: {' and '.join(entry.between)} stand there twice: leave one out")
        matrix[first, second] = matrix[second, first] = entry.value
    smallest = float(np.linalg.eigvalsh(matrix).min(initial=1.0))
    if smallest < _SINGULAR:
        raise ValueError(
            f"correlations: together they are not positive definite (smallest eigenvalue {smallest:.2g}), so "
            "that no measurements can have them: make them smaller"
        )
    return tuple(map(tuple, matrix.tolist())) if correlations else None


def nuisance_names(entries: Sequence[SystematicEntry]) -> tuple[str, ...]:
    """Return the names of the nuisances, in the order in which they first appear."""
    return tuple(dict.fromkeys(entry.name for entry in entries))
