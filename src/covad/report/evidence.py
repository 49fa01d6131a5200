"""What the report is made of: the summary of a run, and the arrays that its figures show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from covad.inference.ranking import PriorClosure, TrainingSpread
from covad.nplm.dataset import Float64
from covad.observed.result import Observation, digest_of_nulls, read_observations
from covad.results.latent import LatentSpace, Marginal, marginals, read_latent_space
from covad.results.power import YardstickTable, read_yardsticks
from covad.results.summary import EnsembleSummary, Summary, select
from covad.runs.checks import SpaceChecks, read_checks
from covad.runs.directory import RunDirectory, space_name
from covad.runs.products import Products
from covad.settings import Nu
from covad.study import Collisions

#: Background-only toys by nu.
Ensembles = dict[Nu, Float64]


@dataclass(frozen=True)
class Evidence:
    """Summary, t per ensemble, checks of the response, latent pools, observed files; any may be missing."""

    summary: Summary
    t: Mapping[str, Float64] = field(default_factory=dict)  # at the nominal yield, by identity
    checks: Mapping[str, SpaceChecks] = field(default_factory=dict)  # by space
    spaces: Mapping[str, LatentSpace] = field(default_factory=dict)
    observed: tuple[Observation, ...] = ()
    outdated: tuple[str, ...] = ()  # answers that do not hold for the study as it is
    yardsticks: YardstickTable | None = None

    def toys(
        self, test: str, configuration: str, signal: str | None = None, injected: float = 0.0
    ) -> Ensembles:
        """Return t at every nu, the central one first; R_0 has the toys of all true yields."""
        key = {"test": test, "configuration": configuration, "signal": signal, "injected": injected}
        found: dict[Nu, list[Float64]] = {nu: [] for nu in self.summary.points}
        for line in select(self.summary.ensembles, **key, prior=False, along_worst=0.0):
            if (t := self.t.get(line.identity or "")) is not None:
                found[line.nu].append(t)
        return {nu: np.concatenate(ensembles) for nu, ensembles in found.items() if ensembles}

    def toys_of_nulls(self, observation: Observation) -> int:
        """Return how many toys the nulls of an answer have now."""
        return sum(line.done for line in _null_lines(self.summary, observation))

    @property
    def notes_on_answers(self) -> Iterator[str]:
        """Say which answers are left out, and which ones could be had from more toys by now."""
        for name in self.outdated:
            yield f"{name}: left out, because the study or its models have changed since: test it again"
        for observation in self.observed:
            if observation.toys != (now := self.toys_of_nulls(observation)):
                yield (
                    f"{observation.name}: p and Z were made with {observation.toys} toys of the nulls, which "
                    f"have {now} by now: test it again"
                )

    def closure_over_prior(self, space: str) -> PriorClosure | None:
        """Return the ranked closure of a space; None if it was not measured."""
        checks = self.checks.get(space)
        return None if checks is None else checks.prior

    def training_spread(self, space: str) -> TrainingSpread | None:
        """Return by how much t moves from one fit of the response to the next; None if it is not known."""
        checks = self.checks.get(space)
        return None if checks is None else checks.spread

    def marginals(self, space: str) -> list[Marginal]:
        return marginals(self.checks.get(space), self.spaces.get(space))


def read_evidence(run: Path, summary: Summary, t: Mapping[str, Float64]) -> Evidence:
    """Read what a run has beside its summary and t of its toys (`RunToys.values`)."""
    study, directory = summary.study, RunDirectory(run)
    checks, pools = {}, {}
    if isinstance(study.source, Collisions):
        products = Products(study, directory)
        for space in sorted(study.spaces):
            checks[space_name(space)] = read_checks(products.checks(space, study.source.fold))
            pools[space_name(space)] = products.pools(space)
    return replace(
        read_answers(run, summary),
        t=t,
        yardsticks=valid_yardsticks(directory, summary),
        checks={name: found for name, found in checks.items() if found is not None},
        spaces={name: read_latent_space(product) for name, product in pools.items() if product.made},
    )


def valid_yardsticks(directory: RunDirectory, summary: Summary) -> YardstickTable | None:
    """Return the yardsticks that were measured on toys which the run still has."""
    found = read_yardsticks(directory)
    known = {line.identity for line in summary.ensembles}
    return found if found is not None and known.issuperset(found.made_of) else None


def read_answers(run: Path, summary: Summary) -> Evidence:
    """Read the answers for observed files alone, those that hold apart from those that do not."""
    answers = read_observations(RunDirectory(run))
    valid = [observation for observation in answers if observation.nulls == _nulls(summary, observation)]
    outdated = (observation.name for observation in answers if observation not in valid)
    return Evidence(summary, observed=tuple(valid), outdated=tuple(outdated))


def _nulls(summary: Summary, observation: Observation) -> str:
    """Return the digest of the nulls that an answer for this configuration has now."""
    return digest_of_nulls(line.identity for line in _null_lines(summary, observation))


def _null_lines(summary: Summary, observation: Observation) -> list[EnsembleSummary]:
    """Return the ensembles that the nulls of an answer are made of."""
    key = {"configuration": observation.configuration, "signal": None, "prior": False}
    return select(summary.ensembles, **key)
