"""What a finished run of `kinds_world` says of systematics that do the same, or whose response is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from calibration.limits import Normal
from kinds_world import NAMES, UNCERTAINTY
from numpy.typing import NDArray
from scipy.stats import chi2

from covad.events.processes import BACKGROUND
from covad.inference.ranking import Shift
from covad.nplm.dataset import Dataset, Response
from covad.nplm.likelihood import fit_nuisances, join_nuisances, nuisance_slopes
from covad.nplm.statistic import likelihood_ratio
from covad.pipeline.response import embedded_pairs
from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, CountComparison, compare_counts
from covad.results.collect import RunToys, collect
from covad.results.run import Run
from covad.runs.checks import SpaceChecks, read_checks
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.models import load_models
from covad.settings import Nu
from covad.study.plan import Entry
from covad.toys.drawing import pool_offset
from covad.toys.ensembles import Source, Treatment

Float64 = NDArray[np.float64]
#: Cells of the latent space: 2^6 with a thousand events of the check split each.
DEPTH = 6
#: Truths of other toys than those of the run.
SEED = 20261119


def point(name: str | None = None, nu: float = 1.0) -> Nu:
    """Return the nu at which one nuisance alone is not 0."""
    return tuple(nu if each == name else 0.0 for each in NAMES)


def mean_of(values: Sequence[float] | Float64, common: float = 0.0) -> Normal:
    """Return the mean over toys; a share of their variance is `common` to all."""
    found = np.asarray(values, dtype=np.float64)
    return Normal(float(found.mean()), float(found.std(ddof=1) * np.sqrt(1.0 / len(found) + common)))


def apart(one: Normal, other: Normal) -> float:
    """Return by how many standard errors two means differ."""
    return (one.mean - other.mean) / float(np.hypot(one.error, other.error))


@dataclass(frozen=True)
class Calibration:
    """P(process | z) by the response, judged by labels of fresh events."""

    chi2: float
    cells: int
    slope: Normal  # of the label in what is predicted
    yielded: float  # log N(+1)/N(-1) of the response, over the true one

    @property
    def p(self) -> float:
        return float(chi2.sf(self.chi2, self.cells))


@dataclass(frozen=True)
class Twins:
    """Two responses at fresh events, which should be the same function."""

    size: float  # N E[g^2] of the first
    difference: float  # N E[(g - g')^2], constants left out
    noise: float  # what the spread of the heads predicts for it
    slope: float  # of the second in the first


@dataclass(frozen=True)
class KindsRun:
    """A finished run of the study of `kinds_world`."""

    path: Path

    @cached_property
    def data(self) -> CollisionData:
        directory = RunDirectory(self.path)
        return CollisionData.of_run(directory.study(), directory)

    @cached_property
    def collected(self) -> RunToys:
        return collect(self.path)

    @cached_property
    def run(self) -> Run:
        return Run(self.path)

    @property
    def space(self) -> tuple[str, int]:
        return self.data.study.spaces[0]

    @cached_property
    def model(self) -> ResponseModel:
        return load_models(self.data, self.space)[1]

    @cached_property
    def fresh(self) -> Pairs:
        """The check split at nu = 0 and on the grid."""
        return embedded_pairs(self.data, self.space[0], 0, "check")

    @cached_property
    def labels(self) -> NDArray[np.str_]:
        """The processes of its events, in its order."""
        with self.data.open(BACKGROUND) as files:
            events = files.read(self.data.rows["check"])
        return np.array(events.process_names)[events.process]

    @cached_property
    def g(self) -> Float64:
        """g of every nuisance by every head at nominal fresh events, (heads, events, nuisances).

        The constants of the yield are left out.
        """
        z = torch.from_numpy(self.fresh.nominal[: self.fresh.n_matched])
        with torch.no_grad():
            return self.model.by_head(z).numpy().astype(np.float64)

    @cached_property
    def cells(self) -> AdaptiveCells:
        return AdaptiveCells.build(self.fresh.nominal[: self.fresh.n_matched], DEPTH)

    @cached_property
    def checks(self) -> SpaceChecks:
        found = read_checks(self.data.products.checks(self.space, 0))
        assert found is not None
        return found

    def misfit(self, name: str) -> Shift:
        """Return the shift of t by the misfit of one nuisance over its prior."""
        entries = {entry.nuisance: entry.misfit for entry in self.checks.prior.nuisances}
        return entries[NAMES.index(name)]

    def of_rate(self) -> Calibration:
        """Compare g of ttbar with sigma P(ttbar | z), sigma = log(1 + uncertainty): true to third order."""
        sigma = np.log1p(UNCERTAINTY)
        k = NAMES.index("ttbar_rate")
        g = self.g[..., k].mean(axis=0) - float(self.model.offset[k])
        predicted, label = g / sigma, (self.labels == "ttbar").astype(np.float64)
        cell = self.cells.index(self.fresh.nominal[: self.fresh.n_matched])
        n = len(self.cells)
        differs = np.bincount(cell, label - predicted, n)
        inside = np.clip(predicted, 1e-3, 1.0 - 1e-3)
        variance = np.bincount(cell, inside * (1.0 - inside), n)
        centred = predicted - predicted.mean()
        slope = float(centred @ label / (centred @ centred))
        rest = label - label.mean() - slope * centred
        error = float(np.sqrt(centred**2 @ rest**2) / (centred @ centred))
        true_yield = np.log1p(UNCERTAINTY * label.mean()) - np.log1p(
            (1 / (1 + UNCERTAINTY) - 1) * label.mean()
        )
        found = np.log(np.exp(g).mean()) - np.log(np.exp(-g).mean())
        return Calibration(
            float((differs**2 / variance).sum()), n, Normal(slope, error), float(found / true_yield)
        )

    def twins(self, first: str, second: str, n_events: float) -> Twins:
        """Compare the responses of two nuisances, for so many events."""
        centred = self.g - self.g.mean(axis=1, keepdims=True)
        one, other = (centred[..., NAMES.index(name)] for name in (first, second))
        mean_one, mean_other = one.mean(axis=0), other.mean(axis=0)
        noise = sum(float(heads.var(axis=0, ddof=1).mean()) / len(heads) for heads in (one, other))
        return Twins(
            n_events * float(np.mean(mean_one**2)),
            n_events * float(np.mean((mean_one - mean_other) ** 2)),
            n_events * noise,
            float(mean_one @ mean_other / (mean_one @ mean_one)),
        )

    def predicted(self, by: str, of: str, nu: float) -> CountComparison:
        """Compare the counts of fresh events at nu of one nuisance with the response of another."""
        pairs, there, called = self.fresh, point(of, nu), point(by, nu)
        renamed = replace(
            pairs,
            z={called: pairs.z[there]},
            passes={called: pairs.passes[there]},
            factors={called: pairs.factors[there]} if there in pairs.factors else {},
        )
        return compare_counts(self.model, renamed, called, self.cells)

    def entry(self, treatment: Treatment, nu: Nu) -> Entry:
        return next(
            entry
            for entry in self.collected.entries
            if entry.configuration.treatment is treatment and entry.draw.nu == nu
        )

    @cached_property
    def offset(self) -> float:
        """The share of the standard deviation of t that its means have in common, from finite pools."""
        ensemble = self.entry(Treatment.PROFILED, point()).ensemble
        assert ensemble is not None
        return pool_offset(ensemble).share

    def t(self, treatment: Treatment, nu: Nu) -> Normal:
        """Return the mean of t over the toys of the run."""
        entry = self.entry(treatment, nu)
        assert entry.ensemble is not None
        return mean_of(self.collected.toys[entry.ensemble.identity].t, self.offset**2)

    def fitted(self, name: str) -> Normal:
        """Return the mean of a nuisance in the Delta fits of the run's toys at its +1."""
        entry = self.entry(Treatment.PROFILED, point(name))
        assert entry.ensemble is not None
        table = self.collected.toys[entry.ensemble.identity].table()
        fitted = np.array(table.column("nu_delta").to_pylist(), dtype=np.float64)
        return mean_of(fitted[:, NAMES.index(name)], self.offset)

    def drawn(self, nu: Nu, index: int) -> Dataset:
        """Draw a toy as the run does, for a test that profiles all nuisances."""
        ensemble = self.entry(Treatment.PROFILED, nu).ensemble
        assert ensemble is not None
        source: Source = ensemble.source
        return source.draw(ensemble.draw, ensemble.seeds(index))

    def found_by_data(self, name: str, n_toys: int) -> tuple[Normal, float, float]:
        """Fit toys at nu = 1 of a nuisance whose auxiliary values are thrown around 0, where it was believed.

        Return the mean of its fitted value, what is expected, and its error after the fit: H^-1 F of the
        likelihood, where the auxiliary values hold it back, and its root of the diagonal of H^-1.
        """
        k, found, expected, errors = NAMES.index(name), [], [], []
        for index in range(n_toys):
            toy = self.drawn(point(name), index)
            rng = np.random.default_rng([SEED, index])
            toy = replace(toy, measured=rng.normal(0.0, 1.0, len(NAMES)))
            found.append(float(join_nuisances(fit_nuisances(toy), toy)[k]))
            slopes = nuisance_slopes(toy.reference_response, np.zeros(len(NAMES) + 1))
            information = (slopes * toy.weights[:, None]).T @ slopes
            assert toy.normalisation is not None
            precision = np.append(np.ones(len(NAMES)), toy.normalisation.sigma**-2.0)
            inverse = np.linalg.inv(information + np.diag(precision))
            expected.append(float((inverse @ information)[k, k]))
            errors.append(float(np.sqrt(inverse[k, k])))
        return mean_of(found, self.offset), float(np.mean(expected)), float(np.mean(errors))

    def t_with_one(self, tested: str, true: str | None, n_toys: int) -> tuple[Normal, Normal]:
        """Test toys with one nuisance alone, which stands for that of the toys; return means of t and nu."""
        k = NAMES.index(tested)
        entry = self.entry(Treatment.PROFILED, point(true))
        assert entry.ensemble is not None
        test = entry.ensemble.test.build(entry.ensemble.source)
        t, nu = [], []
        for index in range(n_toys):
            toy = self.drawn(point(true), index)
            rng = np.random.default_rng([SEED, 1, index])
            one = replace(
                toy,
                reference_response=Response(toy.reference_response.linear[:, [k]]),
                data_response=Response(toy.data_response.linear[:, [k]]),
                measured=rng.normal(0.0 if true is None else 1.0, 1.0, 1),
            )
            outcome = likelihood_ratio(one, test, 0)
            t.append(outcome.t)
            nu.append(float(outcome.delta.nu[0]))
        return mean_of(t, self.offset**2), mean_of(nu, self.offset)
