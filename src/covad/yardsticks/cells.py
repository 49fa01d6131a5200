"""Profiled chi2 of counts in cells of z, filled alike: a binned search with nuisances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.dataset import Dataset, Float32
from covad.nplm.fit import Seed
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.response.validate import AdaptiveCells
from covad.yardsticks.yardstick import SeenToy

#: Cells: at most 2 to this power, with so many expected events each.
_DEEPEST, _EXPECTED = 6, 20.0
#: Steps of Gauss and Newton: the response is nearly linear.
_STEPS = 4


@dataclass(frozen=True, eq=False)
class ProfiledCells:
    """Counts in cells against the reference, with all nuisances of the dataset profiled."""

    cells: AdaptiveCells
    name: str = "profiled chi2 in cells of z"
    target: None = None

    @classmethod
    def of(cls, events: Float32, expected: float) -> ProfiledCells:
        """Choose the cells from events that no toy uses."""
        depth = int(np.clip(np.log2(max(expected / _EXPECTED, 2.0)), 1, _DEEPEST))
        return cls(AdaptiveCells.build(events, depth))

    def statistic(self, toy: SeenToy, seed: Seed) -> float:  # noqa: ARG002
        """Return the smallest chi2 over the nuisances, their auxiliary terms included."""
        dataset, n = toy.dataset, len(self.cells)
        where = self.cells.index(dataset.reference)
        counts = np.bincount(self.cells.index(dataset.data), minlength=n).astype(np.float64)
        weights, response = dataset.weights, dataset.reference_response
        centre, precision = _auxiliary(dataset)
        nominal = np.bincount(where, weights, n)
        variance = np.maximum(nominal + np.bincount(where, weights**2, n), 1e-12)
        nu = np.zeros(len(centre))
        for step in range(_STEPS):
            grown = weights * np.exp(nuisance_shift(response, nu)) if len(nu) else weights
            residual = counts - np.bincount(where, grown, n)
            if not len(nu) or step == _STEPS - 1:
                break
            slopes = nuisance_slopes(response, nu)
            jacobian = np.stack([np.bincount(where, grown * column, n) for column in slopes.T], axis=1)
            curvature = jacobian.T @ (jacobian / variance[:, None]) + precision
            gradient = jacobian.T @ (residual / variance) - precision @ (nu - centre)
            nu = nu + np.linalg.solve(curvature, gradient)
        pull = nu - centre
        return float(residual @ (residual / variance) + pull @ precision @ pull)


def _auxiliary(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the measured nuisances, shapes then yield, and their precision matrix."""
    correlation, norm = dataset.correlation, dataset.normalisation
    shapes = np.eye(dataset.n_nuisances) if correlation is None else np.linalg.inv(correlation)
    if norm is None:
        return dataset.measured, shapes
    precision = np.zeros((len(shapes) + 1, len(shapes) + 1))
    precision[:-1, :-1] = shapes
    precision[-1, -1] = norm.sigma**-2
    return np.append(dataset.measured, norm.measured), precision
