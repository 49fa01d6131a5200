"""What is measured of an embedding and its responses on events that they have not seen.

Probe: linear classifiers of the processes. Linearity: departure of log(N_nu/N_0) from a line, in bins of each
latent dimension and in 4-D cells. Closure reach: the number of events at which the convex test would feel the
misfit of a response. All of it is used by `embedding_quality.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quantile_rule import with_quantile

from covad.embedding.embed import embed_family
from covad.embedding.encoder import Encoder
from covad.embedding.probe import linear_probe
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale
from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.reach import closure_reach
from covad.inference.shifts import ScalableNull, predicted_shift
from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.response.linearity import linearity
from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, MarginalBins, compare_counts
from covad.settings import Nu

SYSTEMATICS = (JetEnergyScale(),)
SELECTION = Selection()
GRID = (-2.0, -1.0, 1.0, 2.0)
#: Width of the normalisation nuisance and features of the convex test, as in the paper's toys and by default.
NORMALISATION_SIGMA = 0.1
N_BUMPS = 100
#: Events for the features of the convex test and for its null.
POOL = 100_000
BLOCK = 1 << 16
MARGINAL_BINS = 20
CELL_DEPTH = 7


def embed_grid(encoder: Encoder, events: Events, grid: Sequence[float] = GRID) -> Pairs:
    """One sample at nu = 0 and on the grid, event by event."""
    pieces = (events[start : start + BLOCK] for start in range(0, len(events), BLOCK))
    points = [(nu,) for nu in (0.0, *grid)]
    family = embed_family(encoder, pieces, SYSTEMATICS, points, SELECTION)
    return Pairs.align(family.pop(points[0]), family)


def probe(pairs: Pairs, labels: NDArray[np.int16]) -> dict[str, float]:
    """The probe is fitted on the first half of the events and judged on the second."""
    half = len(pairs) // 2
    passes = pairs.nominal_passes
    first, second = np.flatnonzero(passes[:half]), half + np.flatnonzero(passes[half:])
    z = pairs.nominal
    return asdict(linear_probe(z[first], labels[first], z[second], labels[second]))


def linearity_summary(pairs: Pairs) -> dict[str, Any]:
    """At 1 and 2 sigma: over the bins of all latent dimensions, and over 4-D cells."""
    z = pairs.nominal[pairs.nominal_passes]
    divisions = {
        "marginals": [MarginalBins.build(z, d, MARGINAL_BINS) for d in range(z.shape[1])],
        "cells": [AdaptiveCells.build(z, CELL_DEPTH)],
    }
    return {
        name: [
            {**asdict(result), "relative": result.relative, "interval": result.relative_interval}
            for result in linearity(pairs, (1.0,), (1.0, 2.0), cells)
        ]
        for name, cells in divisions.items()
    }


def agreement(model: ResponseModel, pairs: Pairs) -> dict[str, Any]:
    """Predicted against observed in 4-D cells: chi2 p-value and size of the misfit relative to the shift."""
    cells = AdaptiveCells.build(pairs.nominal[pairs.nominal_passes], CELL_DEPTH)
    results = {nu: compare_counts(model, pairs, (nu,), cells) for nu in GRID}
    return {
        f"{nu:+g}": {"p": r.p_value, "chi2": r.chi2, "dof": r.dof, "residual": r.residual_share}
        for nu, r in results.items()
    }


def reach(model: ResponseModel, pairs: Pairs, nu: float, pool: NDArray[np.float32]) -> dict[str, Any]:
    """Closure reach at nu of one convex test, the same for any number of events; both nuisances profiled."""
    test = with_quantile(pool, N_BUMPS, seed=1)
    n = test.basis.n_columns
    truth = np.array([nu, 0.0])
    ridge, auxiliary = np.zeros(n + 2), np.zeros(n + 2)
    ridge[: test.basis.n_ridged] = test.ridge
    auxiliary[n:] = 1.0, NORMALISATION_SIGMA**-2
    columns, log_ratio = _columns(test, model, pool, truth)
    null = ScalableNull.of(columns, log_ratio, ridge, auxiliary, n)
    misfit = Misfit.matched(_matched(test, model, pairs, truth))[(nu,)]
    result = closure_reach(
        lambda n_events: predicted_shift(misfit, null, n_events), misfit.n_events, 10_000.0
    )
    return {
        "events": result.n_events,
        "low": result.interval.low,
        "high": result.interval.high,
        "fresh_events": result.fresh_events,
    }


def response_of(model: ResponseModel, z: NDArray[np.float32]) -> Response:
    """The columns of the model as the likelihood takes them, one nuisance."""
    columns = model.columns(z)
    quadratic = columns[:, 1:, None] if model.shape.order == 2 else None
    return Response(columns[:, :1], quadratic)


def _columns(
    test: ConvexTest, model: ResponseModel, z: NDArray[np.float32], truth: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(phi, slopes in the nuisances) and log r at the truth."""
    response = response_of(model, z)
    slopes = nuisance_slopes(response, truth).astype(np.float32)
    return np.hstack([evaluate(test.basis, z), slopes]), nuisance_shift(response, truth)


def _matched(
    test: ConvexTest, model: ResponseModel, pairs: Pairs, truth: NDArray[np.float64]
) -> Iterator[dict[Nu, MatchedEvents]]:
    at = (float(truth[0]),)
    for start in range(0, len(pairs), BLOCK):
        rows = slice(start, start + BLOCK)
        nominal, log_ratio = _columns(test, model, pairs.nominal[rows], truth)
        shifted, _ = _columns(test, model, pairs.z[at][rows], truth)
        weights = (p[rows].astype(np.float64) for p in (pairs.nominal_passes, pairs.passes[at]))
        yield {at: MatchedEvents(nominal, shifted, log_ratio, *weights)}
