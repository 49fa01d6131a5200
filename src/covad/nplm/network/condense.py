"""A small weighted sample that stands in for a large one while a fit is far from its maximum.

Events are sorted into cells of a binary tree that halves along the widest direction. In each cell the data,
and likewise the reference, are replaced by 2d points (d dimensions) of the same weight, mean and covariance.
Data and reference share the cells, so that what is lost of third order is the same for both, and cancels in
their difference as far as they agree. The likelihood of a smooth f is then right to about a unit of t, at a
fifteenth of the cost: good enough to climb on, not to quote.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.nplm.dataset import Float64
from covad.nplm.likelihood import MANY
from covad.nplm.network.packing import Floats, PackedEvents

#: Events of a cell, data and reference together.
EVENTS_PER_CELL = 240


@np.errstate(over="ignore", invalid="ignore")
def condense(sample: PackedEvents, events_per_cell: int = EVENTS_PER_CELL) -> PackedEvents:
    """Return the stand-in for `sample`. Values that overflow stay infinite: the fit that meets them fails."""
    depth = max(0, int(np.log2(max(len(sample) / events_per_cell, 1.0))))
    cells = tree_cells(sample.z, depth)
    data = _moment_points(sample, sample.observed, cells)
    reference = _moment_points(sample, sample.expected, cells)
    z, g, d, weights = (np.concatenate(parts) for parts in zip(data, reference, strict=True))
    observed = np.arange(len(weights)) < len(data[-1])
    return PackedEvents(
        z=z.astype(np.float32),
        linear=g.astype(np.float32),
        quadratic=None if sample.quadratic is None else d.astype(np.float32),
        observed=np.where(observed, weights, 0.0),
        expected=np.where(observed, 0.0, weights),
        normalisation=sample.normalisation,
    )


def tree_cells(z: Floats, depth: int) -> NDArray[np.int64]:
    """Sort events into (cells, events) by `depth` halvings along the direction of the largest variance.

    Cells are of one size. Where that does not work out, places are filled with len(z) + i, which stands for
    a copy of event i without weight.
    """
    order = np.arange(-(-len(z) // 2**depth) * 2**depth)
    coordinates = np.ascontiguousarray(z[order % len(z)].T)[:, None, :]
    for _ in range(depth):
        n_dimensions, n_cells, size = coordinates.shape
        squares = np.einsum("dcs,dcs->dc", coordinates, coordinates) / size
        widest = (squares - coordinates.mean(axis=2) ** 2).argmax(axis=0)
        halves = np.argpartition(coordinates[widest, np.arange(n_cells)], size // 2, axis=1)
        places = (halves + size * np.arange(n_cells)[:, None]).ravel()
        order = order[places]
        coordinates = coordinates.reshape(n_dimensions, -1)[:, places].reshape(
            n_dimensions, 2 * n_cells, size // 2
        )
    return order.reshape(2**depth, -1)


def _moment_points(
    sample: PackedEvents, weights: Float64, cells: NDArray[np.int64]
) -> tuple[Float64, Float64, Float64, Float64]:
    """Return (z, g, D, weights) of 2d points in each cell, at the mean +- sqrt(d) times each principal axis.

    g varies along the axes as a linear fit inside the cell says; D is the cell's mean.
    """
    event = cells % len(sample)
    w = np.where(cells < len(sample), weights[event], 0.0)
    filled = w.sum(axis=1) > 0.0
    event, w = event[filled], w[filled]
    total = w.sum(axis=1)
    share = (w / total[:, None])[:, None, :]  # (cells, 1, events)
    z = sample.z[event].astype(np.float64)
    z_mean = share @ z
    away = z - z_mean
    weighted = np.swapaxes(away * share.swapaxes(1, 2), 1, 2)
    covariance = weighted @ away
    if sample.linear.shape[1] > MANY:  # in float32, and at once; `away` has no mean, so that g may have one
        both = np.concatenate([share, weighted], axis=1).astype(np.float32) @ sample.linear[event]
        g_mean, mixed = both[:, :1].astype(np.float64), both[:, 1:].astype(np.float64)
    else:
        g = sample.linear[event].astype(np.float64)
        g_mean = share @ g
        mixed = weighted @ (g - g_mean)
    n_dimensions = z.shape[-1]
    slopes = np.linalg.solve(covariance + 1e-6 * np.eye(n_dimensions), mixed)
    spread, axes = np.linalg.eigh(covariance)
    arms = np.swapaxes(axes * np.sqrt(n_dimensions * np.maximum(spread, 0.0))[:, None, :], 1, 2)
    steps = np.concatenate([arms, -arms], axis=1)
    n_points = 2 * n_dimensions
    if sample.quadratic is None:
        d_mean = np.zeros((len(event), 0))
    else:
        d = sample.quadratic[event].astype(np.float64)
        d_mean = (share @ d.reshape(*event.shape, -1)).reshape(len(event), *sample.quadratic.shape[1:])
    return (
        (z_mean + steps).reshape(-1, n_dimensions),
        (g_mean + steps @ slopes).reshape(len(total) * n_points, -1),
        np.repeat(d_mean, n_points, axis=0),
        np.repeat(total / n_points, n_points),
    )
