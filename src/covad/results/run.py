"""A run as a notebook sees it: its study, its summary, its toys. Nothing here writes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from covad.errors import FileFormatError, UnfinishedRunError, UnknownNameError
from covad.nplm.dataset import Float64
from covad.results.collect import RunToys, collect
from covad.results.compute import current_summary
from covad.results.summary import Summary
from covad.study import TESTS, Study
from covad.study.plan import default_test, main_configuration, shape_names
from covad.toys.ensembles import Draw
from covad.toys.store import EnsembleToys
from covad.toys.truths import point_name, point_text


@dataclass(frozen=True)
class Run:
    """A run directory with the toys that it had when it was opened; open it again to see later ones."""

    path: Path

    @property
    def study(self) -> Study:
        return self._collected.study

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the names of the study's tests, the default one first."""
        there = {entry.test for entry in self._collected.entries}
        default = default_test(self.study)
        return (default, *(test for test in TESTS if test in there and test != default))

    @cached_property
    def summary(self) -> Summary:
        """Return all results; they are computed if the run's summary.json is not of today's toys."""
        return current_summary(self._collected)

    @property
    def t_at_nominal_yield(self) -> Mapping[str, Float64]:
        """Return t moved to the nominal yield, of which all results are made, by `ensembles[].identity`."""
        return self._collected.values

    def toys(
        self,
        configuration: str | None = None,
        nu: ArrayLike = 0.0,
        *,
        nu_norm: float = 0.0,
        prior: bool = False,
        signal: str | None = None,
        injected: float | None = None,
        test: str | None = None,
    ) -> EnsembleToys:
        """Return the toys of one ensemble: `.t` is an array, as it was fitted, `.table()` an Arrow table.

        `configuration` is a slug or a label, by default the study's main one. nu = 0 stands for all nuisances
        at 0; `nu_norm` is the true nuisance of the normalisation in units of its sigma, and `prior` the
        ensemble whose truths are thrown from the prior. `injected` may be left out where the study has one
        yield of the signal; `test` is by default the one whose p the study quotes.
        """
        study = self.study
        wanted = main_configuration(study) if configuration is None else study.configuration(configuration)
        test, names = default_test(study) if test is None else test, shape_names(study)
        if signal is None and injected is not None:
            raise UnknownNameError(f"{injected} events were asked for, but of which signal?")
        try:
            point = tuple(float(x) for x in np.atleast_1d(np.asarray(nu, dtype=np.float64)))
            injected = None if injected is None else float(injected)
        except (TypeError, ValueError):
            raise UnknownNameError(
                f"nu is a number per nuisance and injected a number of events, not {nu!r} and {injected!r}"
            ) from None
        if not any(point):
            point = (0.0,) * len(names)
        if len(point) != len(names):
            raise UnknownNameError(f"nu has {len(point)} numbers, but nuisances are {', '.join(names)}")
        mine = [e for e in self._collected.entries if (e.test, e.configuration) == (test, wanted)]
        truth = (point, float(nu_norm), prior, signal)
        found = [e for e in mine if (e.draw.nu, e.draw.nu_norm, e.draw.prior, e.draw.signal) == truth]
        if signal is not None and injected is not None:
            found = [e for e in found if e.draw.injected == injected]
        if len(found) != 1:
            known = "; ".join(
                _described(e.draw, names, e.draw.signal, e.draw.injected, e.along_worst) for e in mine
            )
            asked = "any nu"
            if mine:
                wished = replace(mine[0].draw, nu=point, nu_norm=nu_norm, prior=prior)
                asked = _described(wished, names, signal, injected)
            raise UnknownNameError(
                f"'{wanted.label}' has {len(found)} ensembles of the test '{test}' at {asked} "
                f"(it has: {known or 'none'})"
            )
        entry = found[0]
        if entry.ensemble is None:
            raise UnfinishedRunError(
                f"{self.path}: '{wanted.label}' has no pools, clip or basis for the test '{test}' yet; "
                "`covad run` goes on"
            )
        return self._collected.toys[entry.ensemble.identity]

    @cached_property
    def _collected(self) -> RunToys:
        return collect(self.path)


def _described(
    draw: Draw, names: Sequence[str], signal: str | None, injected: float | None, along_worst: float = 0.0
) -> str:
    point = point_text(point_name(draw.nu, names, draw.nu_norm, draw.prior, along_worst))
    if signal is None:
        return point
    return f"{point} with {signal}" + (f" ({injected:g} events)" if injected is not None else "")


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory; raise a covad error if it is none, or one of another version."""
    run = Run(as_path(path, "a run directory").absolute())
    _ = run.study
    return run


def as_path(value: str | os.PathLike[str], what: str) -> Path:
    """Return a path that a user gave; raise FileFormatError if it is none."""
    try:
        path = Path(value)
    except TypeError:
        path = None
    if path is not None and "\0" not in str(path):
        return path
    raise FileFormatError(f"{what} is named by its path, not by {value!r}")
