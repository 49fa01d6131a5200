"""What the report is made of: the summary of a run, and the arrays that its figures show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.observed.result import Observation, read_observations
from covad.results.summary import SUMMARY
from covad.runs.directory import SCALE, RunDirectory
from covad.toys.pools import MANIFEST, Pools, fingerprint, open_pools

T = TypeVar("T")
Float64 = NDArray[np.float64]
#: An entry of the summary.
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """A configuration of the study as the report needs it; `kind` is the embedding's part in the paper."""

    name: str
    embedding: str
    treatment: str
    order: int
    expected: float
    reference: float
    kind: str | None  # contrastive, covariant, or None where the paper has no such embedding
    own_sizes: bool

    @property
    def title(self) -> str:
        nuisances = "nuisances profiled" if self.treatment == "profiled" else "no nuisances in the test"
        parts = [f"{self.embedding} embedding" if self.kind else self.embedding, nuisances]
        if self.order == 2:
            parts.append("quadratic response")
        if self.own_sizes:
            parts.append(f"{self.expected:g} events")
        return ", ".join(parts)

    @property
    def short(self) -> str:
        """For rows of tables: 'covariant, profiled'."""
        parts = [self.embedding, "profiled" if self.treatment == "profiled" else "no nuisances"]
        if self.order == 2:
            parts.append("quadratic")
        if self.own_sizes:
            parts.append(f"{self.expected:g} events")
        return ", ".join(parts)

    def plays(self, role: Line) -> bool:
        """Whether it is the paper's configuration `role`."""
        mine = {"embedding": self.kind, "treatment": self.treatment, "order": self.order}
        return not self.own_sizes and mine == dict(role)


@dataclass(frozen=True)
class LatentSpace:
    """Pools of one space with the scale that turns their standardised z into the encoder's."""

    pools: Pools
    centre: Float64
    width: Float64

    def raw(self, z: NDArray[np.float32], dimension: int) -> Float64:
        return np.asarray(z[:, dimension] * self.width[dimension] + self.centre[dimension], dtype=np.float64)


@dataclass(frozen=True)
class Evidence:
    """Summary, t per ensemble, checks of the response, latent pools, observed files; any may be missing."""

    summary: Line
    t: Mapping[str, Float64] = field(default_factory=dict)
    checks: Mapping[str, Line] = field(default_factory=dict)
    spaces: Mapping[str, LatentSpace] = field(default_factory=dict)
    observed: tuple[Observation, ...] = ()

    def lines(self, section: str, **keys: Any) -> list[Line]:
        """Entries of a section that have these values; vectors as lists."""
        return [
            line
            for line in self.summary.get(section) or []
            if all(_same(line.get(key), value) for key, value in keys.items())
        ]

    def line(self, section: str, **keys: Any) -> Line | None:
        return next(iter(self.lines(section, **keys)), None)

    @property
    def study(self) -> Line:
        found: Line = self.summary["study"]
        return found

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """In the study's order."""
        first: dict[str, Line] = {}
        for line in self.summary["ensembles"]:
            first.setdefault(line["configuration"], line)
        return tuple(self._configuration(name, line) for name, line in first.items())

    def _configuration(self, name: str, line: Line) -> Configuration:
        sizes = self.study["sizes"]
        alpha = {entry["name"]: entry["alpha"] for entry in self.lines("embeddings")}.get(line["embedding"])
        return Configuration(
            name=name,
            embedding=line["embedding"],
            treatment=line["treatment"],
            order=line["order"],
            expected=line["expected"],
            reference=line["reference"],
            kind=None if alpha is None else "covariant" if alpha else "contrastive",
            own_sizes=(line["expected"], line["reference"]) != (sizes["expected"], sizes["reference"]),
        )

    def playing(self, role: Line) -> Configuration | None:
        """The first configuration that is the paper's `role`."""
        return next((c for c in self.configurations if c.plays(role)), None)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        return _distinct(line["test"] for line in self.summary["ensembles"])

    @cached_property
    def points(self) -> tuple[tuple[float, ...], ...]:
        """All nu of toys, the central one first."""
        found = _distinct(tuple(line["nu"]) for line in self.summary["ensembles"])
        return tuple(sorted(found, key=any))

    def toys(
        self,
        test: str,
        configuration: Configuration,
        nu: Sequence[float],
        signal: str | None = None,
        injected: float = 0.0,
    ) -> Float64 | None:
        """t of an ensemble, None if fewer than two toys are done."""
        wanted = {"nu": nu, "signal": signal, "injected": injected}
        line = self.line("ensembles", test=test, configuration=configuration.name, **wanted)
        t = None if line is None else self.t.get(line["identity"])
        return t if t is not None and len(t) > 1 else None

    def injections(self, configuration: Configuration) -> tuple[tuple[str, float], ...]:
        """(signal, injected events) that were asked for in a configuration."""
        return _distinct(
            (line["signal"], line["injected"])
            for line in self.lines("ensembles", configuration=configuration.name)
            if line["signal"] is not None
        )


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple | list):
        return list(found) == list(wanted)
    return bool(found == wanted)


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def read_evidence(run: Path, t: Mapping[str, Float64]) -> Evidence:
    """All that is there of a run that has a summary, with t of its toys by the identity of their ensemble."""
    files = RunDirectory(run)
    if not (run / SUMMARY).exists():
        raise FileFormatError(f"{run / SUMMARY}: cannot be read, the run has no summary")
    pools = sorted((run / "pools").glob(f"*/{MANIFEST}"))
    return Evidence(
        summary=_document(files, SUMMARY),
        t=t,
        checks=_documents(files, "checks"),
        spaces={file.parent.name: _latent_space(files, file.parent) for file in pools},
        observed=read_observations(files),
    )


def _documents(files: RunDirectory, folder: str) -> dict[str, Line]:
    found = sorted((files.path / folder).glob("*.json"))
    return {file.stem: _document(files, f"{folder}/{file.name}") for file in found}


def _document(files: RunDirectory, name: str) -> Line:
    """A JSON object that some stage has written."""
    content = files.read(name)
    if not isinstance(content, dict):
        raise FileFormatError(f"{files.path / name}: a JSON object was expected")
    return content


def _latent_space(files: RunDirectory, folder: Path) -> LatentSpace:
    pools = open_pools(folder, fingerprint(folder))
    dimensions = pools.basis.shape[1]
    scale = {"centre": [0.0] * dimensions, "width": [1.0] * dimensions}
    if (folder / SCALE).exists():
        scale = dict(_document(files, f"pools/{folder.name}/{SCALE}"))
    return LatentSpace(pools, np.array(scale["centre"]), np.array(scale["width"]))
