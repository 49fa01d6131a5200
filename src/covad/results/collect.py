"""The toys of a run, by what they are: null, shifted background, signal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from covad.inference.intervals import Float64
from covad.inference.significance import AnalyticNull, Chi2Null, EmpiricalNull, Null
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.storage.digests import code_digest
from covad.study import Configuration, Study
from covad.study.plan import Entry, plan, requests
from covad.toys.ensembles import Draw, Ensemble
from covad.toys.store import EnsembleToys

#: Ensembles with fewer toys say nothing yet.
FEWEST_TOYS = 10
#: Reference events from which the moments of the analytic null are estimated, in units of a toy's.
_MOMENT_SAMPLE = 4


@dataclass(frozen=True)
class Group:
    """All ensembles of one test in one configuration."""

    test: str
    configuration: Configuration
    null: EnsembleToys  # R_0
    shifted: dict[tuple[float, ...], EnsembleToys]
    signals: dict[tuple[tuple[float, ...], str, float], EnsembleToys]
    ensemble: Ensemble  # of R_0

    @property
    def name(self) -> str:
        return f"{self.test}, {self.configuration.name}"

    @property
    def dof(self) -> int:
        return self.ensemble.test.degrees_of_freedom

    @cached_property
    def analytic(self) -> ConvexNull | None:
        """The null of the convex test without toys, at nu = 0."""
        test = self.ensemble.test.build(self.ensemble.source)
        if not isinstance(test, ConvexTest):
            return None
        draw = self.ensemble.draw
        sizes = self.ensemble.source.pool_sizes(draw)
        most = draw.n_reference * _MOMENT_SAMPLE
        sample = Draw(**{**vars(draw), "n_reference": most if sizes is None else min(most, sizes[0])})
        dataset = self.ensemble.source.draw(sample, self.ensemble.seeds(0))
        return analytic_null(test, dataset, n_reference=draw.n_reference)

    @cached_property
    def nulls(self) -> dict[str, Null]:
        """R_0, R_nu, and chi2 (network) or the analytic law (convex)."""
        found: dict[str, Null] = {"R_0": EmpiricalNull(self.null.t, "R_0")}
        for nu, toys in self.shifted.items():
            found[null_name(nu)] = EmpiricalNull(toys.t, null_name(nu))
        if self.analytic is not None:
            found["analytic"] = AnalyticNull(self.analytic.law.sf, "analytic")
        else:
            found["chi2"] = Chi2Null(self.dof)
        return found


def null_name(nu: tuple[float, ...]) -> str:
    return "R_" + ",".join(f"{x:+g}" if x else "0" for x in nu)


@dataclass(frozen=True)
class RunToys:
    """A run with its toys loaded."""

    directory: RunDirectory
    study: Study
    entries: list[Entry]
    toys: dict[str, EnsembleToys]  # by identity
    made_of: str = ""  # stamp of the files that a summary reads

    def groups(self) -> Iterator[Group]:
        """Groups whose null has toys."""
        for configuration in self.study.configurations:
            for test in ("network", "convex"):
                mine = [
                    e
                    for e in self.entries
                    if e.test == test and e.configuration == configuration and e.ensemble
                ]
                if group := self._group(test, configuration, mine):
                    yield group

    def _group(self, test: str, configuration: Configuration, entries: list[Entry]) -> Group | None:
        null, ensemble, shifted, signals = None, None, {}, {}
        for entry in entries:
            if entry.ensemble is None:
                continue
            toys, draw = self.toys[entry.ensemble.identity], entry.draw
            if len(toys.t) < FEWEST_TOYS:
                continue
            if draw.signal is not None:
                signals[draw.nu, draw.signal, draw.injected] = toys
            elif any(draw.nu):
                shifted[draw.nu] = toys
            else:
                null, ensemble = toys, entry.ensemble
        if null is None or ensemble is None:
            return None
        return Group(test, configuration, null, shifted, signals, ensemble)

    @property
    def values(self) -> dict[str, Float64]:
        """t of the toys that are done, by the identity of their ensemble."""
        return {identity: toys.t for identity, toys in self.toys.items()}

    def t(self, entry: Entry) -> Float64:
        return np.zeros(0) if entry.ensemble is None else self.toys[entry.ensemble.identity].t


def collect(path: Path) -> RunToys:
    """Load all toys of a run that are there.

    Its files are stamped before they are read: what a production adds meanwhile belongs to the next summary.
    """
    directory = RunDirectory(path)
    made_of = _made_of(directory)
    study = directory.study()
    sources = open_sources(study, directory, verify=False)
    entries = plan(study, sources, directory.clips(), directory.convex_models())
    toys = directory.toys.load_all(requests(entries))
    return RunToys(directory, study, entries, toys, made_of)


def _made_of(directory: RunDirectory) -> str:
    """Digest of the code, and of the names, sizes and times of all files that a summary reads."""
    names = (
        "study.json",
        "clip.json",
        "convex.json",
        "checks/**/*.json",
        "models/*/*/metrics.jsonl",
        "toys/*.parquet",
    )
    found = sorted(file for name in names for file in directory.path.glob(name))
    digest = hashlib.sha256(code_digest().encode())
    for file in found:
        state = file.stat()
        digest.update(f"{file.relative_to(directory.path)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
