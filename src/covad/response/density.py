"""Positive weights with the density of signed ones, as far as cells of the latent space tell it.

A density is what tests and their nulls are chosen by, where a few per cent do not matter; sums over signed
weights would leave matrices without an inverse there. A weight becomes |w| times sum w / sum |w| in the cell
of its event: the mean of the signs there. Cells are halved as long as their sums are positive beyond doubt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.errors import TrainingError
from covad.events.weights import accepted
from covad.response.validate import AdaptiveCells

#: Standard errors by which the sum of a cell must be positive for the cell to speak for itself.
_BEYOND_DOUBT = 4.0
#: Cells are halved so many times at most.
_DEPTH = 8


def positive_weights(z: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights >= 0 for events at z; they are the same where none is negative.

    Raise TrainingError if the sum of all is not positive beyond doubt.
    """
    if weights.any() and (weights >= 0.0).all():
        return weights
    total, error = float(weights.sum()), float(np.sqrt(np.square(weights).sum()))
    if not total > _BEYOND_DOUBT * error:
        raise TrainingError(
            f"the weights of {len(z)} events add up to {total:.3g} +- {error:.2g}: no density is known from "
            "them; raise source.splits"
        )
    depth = min(_DEPTH, int(np.log2(len(z))))
    index, size = AdaptiveCells.build(z, depth).index(z), np.abs(weights)
    share = np.array([total / size.sum()])
    for level in range(1, depth + 1):
        cell = index >> (depth - level)
        signed, squares, unsigned = (np.bincount(cell, x, 2**level) for x in (weights, weights**2, size))
        known = signed > _BEYOND_DOUBT * np.sqrt(squares)
        share = np.where(known, signed / np.where(known, unsigned, 1.0), np.repeat(share, 2))
    return np.asarray(size * share[index])


def of_equal_weight(
    z: NDArray[np.float32], weights: NDArray[np.float64] | None, seed: int
) -> NDArray[np.bool_]:
    """Return which events at z to take so that all count alike: all if they have no weights.

    Else each is taken with a probability proportional to its positive weight.
    """
    if weights is None:
        return np.ones(len(z), dtype=bool)
    return accepted(positive_weights(z, weights), seed)
