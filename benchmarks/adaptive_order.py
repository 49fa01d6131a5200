"""How far the law of the adaptive test holds: what the next order adds to the mean of t of every member.

    python benchmarks/adaptive_order.py                                # at 10 000 expected events
    python benchmarks/adaptive_order.py --expected 1000 --spread 3 --spread 10 --spread 30 --spread 100

The law takes log L as quadratic. Its next terms are known: log L is y.theta - sum_R w (e^{theta.x} - 1 -
theta.x), whose derivatives are sums over events, as are the cumulants of the score y. All expectations are
then sums over pairs of events, of kernels x.P.x' with P the inverse curvature and what follows from it. The
printed shift is that of the mean of tau in units of the standard deviation of t: how much Z is too large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import click
import numpy as np
from adaptive_null import SEED, Study

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.convex import columns
from covad.nplm.dataset import Float64
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent


@dataclass(frozen=True)
class Kernel:
    """x.M.x' between two independent samples of events, and x.M.x within each."""

    between: Float64
    first: Float64
    second: Float64

    @classmethod
    def of(cls, matrix: Float64, one: Float64, other: Float64) -> Kernel:
        within = [np.einsum("ij,jk,ik->i", x, matrix, x, optimize=True) for x in (one, other)]
        return cls(one @ matrix @ other.T, *within)


@dataclass(frozen=True)
class NextOrder:
    """The next order of the mean of tau = 2 log L at the ridged maximum, of one member.

    With theta_0 = P y, u = P Lambda theta_0 and the cubic V = theta.dF.theta / 2 + T theta^3 / 6, the change
    of log L is -u.V' - V, then V'.P.V'/2 + V'.R.V'/2 + u.V''.P.V' and the quartic -Q(u + theta/4) theta^3/6,
    all at theta_0. `om` is the weight of a reference event: dF and dT are the fluctuations of its sums.
    """

    p: Kernel  # P = (F + A + Lambda)^-1
    r: Kernel  # R = P Lambda P
    s: Kernel  # S = P V P, the covariance of theta_0
    c: Kernel  # R V P, that of u with theta_0
    weight: float  # of an event in the sums
    om: float

    def shift(self) -> float:
        return 2.0 * (self._skewness() + self._cubic() + self._mixed() + self._reference() + self._quartic())

    def _skewness(self) -> float:
        """Return what the third cumulant of y makes of -u.V' - V."""
        p, r = self.p, self.r
        of_data = -(1.0 - self.om**2) * self._pairs(0.5 * r.between * p.between**2 + p.between**3 / 6.0)
        return of_data - self.om**2 * self._events(0.5 * p.first**2 + r.first * p.first)

    def _cubic(self) -> float:
        """Return the terms of T twice."""
        p, r, s, c = self.p, self.r, self.s, self.c
        tails = self._tadpole(s, p, s) + self._tadpole(s, r, s) + 4.0 * self._tadpole(c, p, s)
        loops = self._pairs(s.between * (s.between * (p.between + r.between) + 4.0 * c.between * p.between))
        return 0.125 * tails + 0.25 * loops

    def _mixed(self) -> float:
        """Return the terms of T and dF, which vary together through the reference."""
        p, r, s, c = self.p, self.r, self.s, self.c
        tails = 0.5 * (self._tadpole(p, p, s) + self._tadpole(p, r, s) + self._tadpole(r, p, s))
        tails += self._tadpole(c, p, p)
        square = p.between**2
        loops = square * (s.between + 2.0 * c.between) + 2.0 * p.between * r.between * s.between
        return -self.om * (tails + self._pairs(loops))

    def _reference(self) -> float:
        """Return the terms of dF twice, and those of dT."""
        p, r, s, c = self.p, self.r, self.s, self.c
        twice = self._events(0.5 * (p.first + r.first) * s.first + p.first * c.first)
        tails = 0.5 * (self._tadpole(p, p, p) + self._tadpole(p, r, p)) + self._tadpole(r, p, p)
        loops = self._pairs(0.5 * p.between**3 + 1.5 * r.between * p.between**2)
        return 2.0 * self.om * twice + self.om**2 * (tails + loops)

    def _quartic(self) -> float:
        return -self._events(0.5 * self.c.first * self.s.first + self.s.first**2 / 8.0)

    def _events(self, values: Float64) -> float:
        return float(self.weight * values.sum())

    def _pairs(self, values: Float64) -> float:
        return float(self.weight**2 * values.sum())

    def _tadpole(self, one: Kernel, between: Kernel, other: Kernel) -> float:
        return float(self.weight**2 * (one.first @ between.between @ other.second))


def shifts(null: AdaptiveNull, x: Float64, expected: float, om: float) -> list[float]:
    """Return the shift of the mean of t for every member, in its standard deviations.

    `x` are the stacked columns of two samples of events, one after the other.
    """
    found = []
    for j, one in enumerate(null.nulls):
        own, n_basis = null._columns[j], len(null.members.columns[j])
        ridge = np.append(null.members.tests[j].ridge_by_column, np.zeros(len(own) - n_basis))
        square = np.ix_(own, own)
        curvature = null.moments.information[square] + np.pad(null.auxiliary, (n_basis, 0))
        variance = curvature + null.moments.reference_variance[square]
        p = np.linalg.inv(curvature + np.diag(ridge))
        r = (p * ridge) @ p
        halves = np.split(x[:, own], 2)
        kernels = [Kernel.of(matrix, *halves) for matrix in (p, r, p @ variance @ p, r @ variance @ p)]
        found.append(NextOrder(*kernels, expected / len(halves[0]), om).shift() / one.law.std)
    return found


@click.command(help=__doc__.splitlines()[0])
@click.option("--expected", default=10_000.0, show_default=True)
@click.option("--spread", "spreads", multiple=True, type=float, help="Of all widths in one ridge; several.")
@click.option("--events", default=3000, show_default=True, help="Of each of the two samples.")
def main(expected: float, spreads: tuple[float, ...], events: int) -> None:
    study = Study(1, expected, "0")
    settings = AdaptiveSettings(together=spreads) if spreads else AdaptiveSettings()
    sizes = Sizes(expected=expected, reference=study.world.n_reference)
    members = choose_members(latent.background(20_000, np.random.default_rng(SEED)), settings, sizes)
    world = replace(study.world, n_reference=4 * study.world.n_reference)
    sample = world.toy(np.random.default_rng(SEED + 1))
    null = AdaptiveTest(members).nulls(sample, n_reference=study.world.n_reference).at_yield()
    some = np.random.default_rng(SEED).choice(len(sample.reference), 2 * events, replace=False)
    response = replace(sample.reference_response, linear=sample.reference_response.linear[some])
    x = columns(members.basis, sample.reference[some], response, True).astype(np.float64)
    om = expected / study.world.n_reference
    for name, one, moved in zip(members.names, null.nulls, shifts(null, x, expected, om), strict=True):
        print(f"{name}: law {one.law.mean:.2f} +- {one.law.std:.2f}, the next order adds {moved:+.3f} sd")


if __name__ == "__main__":
    main()
