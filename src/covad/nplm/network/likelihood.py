"""h_zeta: a fully connected network with sigmoids, and the likelihood of a sample under it."""

from __future__ import annotations

from typing import Any

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.likelihood import GaussianPenalty
from covad.nplm.maximise import Expansion, Loose
from covad.nplm.network.architecture import LEFT, RIGHT, architecture
from covad.nplm.network.kernels import TILE, sum_tiles
from covad.nplm.network.packing import Floats, PackedEvents, pack, unpack
from covad.nplm.network.rotation import STIFFNESS


class NetworkLikelihood:
    """log L of a sample as a function of theta = (zeta, nu, [nu_N]), with its derivatives.

    zeta holds W^1, W^2, ... one after the other, each row by row with its bias at the end of the row.
    With many nuisances only the first `n_coupled` of them enter the curvature together with zeta; the others
    are `loose`, see `rotation.py`.
    """

    def __init__(
        self,
        sample: PackedEvents,
        widths: tuple[int, ...],
        penalty: GaussianPenalty,
        dtype: type[np.floating[Any]] = np.float32,
        n_coupled: int | None = None,
    ) -> None:
        self.n_coupled = sample.n_columns if n_coupled is None else n_coupled
        self.architecture = architecture(widths, self.n_coupled)
        self.n_parameters = self.architecture.n_parameters
        self.sample = sample
        self.penalty = penalty
        self.dtype = dtype
        self.evaluations = 0
        columns = sample.columns()
        self._tiles = pack(np.concatenate([sample.z, columns[:, : self.n_coupled]], axis=1), dtype)
        self._loose = np.zeros((len(self._tiles) * TILE, sample.n_columns - self.n_coupled), dtype=dtype)
        self._loose[: len(sample)] = columns[:, self.n_coupled :]
        shift = np.zeros(len(sample))
        self._counts = pack(np.column_stack([sample.observed, sample.expected, shift]), dtype)
        self._rows = np.zeros((self.architecture.rows.n_rows, TILE), dtype=dtype)
        for layer, width in enumerate(widths[:-1]):
            self._rows[self.architecture.rows.inputs[layer] + width] = 1.0
        self._scores = np.zeros((len(self._tiles), TILE), dtype=dtype)
        self._tables = [
            np.zeros((0, 2), dtype=np.int64),
            self.architecture.gradient.tiles,
            self.architecture.tiles,
        ]

    @property
    def n_loose(self) -> int:
        return int(self._loose.shape[1])

    def on(self, sample: PackedEvents) -> NetworkLikelihood:
        """Return the likelihood of another sample with the same nuisances."""
        return NetworkLikelihood(
            sample, self.architecture.widths, self.penalty, self.dtype, n_coupled=self.n_coupled
        )

    def value(self, theta: Float64) -> float:
        return self._sum(theta, 0)[0]

    def slope(self, theta: Float64) -> tuple[float, Float64]:
        """Return value and gradient."""
        value, sums = self._sum(theta, 1)
        return value, self._gradient(theta, sums)

    def expand(self, theta: Float64) -> Expansion:
        """Return value, gradient and exact curvature."""
        value, sums = self._sum(theta, 2)
        n_gradient = len(self._tables[1])
        size = self.architecture.n_variables
        curvature = self.architecture.curvature.collect(sums[n_gradient:]).reshape(size, size)
        coupled = slice(self.n_coupled)
        curvature[self.n_parameters :, self.n_parameters :] += self.penalty.curvature[coupled, coupled]
        self._bend(curvature)
        gradient = self._gradient(theta, sums[:n_gradient])
        loose = Loose(np.zeros((size, self.n_loose)), STIFFNESS) if self.n_loose else None
        return Expansion(value, gradient, curvature, loose)

    @np.errstate(over="ignore", invalid="ignore")
    def coupling(self, theta: Float64) -> Float64:
        """Return the curvature between zeta and coupled nuisances on one side, loose ones on the other.

        That among the nuisances is left out: at the Delta fit it is zero.
        """
        self.value(theta)
        density = (self.sample.observed - self.scores()).astype(self.dtype)
        loose = self._loose[: len(self.sample)] * density[:, None]
        coupling = np.zeros((self.architecture.n_variables, loose.shape[1]))
        coupling[: self.n_parameters] = self._jacobian(theta).T @ loose
        return coupling

    def _jacobian(self, theta: Float64) -> Floats:
        """Return the derivatives of h by zeta, (events, parameters)."""
        rows, widths = self.architecture.rows, self.architecture.widths
        layers = [
            theta[rows.weights[layer] : rows.weights[layer + 1]].reshape(widths[layer], -1).astype(self.dtype)
            for layer in range(1, len(widths))
        ]
        one = np.ones((len(self.sample), 1), dtype=self.dtype)
        inputs = [np.hstack([self.sample.z, one])]
        for layer in layers[:-1]:
            inputs.append(np.hstack([1.0 / (1.0 + np.exp(-inputs[-1] @ layer.T)), one]))
        delta, parts = one, []
        for layer, below in zip(reversed(layers), reversed(inputs), strict=True):
            parts.append((delta[:, :, None] * below[:, None, :]).reshape(len(one), -1))
            activation = below[:, :-1]
            delta = (delta @ layer[:, :-1]) * activation * (1.0 - activation)
        return np.hstack(parts[::-1])

    def sharpen(self, theta: Float64) -> Expansion | None:  # noqa: ARG002
        """Return None: `expand` is exact already."""
        return None

    def scores(self) -> Floats:
        """Return n - w e^f of each event, at the last theta that was evaluated."""
        return unpack(self._scores, len(self.sample))

    def _sum(self, theta: Float64, order: int) -> tuple[float, Float64]:
        self.evaluations += 1
        nu = theta[self.n_parameters :]
        self._shift(nu)
        table = self._tables[order]
        sums = np.empty((len(table), LEFT * RIGHT))
        value = sum_tiles(
            self._tiles,
            self._counts,
            theta[: self.architecture.n_variables].astype(self.dtype),
            self.architecture.rows,
            table,
            order,
            self._rows,
            sums,
            self._scores,
        )
        return value + self.penalty.value(nu), sums

    @np.errstate(over="ignore", invalid="ignore")
    def _gradient(self, theta: Float64, sums: Float64) -> Float64:
        gradient = self.architecture.gradient.collect(sums)
        if self.n_loose:
            gradient = np.append(gradient, self._scores.ravel() @ self._loose)
        gradient[self.n_parameters :] += self.penalty.gradient(theta[self.n_parameters :])
        return gradient

    @np.errstate(over="ignore", invalid="ignore")
    def _shift(self, nu: Float64) -> None:
        """Write what loose nuisances add to f.

        And the columns g + D.nu of a quadratic response, where f is nu.columns - 1/2 nu.D.nu.
        """
        if self.n_loose:
            added = self._loose @ nu[self.n_coupled :].astype(self.dtype)
            self._counts[:, 2] = added.reshape(-1, TILE)
        if self.sample.quadratic is None:
            return
        k = self.sample.linear.shape[1]
        bent = self.sample.quadratic.astype(self.dtype) @ nu[:k].astype(self.dtype)
        first = self.sample.z.shape[1]
        self._tiles[:, first : first + k] = pack(self.sample.linear + bent, self.dtype)
        self._counts[:, 2:] = pack(-0.5 * (bent @ nu[:k].astype(self.dtype))[:, None], self.dtype)

    def _bend(self, curvature: Float64) -> None:
        """Add what a quadratic response adds to the curvature of the shape nuisances: -sum c D."""
        if self.sample.quadratic is None:
            return
        k = self.sample.linear.shape[1]
        shape = slice(self.n_parameters, self.n_parameters + k)
        scores = self.scores().astype(np.float64)
        curvature[shape, shape] -= np.tensordot(scores, self.sample.quadratic.astype(np.float64), axes=1)
