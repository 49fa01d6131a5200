"""Stage `checks`: how well the response of each space describes events that nobody has seen.

Predicted against observed counts in every latent dimension and in cells, the closure reach, the separation of
the processes and the linearity: all from the `check` pool, without toys, for every fold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import NuVector
from covad.embedding.probe import ProbeResult, linear_probe
from covad.errors import CovadError
from covad.events.processes import BACKGROUND
from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.reach import Reach, ScalableNull, closure_reach
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.dataset import Float32, Float64, Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.parallel import run_jobs
from covad.pipeline.response import embedded_pairs
from covad.response.fit import Pairs
from covad.response.linearity import Linearity, linearity
from covad.response.model import ResponseModel
from covad.response.validate import AdaptiveCells, CountComparison, MarginalBins, compare_counts
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.runs.models import response_of
from covad.storage.atomic import write_json
from covad.study import Study
from covad.study.plan import Space, convex_settings
from covad.toys.tests import TunedConvex

log = logging.getLogger(__name__)

BINS = 25
CELL_DEPTH = 7
_BLOCK = 1 << 15
#: Fewer events in a cell would leave its log ratio to chance.
_EVENTS_PER_CELL = 500


def check_missing(data: CollisionData, workers: int) -> None:
    """Stage `checks`."""
    jobs = [
        (data.study, data.directory, space, fold, file)
        for space in data.study.spaces
        for fold, file in data.directory.check_files(data.source, space).items()
    ]
    missing = [job for job in jobs if not (data.directory.path / job[-1]).exists()]
    run_jobs(check_space, missing, workers)


def check_space(study: Study, directory: RunDirectory, space: Space, fold: int, file: str) -> None:
    data = CollisionData.of(study, directory)
    embedding, order = space
    model = ResponseModel.load(directory.response(embedding, fold, order))
    pairs, labels = _check_events(data, embedding, fold)
    basis_events = embedded_pairs(data, embedding, fold, "basis")
    judge = _ReachJudge.of(study, basis_events.nominal[basis_events.nominal_passes], model)
    reaches = {nu: judge.reach(pairs, nu) for nu in pairs.z if np.abs(nu).sum() == 1.0}
    for nu, reach in reaches.items():
        log.info("closure reach of %s, fold %d, at nu = %s: %s events", space, fold, list(nu), _events(reach))
    write_json(
        directory.path / file,
        {
            "comparisons": [_plain(c) for c in _comparisons(model, pairs)],
            "reach": [{"nu": list(nu), **asdict(reach)} for nu, reach in reaches.items()],
            "probe": asdict(_probe(pairs, labels)),
            "linearity": list(_linearity(pairs)),
        },
    )


def _check_events(data: CollisionData, embedding: str, fold: int) -> tuple[Pairs, NDArray[np.int16]]:
    """The check pool with its labels, in random order: files may be sorted, and parts of it are used."""
    pairs = embedded_pairs(data, embedding, fold, "check")
    with data.open(BACKGROUND) as files:
        rows = data.rows["check"][: len(pairs)]
        labels = np.concatenate([piece.process for piece in files.pieces(rows)])
    order = np.random.default_rng(derived_seed(data.study, "check")).permutation(len(pairs))
    return pairs.take(order), labels[order]


def _probe(pairs: Pairs, labels: NDArray[np.int16]) -> ProbeResult:
    """Fitted on one half of the nominal events, judged on the other."""
    z, labels = pairs.nominal[pairs.nominal_passes], labels[pairs.nominal_passes]
    half = len(z) // 2
    return linear_probe(z[:half], labels[:half], z[half:], labels[half:])


def _linearity(pairs: Pairs) -> Iterator[dict[str, Any]]:
    """Departure of log(N_nu/N_0) from linearity, along every axis."""
    nominal = pairs.nominal[pairs.nominal_passes]
    divisions: dict[str, list[AdaptiveCells | MarginalBins]] = {
        "cells": [_cells(nominal)],
        "marginals": [MarginalBins.build(nominal, d, BINS) for d in range(nominal.shape[1])],
    }
    for direction in np.eye(len(next(iter(pairs.z)))):
        for where, cells in divisions.items():
            try:
                measured = linearity(pairs, tuple(direction.tolist()), (1.0, 2.0), cells)
            except CovadError as failure:  # few events: no reason to stop a study
                log.warning("the linearity in %s is left out: %s", where, failure)
                continue
            yield from (_departure(where, direction, found) for found in measured if found.effect > 0)


def _departure(where: str, direction: Float64, found: Linearity) -> dict[str, Any]:
    low, high = found.relative_interval
    return {
        "where": where,
        "direction": direction.tolist(),
        "size": found.size,
        "effect": found.effect,
        "departure": found.relative,
        "low": low,
        "high": high,
    }


def _cells(nominal: Float32) -> AdaptiveCells:
    """Of all latent dimensions; fewer where the pool is small."""
    depth = int(np.log2(max(len(nominal) / _EVENTS_PER_CELL, 2.0)))
    return AdaptiveCells.build(nominal, min(CELL_DEPTH, depth))


def _events(reach: Reach) -> str:
    low = reach.interval.low
    return f"{reach.n_events:.3g}" if reach.n_events is not None else f"at least {low or 0.0:.3g}"


def _comparisons(model: ResponseModel, pairs: Pairs) -> Iterator[tuple[str, CountComparison, list[float]]]:
    nominal = pairs.nominal[pairs.nominal_passes]
    for nu in pairs.z:
        for dimension in range(nominal.shape[1]):
            bins = MarginalBins.build(nominal, dimension, BINS)
            yield f"z{dimension}", compare_counts(model, pairs, nu, bins), bins.edges.tolist()
        yield "cells", compare_counts(model, pairs, nu, _cells(nominal)), []


def _plain(entry: tuple[str, CountComparison, list[float]]) -> dict[str, Any]:
    where, comparison, edges = entry
    return {
        "where": where,
        "edges": edges,
        "nu": list(comparison.nu),
        "nominal": comparison.nominal.tolist(),
        "observed": comparison.observed.tolist(),
        "predicted": comparison.predicted.tolist(),
        "uncertainty": comparison.uncertainty.tolist(),
        "chi2": comparison.chi2,
        "dof": comparison.dof,
        "p": comparison.p_value,
        "residual_share": comparison.residual_share,
    }


@dataclass(frozen=True)
class _ReachJudge:
    """The misfit in the columns of the study's convex test, or of a default one."""

    model: ResponseModel
    test: ConvexTest
    normalisation: float | None
    reference_ratio: float

    @classmethod
    def of(cls, study: Study, basis_events: Float32, model: ResponseModel) -> _ReachJudge:
        """Distances are in units of the spread of `basis_events`, so z need not be standardised."""
        settings = convex_settings(study, study.sizes) or TunedConvex(**study.sizes.model_dump())
        reference_ratio = study.sizes.reference / study.sizes.expected
        return cls(model, settings.choose(basis_events), study.normalisation, reference_ratio)

    def reach(self, pairs: Pairs, nu: NuVector) -> Reach:
        misfit = Misfit.matched(self._matched(pairs, nu))
        return closure_reach(misfit, self._null(pairs, nu))

    def _matched(self, pairs: Pairs, nu: NuVector) -> Iterator[MatchedEvents]:
        for start in range(0, len(pairs), _BLOCK):
            part = slice(start, start + _BLOCK)
            response = response_of(self.model, pairs.nominal[part])
            yield MatchedEvents(
                nominal=self._columns(pairs.nominal[part], response, nu),
                shifted=self._columns(pairs.z[nu][part], response_of(self.model, pairs.z[nu][part]), nu),
                log_ratio=nuisance_shift(response, self._nuisances(nu)),
                nominal_weights=pairs.nominal_passes[part].astype(np.float64),
                shifted_weights=pairs.passes[nu][part].astype(np.float64),
            )

    def _nuisances(self, nu: NuVector) -> Float64:
        return np.array([*nu, *([0.0] if self.normalisation else [])])

    def _columns(self, z: Float32, response: Response, nu: NuVector) -> Float32:
        """(phi, slopes in nu, 1) at the true nu."""
        slopes = nuisance_slopes(response, self._nuisances(nu))[:, : len(nu)].astype(np.float32)
        return columns(self.test.basis, z, Response(slopes), self.normalisation is not None)

    def _null(self, pairs: Pairs, nu: NuVector) -> ScalableNull:
        z = pairs.nominal[pairs.nominal_passes][: 4 * _BLOCK]
        response = response_of(self.model, z)
        n_basis = self.test.basis.n_columns
        ridge = np.append(self.test.ridge_by_column, np.zeros(len(self._nuisances(nu))))
        precision = np.concatenate([np.zeros(n_basis), np.ones(len(nu))])
        if self.normalisation:
            precision = np.append(precision, self.normalisation**-2)
        return ScalableNull.of(
            self._columns(z, response, nu),
            nuisance_shift(response, self._nuisances(nu)),
            ridge,
            precision,
            n_basis,
            self.reference_ratio,
        )
