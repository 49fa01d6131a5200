"""Bounded Newton: the exact Hessian, damping, and a box on some of the variables.

Each step is the maximiser of the damped quadratic model inside the box, by an active set: variables that
would leave the box are put on its faces, and released when the model pushes them back. The damping falls
where the model predicts well and grows where it does not. The curvature is used as it is, not as Gauss and
Newton have it: where the damped model is not concave, the damping grows until it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status
from covad.nplm.maximise import Expansion

_LEAST_DAMPING = 1e-6
_ROUNDS = 20  # of the active set; a step is feasible after any number of them


class Expandable(Protocol):
    """A function with value, gradient and curvature, the latter perhaps borrowed from a cheaper function."""

    def expand(self, theta: Float64) -> Expansion: ...

    def sharpen(self, theta: Float64) -> Expansion | None:
        """Return the expansion with its own curvature; None where `expand` has it already."""
        ...


@dataclass(frozen=True)
class NewtonSettings:
    """When to stop, and the damping to start with. Gains are of 2 log L, that is of t."""

    budget: int = 400  # expansions
    small_gain: float = 1e-3
    patience: int = 5  # consecutive small gains that end the climb
    damping: float = 10.0
    factor: float = 4.0


@dataclass(frozen=True)
class BoundedMaximum:
    """Where the climb ended."""

    theta: Float64
    value: float  # log L
    status: Status
    evaluations: int


def climb(function: Expandable, start: Float64, limits: Float64, settings: NewtonSettings) -> BoundedMaximum:
    """Maximise inside |theta| <= limits (infinite for free variables), from `start` upwards."""
    theta = np.clip(start, -limits, limits)
    here = function.expand(theta)
    if not here.is_finite:
        return BoundedMaximum(theta, -np.inf, Status.FAILED, 1)
    damping, small, sharp, evaluations = settings.damping, 0, False, 1
    while evaluations < settings.budget:
        trial, predicted, damping = propose(here, theta, limits, damping)
        there = function.expand(trial)
        evaluations += 1
        gain = there.value - here.value if there.is_finite else -np.inf
        if gain > 0.0:
            theta, here, sharp = trial, there, False
        if np.isfinite(gain):  # a step to where there is no value says nothing about convergence
            small = small + 1 if 2.0 * gain < settings.small_gain else 0
        if small >= settings.patience:
            return BoundedMaximum(theta, here.value, Status.CONVERGED, evaluations)
        if gain > 0.75 * predicted:
            damping = max(damping / settings.factor, _LEAST_DAMPING)
        elif gain < 0.25 * predicted:
            sharper = None if sharp else function.sharpen(theta)
            if sharper is not None and sharper.is_finite:
                here, sharp, evaluations = sharper, True, evaluations + 1
            if sharper is None or gain <= 0.0:
                damping *= settings.factor
    return BoundedMaximum(theta, here.value, Status.UNCONVERGED, evaluations)


def propose(here: Expansion, theta: Float64, limits: Float64, damping: float) -> tuple[Float64, float, float]:
    """Return a point inside the box, its predicted gain, and the damping that made the model concave."""
    step, n = np.empty_like(theta), len(here.curvature)
    gradient, curvature, free = here.gradient[:n], here.curvature, here.gradient[n:]
    if here.loose is not None:  # eliminate them: they have no bounds, and need no damping
        coupling = here.loose.coupling / here.loose.stiffness
        gradient, curvature = gradient - coupling @ free, curvature - coupling @ here.loose.coupling.T
    predicted, damping = bounded_step(
        gradient, curvature, (-limits - theta)[:n], (limits - theta)[:n], damping, step[:n]
    )
    if here.loose is not None:
        step[n:] = free / here.loose.stiffness - step[:n] @ coupling
        predicted += 0.5 * float(free @ free) / here.loose.stiffness
    return np.clip(theta + step, -limits, limits), predicted, damping


@njit
def _solve_free(matrix: Any, vector: Any, free: Any, n_free: int, factor: Any, out: Any) -> bool:
    """Cholesky on the free variables: matrix out = vector; False where the matrix is not positive."""
    for a in range(n_free):
        for b in range(a + 1):
            total = matrix[free[a], free[b]]
            for k in range(b):
                total -= factor[a, k] * factor[b, k]
            if a > b:
                factor[a, b] = total / factor[b, b]
            elif total <= 1e-12 * abs(matrix[free[a], free[a]]):
                return False
            else:
                factor[a, a] = np.sqrt(total)
    for a in range(n_free):
        total = vector[free[a]]
        for k in range(a):
            total -= factor[a, k] * out[k]
        out[a] = total / factor[a, a]
    for a in range(n_free - 1, -1, -1):
        total = out[a]
        for k in range(a + 1, n_free):
            total -= factor[k, a] * out[k]
        out[a] = total / factor[a, a]
    return True


@njit
def _solve_inside(
    gradient: Any, matrix: Any, face: Any, step: Any, solution: Any, free: Any, factor: Any
) -> int:
    """Solve for the variables that are on no face; their number, or -1 where the model is not concave."""
    n_free = 0
    push = gradient.copy()
    for i in range(gradient.size):
        if face[i] == 0:
            free[n_free] = i
            n_free += 1
        else:
            push -= matrix[i] * step[i]
    return n_free if _solve_free(matrix, push, free, n_free, factor, solution) else -1


@njit
def _put_on_faces(
    face: Any, step: Any, solution: Any, free: Any, n_free: int, lower: Any, upper: Any
) -> bool:
    """Take the solution, with what leaves the box put on its faces; True if anything did."""
    any_out = False
    for a in range(n_free):
        i = free[a]
        step[i] = min(max(solution[a], lower[i]), upper[i])
        if step[i] != solution[a]:
            face[i] = -1 if solution[a] < lower[i] else 1
            any_out = True
    return any_out


@njit
def _release(gradient: Any, matrix: Any, face: Any, step: Any) -> bool:
    """Free the variables that the model pushes off their faces; True if there are any."""
    any_free = False
    for i in range(gradient.size):
        if face[i] != 0 and face[i] * (gradient[i] - np.sum(matrix[i] * step)) < 0.0:
            face[i] = 0
            any_free = True
    return any_free


@njit
def _active_set(gradient: Any, matrix: Any, lower: Any, upper: Any, step: Any) -> bool:
    """Maximise gradient.s - 1/2 s.matrix.s inside lower <= s <= upper; False where it is not concave."""
    size = gradient.size
    factor, solution = np.empty((size, size)), np.empty(size)
    free, face = np.empty(size, np.int64), np.zeros(size, np.int64)
    step[:] = 0.0
    for i in range(size):
        if (lower[i] >= 0.0 and gradient[i] < 0.0) or (upper[i] <= 0.0 and gradient[i] > 0.0):
            face[i] = -1 if gradient[i] < 0.0 else 1
    for _ in range(_ROUNDS):
        n_free = _solve_inside(gradient, matrix, face, step, solution, free, factor)
        if n_free < 0:
            return False
        if not _put_on_faces(face, step, solution, free, n_free, lower, upper) and not _release(
            gradient, matrix, face, step
        ):
            break
    return True


@njit(cache=True)
def bounded_step(
    gradient: Any, curvature: Any, lower: Any, upper: Any, damping: float, step: Any
) -> tuple[float, float]:
    """Fill `step`; returns the gain that the undamped model predicts, and the damping that was needed."""
    while not _active_set(gradient, curvature + damping * np.eye(gradient.size), lower, upper, step):
        damping *= 4.0
    predicted = np.sum(gradient * step)
    for i in range(gradient.size):
        predicted -= 0.5 * step[i] * np.sum(curvature[i] * step)
    return predicted, damping
