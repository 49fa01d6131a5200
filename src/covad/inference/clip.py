"""The choice of the clip W: P(t | R_0) compatible with chi2 of the number of parameters (sec:weightclipping).

The mean of t grows with W, about as a power of it, and W is where it equals the degrees of freedom. Toys are
dear, so the search spends them where they tell most. Common random numbers: the same toys are tested at every
W, so that the ratio of two means has the small error of a paired comparison, and

    mean(W) = mean(W_a; n_a toys) * mean(W; n toys) / mean(W_a; the same n toys)

is known as well at a new W, tested with n toys, as at the anchor W_a, tested with n_a >> n. The root is found
with the few toys, the anchor is tested until the error of its mean is what was asked for, and one or two
corrections follow. A root of the mean says nothing about the shape: that is measured on independent toys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covad.errors import InferenceError
from covad.inference.goodness import FEWEST_PER_BIN, PEARSON_DOF, GoodnessOfFit, chi2_law, one_sample
from covad.inference.intervals import finite_sample
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: t of the toys with these indices at this clip; NaN marks a failed toy. Toy i is the same data at any clip.
Toys = Callable[[float, NDArray[np.intp]], ArrayLike]
#: Toys with which the root is sought, and steps that the search may take in each of its parts.
FIRST_TOYS = 24
_STEPS = 12


class ClipError(InferenceError):
    """No clip in the bracket brings the mean of t to the degrees of freedom; `scan` is what was found."""

    def __init__(self, message: str, scan: tuple[ClipPoint, ...]) -> None:
        super().__init__(message)
        self.scan = scan


@dataclass(frozen=True)
class ClipPoint(Record):
    """What the toys say at one clip."""

    clip: float
    n_toys: int
    n_failed: int
    mean: float
    error: float  # of the mean
    spread: float
    goodness: tuple[GoodnessOfFit, ...]  # against chi2


@dataclass(frozen=True)
class ClipChoice(Record):
    """The clip at which the mean of t equals the degrees of freedom, and the way there."""

    clip: float
    clip_error: float  # from the error of the mean
    dof: int
    mean: float  # at the chosen clip, by the paired estimate
    error: float
    power: float  # of W with which the mean grows there
    n_evaluations: int
    scan: tuple[ClipPoint, ...]


def choose_clip(
    toys: Toys,
    dof: int,
    bracket: tuple[float, float] = (0.5, 4.0),
    tolerance: float = 0.1,
    first_toys: int = FIRST_TOYS,
    seed: int = 0,
) -> ClipChoice:
    """Find W with mean t = dof, known to `tolerance` of the chi2's standard deviation (0.1 of 9.5 for 45)."""
    if not (0.0 < bracket[0] < bracket[1]) or tolerance <= 0.0 or first_toys < 4:
        raise InferenceError(
            "a clip is sought in a bracket 0 < low < high, to a tolerance > 0, with >= 4 toys"
        )
    search = _Search(toys, dof, seed)
    error = tolerance * float(np.sqrt(2.0 / dof))
    n = search.enclose(bracket, first_toys, error)
    anchor, power = search.root(bracket, n)
    search.extend(anchor, n, error)
    return search.correct(anchor, power, n, bracket, error)


class _Search:
    """The toys tested so far, and the steps of the search on them.

    Its quantity is the level, log(mean t / dof), which is nearly linear in log W and zero at the root.
    """

    def __init__(self, toys: Toys, dof: int, seed: int) -> None:
        self.toys, self.dof, self.seed = toys, dof, seed
        self.t: dict[float, Float64] = {}

    def test(self, clip: float, n: int) -> Float64:
        """Return t of the first n toys at this clip; run only those that were not run before."""
        known = self.t.get(clip, np.empty(0))
        if len(known) < n:
            fresh = np.asarray(self.toys(clip, np.arange(len(known), n)), dtype=np.float64)
            if fresh.shape != (n - len(known),):
                raise InferenceError(f"{n - len(known)} toys were asked for at W = {clip}, not {fresh.shape}")
            self.t[clip] = np.concatenate([known, fresh])
        return self.t[clip][:n]

    def level(self, clip: float, n: int) -> tuple[float, float]:
        """Return the level of the first n toys at a clip, and its error."""
        t = self.test(clip, n)
        mean, error = _mean(t[~np.isnan(t)], clip)
        if mean <= 0.0:
            raise InferenceError(f"the mean of t at the clip {clip:.4g} is {mean:.3g}: t cannot be negative")
        return float(np.log(mean / self.dof)), error / mean

    def enclose(self, bracket: tuple[float, float], n: int, error: float) -> int:
        """Return the number of toys, n or more, with which the ends of the bracket enclose the root."""
        while True:
            (low, low_error), (high, high_error) = (self.level(clip, n) for clip in bracket)
            if low < 0.0 < high:
                return n
            if max(low_error, high_error) <= error or _beyond(low, low_error) or _beyond(-high, high_error):
                first, last = (self.dof * np.exp(level) for level in (low, high))
                raise ClipError(
                    f"no clip from {bracket[0]:g} to {bracket[1]:g} brings the mean of t to {self.dof}: "
                    f"it goes from {first:.1f} to {last:.1f} with {n} toys",
                    self.scan(),
                )
            n *= 2

    def root(self, bracket: tuple[float, float], n: int) -> tuple[float, float]:
        """Find the root with n toys by false position in log W, and the power of W with which t grows.

        It stops where the level is off by less than its own error: nearer is noise.
        """
        low, high = (float(np.log(clip)) for clip in bracket)
        (at_low, _), (at_high, _) = (self.level(clip, n) for clip in bracket)
        for _ in range(_STEPS):
            power = (at_high - at_low) / (high - low)
            middle = low - at_low / power
            clip = float(np.exp(middle))
            here, error = self.level(clip, n)
            if abs(here) <= error:
                break
            if here < 0.0:
                low, at_low = middle, here
            else:
                high, at_high = middle, here
        return clip, power

    def extend(self, anchor: float, n: int, error: float) -> None:
        """Test the anchor until the error of its level is at most `error`."""
        while (now := self.level(anchor, n)[1]) > error:
            n = max(n + 1, int(np.ceil(n * min((now / error) ** 2, 4.0))))

    def correct(
        self, anchor: float, power: float, n: int, bracket: tuple[float, float], error: float
    ) -> ClipChoice:
        """Move from the anchor to where its level says that the root is, and check with paired toys.

        Where one move is not enough, the next is checked with twice the toys.
        """
        clip, away = anchor, self.level(anchor, len(self.t[anchor]))[0]
        for _ in range(_STEPS):
            clip = float(np.clip(clip * np.exp(-away / power), *bracket))
            away, found_error = self.paired_level_to(1.2 * error, clip, anchor, n)
            if abs(away) <= 0.5 * found_error:
                mean = self.dof * float(np.exp(away))
                return ClipChoice(
                    clip=clip,
                    clip_error=clip * found_error / power,
                    dof=self.dof,
                    mean=mean,
                    error=mean * found_error,
                    power=power,
                    n_evaluations=sum(len(t) for t in self.t.values()),
                    scan=self.scan(),
                )
            n = min(2 * n, len(self.t[anchor]))
        raise ClipError(
            f"the mean of t does not rise steadily to {self.dof} near the clip {anchor:.3g}", self.scan()
        )

    def paired_level_to(self, error: float, clip: float, anchor: float, n: int) -> tuple[float, float]:
        """Return `paired_level` with n toys or more, up to those of the anchor, until its error is small."""
        most = len(self.t[anchor])
        level = self.paired_level(clip, anchor, n)
        while level[1] > error and n < most:
            n = min(2 * n, most)
            level = self.paired_level(clip, anchor, n)
        return level

    def paired_level(self, clip: float, anchor: float, n: int) -> tuple[float, float]:
        """Return level and error at a clip, by way of the anchor and the ratio of the first n toys."""
        here, there = self.test(clip, n), self.test(anchor, n)
        both = ~np.isnan(here + there)
        mean, _ = _mean(here[both], clip)
        ratio = mean / there[both].mean()
        _, ratio_error = _mean(here[both] - ratio * there[both], clip)
        level, error = self.level(anchor, len(self.t[anchor]))
        return level + float(np.log(ratio)), float(np.hypot(error, ratio_error / mean))

    def scan(self) -> tuple[ClipPoint, ...]:
        """Return what the toys say at every clip that was tested."""
        points = []
        for clip, t in sorted(self.t.items()):
            done = t[~np.isnan(t)]
            mean, error = _mean(done, clip)
            usable = tuple(d for d in PEARSON_DOF if len(done) >= FEWEST_PER_BIN * (d + 1))
            points.append(
                ClipPoint(
                    clip=clip,
                    n_toys=len(done),
                    n_failed=len(t) - len(done),
                    mean=mean,
                    error=error,
                    spread=float(done.std(ddof=1)),
                    goodness=one_sample(done, chi2_law(self.dof), self.seed, usable),
                )
            )
        return tuple(points)


def _mean(values: Any, clip: float) -> tuple[float, float]:
    sample = finite_sample(values, f"the clip {clip:.4g}", at_least=4)
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample)))


def _beyond(level: float, error: float) -> bool:
    """Return whether an end of the bracket is on the wrong side by more than chance."""
    return level > 4.0 * error
