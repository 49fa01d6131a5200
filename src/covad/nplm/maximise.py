"""Newton's method without bounds, for smooth functions that are concave, or nearly; and with one curvature.

Where e^f stays near one, a rough curvature at the start serves for the whole climb: cheap steps on the exact
gradient contract the error about tenfold each, and teach what the curvature lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.fit import Status

Precision = type[np.float32 | np.float64]

#: A step that gains less than this, relative to the value, has reached the rounding of the sums.
ROUNDING = 1e-13
#: A predicted gain below this may be lost in the rounding of large sums that nearly cancel.
LOST_GAIN = 1e-8
HALVINGS = 40
#: Gradients with one curvature, and how often it is computed anew.
BUDGET, RESTARTS = 15, 3
#: Change of 2 log L by a step beyond which its gradient may be rounded to float32.
ROUGH = 0.1
#: Part of its diagonal that is added to a curvature: columns may be the same twice, and rounding is no slope.
STIFFENED = 1e-6
#: The most that a step is shortened at once.
SHORTEST = 0.1
#: What is left to change falls by this multiple of the last factor, but not faster than by the other.
MARGIN, FASTEST, SLOWEST = 3.0, 0.05, 0.99
#: Change of 2 log L by the first step beyond which the curvature at the start says little about the end.
FAR = 1000.0


@dataclass(frozen=True)
class Loose:
    """Curvature of the loose variables: (variables before, loose ones), and that of each with itself."""

    coupling: Float64
    stiffness: float


@dataclass(frozen=True)
class Expansion:
    """Second-order expansion of a function: value, gradient, and curvature = minus the Hessian.

    The last variables may be `loose`: each has a curvature of its own, and an element of the curvature with
    each variable before, perhaps only an estimate of it.
    """

    value: float
    gradient: Float64
    curvature: Float64
    loose: Loose | None = None

    @property
    def is_finite(self) -> bool:
        loose = True if self.loose is None else np.isfinite(self.loose.coupling).all()
        return bool(
            np.isfinite(self.value)
            and np.isfinite(self.gradient).all()
            and np.isfinite(self.curvature).all()
            and loose
        )


class Smooth(Protocol):
    """A function that can be maximised by Newton's method."""

    def value(self, theta: Float64) -> float: ...

    def expand(self, theta: Float64) -> Expansion: ...


class Ascending(Smooth, Protocol):
    """A function whose gradient is much cheaper than its curvature."""

    def sketch(self, theta: Float64) -> Float64:
        """Return an estimate of the curvature."""
        ...

    def ascent(self, theta: Float64, precision: Precision) -> tuple[float, Float64]:
        """Return value and gradient; products run in `precision`."""
        ...


@dataclass(frozen=True)
class Maximum:
    """Where `maximise` ended. `evaluations` counts expansions."""

    theta: Float64
    value: float
    status: Status
    evaluations: int


def maximise(function: Smooth, start: Float64, tolerance: float = 1e-12, budget: int = 100) -> Maximum:
    """Climb by Newton steps with halving until the gain of the last one is below `tolerance`."""
    theta = start.astype(np.float64)
    here = function.expand(theta)
    if not np.isfinite(here.value):
        return Maximum(theta, 0.0, Status.FAILED, 1)
    for evaluations in range(1, budget + 1):
        if not here.is_finite:
            return Maximum(theta, here.value, Status.UNCONVERGED, evaluations)
        step = newton_step(here)
        predicted = 0.5 * float(here.gradient @ step)
        if predicted < tolerance + ROUNDING * abs(here.value):
            return Maximum(theta + step, here.value + predicted, Status.CONVERGED, evaluations)
        # halve the step until it gains
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(HALVINGS):
                if function.value(theta + step) > here.value:
                    break
                step = 0.5 * step
            else:
                status = Status.CONVERGED if predicted < LOST_GAIN else Status.UNCONVERGED
                return Maximum(theta, here.value, status, evaluations)
        theta = theta + step
        here = function.expand(theta)
    return Maximum(theta, here.value, Status.UNCONVERGED, budget)


def newton_step(here: Expansion) -> Float64:
    """Return curvature^-1 gradient; eigenvalues of the curvature that are not positive change their sign."""
    try:
        factor = np.linalg.cholesky(here.curvature)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(here.curvature)
        values = np.maximum(np.abs(values), 1e-10 * np.abs(values).max() + 1e-300)
        return np.asarray(vectors @ ((vectors.T @ here.gradient) / values))
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, here.gradient)))


class Climb:
    """Quasi-Newton steps to the maximum of a concave function, from a curvature that need not be exact.

    Whoever climbs asks for `theta` and tells value and gradient there, until the climb is `over`. Every
    gradient improves the curvature (BFGS). No step is judged by its value, which is a difference of large
    sums: from one point to the next a concave function gains about half the sum of its slopes along the step,
    and where that is negative the step was too long. The climb has `converged` where what is left to change
    of 2 log L is below `tolerance`: change(theta, gradient, step) bounds what a step changes, and the step
    before tells by which factor that falls. That `is_doubtful` where steps were too long or the start was far
    away: the curvature may be much too stiff at the end, and should be looked at there.
    """

    def __init__(
        self,
        start: Float64,
        curvature: Float64,
        change: Callable[[Float64, Float64, Float64], float],
        tolerance: float,
    ) -> None:
        from scipy.linalg import cho_factor, cho_solve  # takes its time, and reading a study does not need it

        self.theta, self.value, self.passes = start, 0.0, 0
        self.over = self.converged = False
        self.is_finite, self.is_doubtful = True, False
        self._change, self._tolerance, self._changed = change, tolerance, np.inf
        self._here: tuple[Float64, float, Float64] | None = None  # theta, value, gradient
        self._step = np.zeros_like(start)
        try:
            factor = cho_factor(curvature + np.diag(STIFFENED * np.diag(curvature)))
        except (np.linalg.LinAlgError, ValueError):
            self.over = True
        else:
            self._learned = _Learned(lambda gradient: cho_solve(factor, gradient))

    @property
    def precision(self) -> Precision:
        """Return which precision of the gradient is enough: float32 while steps are large."""
        return np.float32 if ROUGH < self._changed < np.inf else np.float64

    def tell(self, value: float, gradient: Float64) -> None:
        """Take value and gradient at `theta`; move on."""
        self.passes += 1
        finite = bool(np.isfinite(value) and np.isfinite(gradient).all())
        if self._here is None:
            if finite:
                self._go_from(value, gradient)
            else:
                self.is_finite, self.over = False, True
        elif not finite:
            self._shorten(self._here, SHORTEST)
        else:
            before = self._here[2]
            first, last = float(before @ self._step), float(gradient @ self._step)
            self._learned.add(self._step, before - gradient)
            if first + last < -ROUNDING * abs(value):
                self._shorten(self._here, max(SHORTEST, first / (first - last)))
            else:
                self._go_from(value, gradient)
        if self.passes >= BUDGET and not self.over and self._here is not None:
            self.theta, self.value, _ = self._here  # the last point that was a gain
            self.over = True

    def _go_from(self, value: float, gradient: Float64) -> None:
        last, exact = self._changed, self.precision is np.float64
        self._here = self.theta, value, gradient
        self._step = self._learned.step(gradient)
        self._changed = self._change(self.theta, gradient, self._step)
        self.theta = self.theta + self._step
        if np.isinf(last):
            self.is_doubtful = self._changed > FAR
        factor = float(np.clip(MARGIN * self._changed / last, FASTEST, SLOWEST))
        left = self._changed * factor / (1.0 - factor)
        if left < self._tolerance and exact:
            self.value = value + 0.5 * float(gradient @ self._step)
            self.over = self.converged = True

    def _shorten(self, here: tuple[Float64, float, Float64], factor: float) -> None:
        self.is_doubtful = True
        self._step = factor * self._step
        self.theta = here[0] + self._step


def ascend(
    function: Ascending,
    start: Float64,
    change: Callable[[Float64, Float64, Float64], float],
    tolerance: float,
) -> Maximum:
    """Climb by gradients and an estimate of the curvature; where that does not do, by curvatures.

    `unconverged` if those do not help either: `theta` is then the highest point so far.
    """
    climb = run(Climb(start, function.sketch(start), change, tolerance), function)
    passes, restarts = climb.passes, 0
    while (not climb.converged or climb.is_doubtful) and climb.is_finite and restarts < RESTARTS:
        exact = not climb.converged
        curvature = function.expand(climb.theta).curvature if exact else function.sketch(climb.theta)
        climb = run(Climb(climb.theta, curvature, change, tolerance), function)
        passes, restarts = passes + climb.passes, restarts + 1
    status = Status.CONVERGED if climb.converged else Status.UNCONVERGED
    return Maximum(climb.theta, climb.value, status, passes)


def run(climb: Climb, function: Ascending) -> Climb:
    """Climb to the end."""
    while not climb.over:
        climb.tell(*function.ascent(climb.theta, climb.precision))
    return climb


class _Learned:
    """An inverse curvature, and what the steps so far have taught about it (BFGS)."""

    def __init__(self, inverse: Callable[[Float64], Float64]) -> None:
        self.inverse = inverse
        self.pairs: list[tuple[Float64, Float64, float]] = []

    def add(self, step: Float64, fall: Float64) -> None:
        """Learn by how much the gradient fell over a step; noise that looks convex teaches nothing."""
        gain = float(step @ fall)
        if gain > 0.0:
            self.pairs.append((step, fall, gain))

    def step(self, gradient: Float64) -> Float64:
        """Return inverse curvature times gradient."""
        shares = []
        for step, fall, gain in reversed(self.pairs):
            shares.append(float(step @ gradient) / gain)
            gradient = gradient - shares[-1] * fall
        found = self.inverse(gradient)
        for step, fall, gain in self.pairs:
            found = found + (shares.pop() - float(fall @ found) / gain) * step
        return found
