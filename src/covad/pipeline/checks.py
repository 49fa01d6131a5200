"""Stage `checks`: how well the response of each space describes events that nobody has seen.

Predicted against observed counts in every latent dimension and in cells, the yield, the closure reach, the
separation of the processes and the linearity: all from the `check` split, without toys, for every fold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from covad.embedding.probe import linear_probe
from covad.errors import CovadError
from covad.events.processes import BACKGROUND
from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.reach import REACH_SHIFT, ScalableNull, closure_reach, predicted_shift, yield_part
from covad.messages import counted
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.dataset import Float32, Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.parallel import run_jobs
from covad.pipeline.encoder import fold_label
from covad.pipeline.response import embedded_pairs
from covad.response.fit import Pairs
from covad.response.linearity import linearity
from covad.response.model import ResponseModel
from covad.response.validate import AdaptiveCells, MarginalBins, compare_counts
from covad.results.lines import reach_text
from covad.results.summary import nu_text
from covad.runs.checks import Departure, ReachAt, SpaceChecks, ValidationCounts, YieldAt
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.runs.models import response_of
from covad.settings import Nu
from covad.storage.records import write_record
from covad.study import Study
from covad.study.plan import Space, reach_convex, space_label

log = logging.getLogger(__name__)

BINS = 25
CELL_DEPTH = 7
_BLOCK = 1 << 15
#: Fewer events in a cell would leave its log ratio to chance.
_EVENTS_PER_CELL = 500


def check_missing(data: CollisionData, workers: int) -> None:
    """Check every space and fold that was not checked yet, each in a process of its own."""
    missing = [
        (data.study, data.directory, space, fold)
        for space in data.study.spaces
        for fold in range(data.source.folds)
        if data.products.checks(space, fold).make_room()
    ]
    if missing:
        log.info("stage checks: %s to check on fresh events", counted(len(missing), "response"))
    run_jobs(check_space, missing, workers)


def check_space(study: Study, directory: RunDirectory, space: Space, fold: int) -> None:
    """Judge the response of one space, and write what was found."""
    data = CollisionData.of_run(study, directory)
    embedding, order = space
    model = ResponseModel.load(data.products.response(embedding, fold, order).verified())
    # the check split with its labels, in random order: files may be sorted, and parts of it are used
    pairs = embedded_pairs(data, embedding, fold, "check")
    with data.open(BACKGROUND) as files:
        rows = data.rows["check"][: len(pairs)]
        labels = np.concatenate([piece.process for piece in files.pieces(rows)])
    shuffled = np.random.default_rng(derived_seed(study, "check")).permutation(len(pairs))
    pairs, labels = pairs.take(shuffled), labels[shuffled]
    # distances are in units of the spread of the events that the basis is chosen from, so z need not be
    # standardised
    basis_events = embedded_pairs(data, embedding, fold, "basis")
    convex = reach_convex(study)
    test = convex.choose(basis_events.nominal[basis_events.nominal_passes])
    name = f"{space_label(space)}{fold_label(data, fold)}"
    reaches, yields = [], []
    for nu in (nu for nu in pairs.z if np.count_nonzero(nu) == 1):
        misfit, null = _misfit(study, model, test, pairs, nu)
        yields.append(_yield(study.sizes.expected, misfit, null, pairs, nu, test.basis.n_ridged))
        if np.abs(nu).sum() == 1.0:
            reaches.append(ReachAt(**vars(closure_reach(misfit, null)), nu=nu))
            log.info("closure reach of %s, at nu = %s: %s", name, nu_text(nu), reach_text(reaches[-1]))
    _warn_of_yields(name, yields)
    # the probe is fitted on one half of the nominal events and judged on the other
    z, labels = pairs.nominal[pairs.nominal_passes], labels[pairs.nominal_passes]
    half = len(z) // 2
    checks = SpaceChecks(
        comparisons=tuple(_comparisons(model, pairs)),
        yields=tuple(yields),
        reach=tuple(reaches),
        probe=linear_probe(z[:half], labels[:half], z[half:], labels[half:]),
        linearity=tuple(_linearity(pairs)),
    )
    product = data.products.checks(space, fold)
    write_record(product.path, checks)
    data.note(product)


def _linearity(pairs: Pairs) -> Iterator[Departure]:
    """Measure the departure of log(N_nu/N_0) from linearity, along every axis."""
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
            for found in measured:
                if found.effect > 0:
                    low, high = found.relative_interval
                    along = tuple(direction.tolist())
                    yield Departure(where, along, found.size, found.effect, found.relative, low, high)


def _cells(nominal: Float32) -> AdaptiveCells:
    """Divide all latent dimensions into cells; fewer where the split is small."""
    depth = int(np.log2(max(len(nominal) / _EVENTS_PER_CELL, 2.0)))
    return AdaptiveCells.build(nominal, min(CELL_DEPTH, depth))


def _comparisons(model: ResponseModel, pairs: Pairs) -> Iterator[ValidationCounts]:
    """Compare predicted with observed counts in every latent dimension and in cells."""
    nominal = pairs.nominal[pairs.nominal_passes]
    marginals = {f"z{d}": MarginalBins.build(nominal, d, BINS) for d in range(nominal.shape[1])}
    for nu in pairs.z:
        divisions: dict[str, AdaptiveCells | MarginalBins] = {**marginals, "cells": _cells(nominal)}
        for where, cells in divisions.items():
            found = compare_counts(model, pairs, nu, cells)
            yield ValidationCounts(
                where=where,
                nu=tuple(nu),
                chi2=found.chi2,
                dof=found.dof,
                p=found.p_value,
                residual_share=found.residual_share,
                edges=tuple(cells.edges.tolist()) if isinstance(cells, MarginalBins) else (),
                nominal=tuple(found.nominal.tolist()),
                observed=tuple(found.observed.tolist()),
                predicted=tuple(found.predicted.tolist()),
                uncertainty=tuple(found.uncertainty.tolist()),
            )


def _yield(
    expected: float, misfit: Misfit, null: ScalableNull, pairs: Pairs, nu: Nu, constant: int
) -> YieldAt:
    """Return the yield at nu, observed and predicted, and the shift of t by what lies between them."""
    observed = float(np.exp(pairs.log_yield(nu)))
    moved = predicted_shift(yield_part(misfit, null, constant), null, expected)
    return YieldAt(
        nu=nu,
        observed=observed,
        predicted=observed - float(misfit.delta[constant]),
        uncertainty=float(np.sqrt(misfit.covariance[constant, constant])),
        n_events=expected,
        shift=moved.shift,
        low=moved.low,
        high=moved.high,
    )


def _warn_of_yields(name: str, yields: Sequence[YieldAt]) -> None:
    """Warn if what the response leaves of the yield moves t by more than a reach allows for."""
    for at in yields:
        if at.low > REACH_SHIFT:
            log.warning(
                "%s: at nu = %s the yield is %.4f of the nominal one, and %.4f by the response; at %g events "
                "this shifts t by %.2g standard deviations: choose a configuration with order: 2, or a "
                "normalisation of at least %.2g",
                name,
                nu_text(at.nu),
                at.observed,
                at.predicted,
                at.n_events,
                at.shift,
                abs(at.observed / at.predicted - 1.0),
            )


def _misfit(
    study: Study, model: ResponseModel, test: ConvexTest, pairs: Pairs, nu: Nu
) -> tuple[Misfit, ScalableNull]:
    """Return the misfit of the response at nu in the columns of the convex test, and the null there."""
    sigma = study.normalisation
    nuisances = np.array([*nu, *([0.0] if sigma else [])])
    n_basis = test.basis.n_columns

    def columns_of(z: Float32, response: Response) -> Float32:
        """Return (phi, slopes in nu, 1) at the true nu."""
        slopes = nuisance_slopes(response, nuisances)[:, : len(nu)].astype(np.float32)
        return columns(test.basis, z, Response(slopes), sigma is not None)

    def matched() -> Iterator[MatchedEvents]:
        for start in range(0, len(pairs), _BLOCK):
            part = slice(start, start + _BLOCK)
            nominal, shifted = pairs.nominal[part], pairs.z[nu][part]
            response = response_of(model, nominal)
            yield MatchedEvents(
                nominal=columns_of(nominal, response),
                shifted=columns_of(shifted, response_of(model, shifted)),
                log_ratio=nuisance_shift(response, nuisances),
                nominal_weights=pairs.nominal_passes[part].astype(np.float64),
                shifted_weights=pairs.passes[nu][part].astype(np.float64),
            )

    z = pairs.nominal[pairs.nominal_passes][: 4 * _BLOCK]
    response = response_of(model, z)
    precision = np.concatenate([np.zeros(n_basis), np.ones(len(nu)), [sigma**-2] if sigma else []])
    null = ScalableNull.of(
        columns_of(z, response),
        nuisance_shift(response, nuisances),
        np.append(test.ridge_by_column, np.zeros(len(nuisances))),
        precision,
        n_basis,
        study.sizes.reference / study.sizes.expected,
    )
    return Misfit.matched(matched()), null
