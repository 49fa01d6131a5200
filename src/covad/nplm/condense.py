"""A small weighted sample that stands in for a large one while a fit is far from its maximum.

Events are sorted into cells of a binary tree that halves along the widest direction. In each cell the data,
and likewise the reference, are replaced by 2d points (d features) with the same weight, mean and covariance.
Data and reference share the cells, so that what is lost of third order is the same for both, and cancels in
their difference as far as they agree. The likelihood of a smooth f is then right to about a unit of t, at a
fifteenth of the cost: good enough to climb on, not to quote.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Float64
from covad.nplm.sample import Floats, Sample

#: Events of a cell, data and reference together.
EVENTS_PER_CELL = 240


@np.errstate(over="ignore", invalid="ignore")
def condense(sample: Sample, events_per_cell: int = EVENTS_PER_CELL) -> Sample:
    """The stand-in for `sample`. Features that overflow stay infinite, and the fit that meets them fails."""
    depth = max(0, int(np.log2(max(len(sample) / events_per_cell, 1.0))))
    cell = tree_cells(sample.z, depth)
    data = _moment_points(sample, sample.observed, cell, 1 << depth)
    reference = _moment_points(sample, sample.expected, cell, 1 << depth)
    n_data, n_reference = len(data[-1]), len(reference[-1])
    quadratic = None
    if sample.quadratic is not None:
        quadratic = np.concatenate([data[2], reference[2]]).astype(sample.quadratic.dtype)
    return Sample(
        z=np.concatenate([data[0], reference[0]]).astype(np.float32),
        linear=np.concatenate([data[1], reference[1]]).astype(np.float32),
        quadratic=quadratic,
        observed=np.concatenate([data[-1], np.zeros(n_reference)]),
        expected=np.concatenate([np.zeros(n_data), reference[-1]]),
        normalisation=sample.normalisation,
    )


def tree_cells(z: Floats, depth: int) -> NDArray[np.int64]:
    """Cell of each event: `depth` halvings, each along the direction of the cell's largest variance."""
    n_events = len(z)
    padded = -(-n_events // 2**depth) * 2**depth
    order = np.resize(np.arange(n_events), padded)[None, :]
    for _ in range(depth):
        n_cells, size = order.shape
        events = z[order]
        widest = events.var(axis=1).argmax(axis=1)
        along = np.take_along_axis(events, widest[:, None, None], axis=2)[:, :, 0]
        halves = np.argpartition(along, size // 2, axis=1)
        order = np.take_along_axis(order, halves, axis=1).reshape(2 * n_cells, size // 2)
    cell = np.empty(n_events, dtype=np.int64)
    cell[order.ravel()] = np.repeat(np.arange(len(order)), order.shape[1])
    return cell


def _moment_points(
    sample: Sample, weights: Float64, cell: NDArray[np.int64], n_cells: int
) -> tuple[Float64, Float64, Float64, Float64]:
    """(z, g, D, weights) of the points: 2d in each cell, at the mean -+ sqrt(d) times each principal axis.

    g varies along the axes as a linear fit inside the cell says; D is the cell's mean.
    """
    chosen = weights > 0
    w, cell = weights[chosen], cell[chosen]
    total = np.bincount(cell, w, n_cells)
    filled = total > 0
    total = np.where(filled, total, 1.0)

    def mean(values: Floats) -> Float64:
        flat = values.reshape(len(values), -1).astype(np.float64)
        sums = [np.bincount(cell, w * column, n_cells) for column in flat.T]
        return (np.array(sums).reshape(-1, n_cells).T / total[:, None]).reshape(n_cells, *values.shape[1:])

    z = sample.z[chosen].astype(np.float64)
    g = sample.linear[chosen].astype(np.float64)
    z_mean, g_mean = mean(z), mean(g)
    away = z - z_mean[cell]
    covariance = mean(away[:, :, None] * away[:, None, :])
    slopes = np.linalg.solve(covariance + 1e-6 * np.eye(z.shape[1]), mean(away[:, :, None] * g[:, None, :]))
    spread, axes = np.linalg.eigh(covariance)
    arms = np.swapaxes(axes * np.sqrt(z.shape[1] * np.maximum(spread, 0.0))[:, None, :], 1, 2)
    steps = np.concatenate([arms, -arms], axis=1)[filled]
    n_points = steps.shape[1]
    points = z_mean[filled, None, :] + steps
    responses = g_mean[filled, None, :] + steps @ slopes[filled]
    quadratic = np.zeros((len(z), 0)) if sample.quadratic is None else sample.quadratic[chosen]
    return (
        points.reshape(-1, z.shape[1]),
        responses.reshape(len(points) * n_points, g.shape[1]),  # there may be no nuisances
        np.repeat(mean(quadratic)[filled], n_points, axis=0),
        np.repeat(total[filled] / n_points, n_points),
    )
