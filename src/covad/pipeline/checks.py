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
from covad.events.layout import UNLABELLED
from covad.events.processes import BACKGROUND
from covad.inference.reach import REACH_SHIFT
from covad.messages import counted
from covad.parallel import run_jobs
from covad.pipeline.encoder import fold_label
from covad.pipeline.reach import space_reach
from covad.pipeline.response import corner_pairs, embedded_nominal, embedded_pairs
from covad.response.density import of_equal_weight
from covad.response.linearity import linearity
from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, MarginalBins, compare_predicted
from covad.results.lines import reach_text
from covad.runs.checks import Departure, SpaceChecks, ValidationCounts, YieldAt
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.runs.models import load_space
from covad.storage.records import write_record
from covad.study import Study
from covad.study.plan import Space, shape_names, space_label
from covad.toys.truths import nu_text

log = logging.getLogger(__name__)

BINS = 25
CELL_DEPTH = 7
#: Fewer events in a cell would leave its log ratio to chance.
_EVENTS_PER_CELL = 500
#: Events of the check split at the corners of pairs of nuisances: there may be 180 of them.
_PAIR_EVENTS = 50_000


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
    name, order = space
    model = ResponseModel.load(data.products.response(name, fold, order).verified())
    # the check split with its labels, in random order: files may be sorted, and parts of it are used
    pairs = embedded_pairs(data, name, fold, "check")
    with data.open(BACKGROUND) as files:
        rows = data.rows["check"][: pairs.n_matched]
        labels = np.concatenate([piece.process for piece in files.pieces(rows)])
    labels = np.pad(labels, (0, len(pairs) - len(labels)), constant_values=UNLABELLED)
    shuffled = np.random.default_rng(derived_seed(study, "check")).permutation(len(pairs))
    pairs, labels = pairs.take(shuffled), labels[shuffled]
    basis = embedded_nominal(data, name, fold, "basis")
    weights = None if (basis.weights == 1.0).all() else basis.weights
    equal = of_equal_weight(basis.z, weights, derived_seed(study, "basis"))
    told = f"{space_label(space)}{fold_label(data, fold)}"
    found = space_reach(
        study,
        name,
        model,
        pairs,
        basis.z[equal],
        lambda planes: corner_pairs(data, name, fold, planes, _PAIR_EVENTS),
        data.source.response.bootstrap,
    )
    log.info("closure reach of %s: %s", told, reach_text(found.reach))
    if len(found.prior.nuisances) > 1:
        worst = (f"{found.prior.name(e.nuisance)} {e.misfit.shift:.2g}" for e in found.prior.nuisances[:5])
        log.info(
            "described worst, by the shift of t at %g events over the prior, in standard deviations: %s",
            found.prior.n_events,
            ", ".join(worst),
        )
    _warn_of_yields(told, order, found.yields, shape_names(study))
    # the probe is fitted on one half of the nominal events and judged on the other
    here = pairs.nominal_passes
    z, labels, weights = pairs.nominal[here], labels[here], pairs.nominal_weights
    half = len(z) // 2
    first, second = (None, None) if weights is None else (weights[:half], weights[half:])
    checks = SpaceChecks(
        comparisons=tuple(_comparisons(model, pairs, load_space(data, name, fold).columns)),
        yields=found.yields,
        reach=found.reach,
        probe=linear_probe(z[:half], labels[:half], z[half:], labels[half:], first, second),
        linearity=tuple(_linearity(pairs)),
        prior=found.prior,
        spread=found.spread,
    )
    product = data.products.checks(space, fold)
    write_record(product.path, checks)
    data.note(product)


def _linearity(pairs: Pairs) -> Iterator[Departure]:
    """Measure the departure of log(N_nu/N_0) from linearity, along every axis."""
    nominal = pairs.nominal[pairs.nominal_passes]
    divisions: dict[str, list[AdaptiveCells | MarginalBins]] = {
        "cells": [_cells(pairs)],
        "marginals": [MarginalBins.build(nominal, d, BINS) for d in range(nominal.shape[1])],
    }
    for direction in np.eye(len(next(iter(pairs.z)))):
        sizes = [
            size
            for size in (1.0, 2.0)
            if all(tuple((sign * size * direction).tolist()) in pairs.z for sign in (1.0, -1.0))
        ]
        if not sizes:  # one side cannot tell whether it is the mirror image of the other
            continue
        for where, cells in divisions.items():
            try:
                measured = linearity(pairs, tuple(direction.tolist()), sizes, cells)
            except CovadError as failure:  # few events: no reason to stop a study
                log.warning("the linearity in %s is left out: %s", where, failure)
                continue
            for found in measured:
                if found.effect > 0:
                    low, high = found.relative_interval
                    along = tuple(direction.tolist())
                    yield Departure(where, along, found.size, found.effect, found.relative, low, high)


def _cells(pairs: Pairs) -> AdaptiveCells:
    """Divide all latent dimensions into cells; fewer where the split is small, or weights make it so."""
    nominal = pairs.nominal[pairs.nominal_passes]
    return AdaptiveCells.filled(nominal, pairs.nominal_weights, CELL_DEPTH, _EVENTS_PER_CELL)


def _comparisons(model: ResponseModel, pairs: Pairs, names: Sequence[str]) -> Iterator[ValidationCounts]:
    """Compare predicted with observed counts in every dimension, by the name of its column, and in cells."""
    nominal = pairs.nominal[pairs.nominal_passes]
    divisions: dict[str, AdaptiveCells | MarginalBins] = {
        **{name: MarginalBins.build(nominal, d, BINS) for d, name in enumerate(names)},
        "cells": _cells(pairs),
    }
    columns = model.columns(nominal)
    for nu in pairs.z:
        f = model.log_ratio(columns, np.array(nu))
        for where, cells in divisions.items():
            found = compare_predicted(f, pairs, nu, cells)
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


def _warn_of_yields(name: str, order: int, yields: Sequence[YieldAt], names: Sequence[str]) -> None:
    """Warn if what the response leaves of the yield moves t by more than a reach allows for."""
    choose = "choose a configuration with order: 2, or" if order == 1 else "choose"
    for at in yields:
        if at.low > REACH_SHIFT:
            log.warning(
                "%s: at %s the yield is %.4f of the nominal one, and %.4f by the response; at %g events "
                "this shifts t by %.2g standard deviations: %s a normalisation of at least %.2g",
                name,
                nu_text(at.nu, names),
                at.observed,
                at.predicted,
                at.n_events,
                at.shift,
                choose,
                abs(at.observed / at.predicted - 1.0),
            )
