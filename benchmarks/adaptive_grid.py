"""Which members the adaptive test should have: power over random bumps in second order, without fits.

    python benchmarks/adaptive_grid.py

The score of a dataset with a bump is that of the null, y ~ N(0, V), plus the columns summed over the events
of the bump; every t_j is a quadratic form of it. There are four families of bumps: narrow to broad ones, and
broad ones, in the four dimensions of the latent world; narrow to broad ones on an exponential, with 2000 and
with 10 000. The rule: the set of members with the largest power on average over the families. The bumps
are not those of the table of power (`adaptive_power.py`), and no signal of the paper has a say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
import random_bumps
from scipy.stats import norm

from covad.nplm.adaptive.law import adaptive_nulls
from covad.nplm.adaptive.members import Members, choose_members
from covad.nplm.convex.convex import columns
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent

SEED = 20261118
CAPACITIES, SPREADS = (10, 20, 45, 90), (3.0, 10.0, 30.0)
#: Reference events from which the law is computed in one dimension.
MOMENTS = 60_000
#: Of bumps on an exponential: standard deviations, and the significance of a search that knew the bump.
WIDTHS, KNOWN_Z = (0.01, 1.0), (2.5, 8.0)


@dataclass(frozen=True)
class ExponentialBump:
    """A Gaussian on the positive axis."""

    centre: float
    width: float
    expected: float

    def draw(self, rng: np.random.Generator) -> Float32:
        x = rng.normal(self.centre, self.width, rng.poisson(self.expected))
        return x[x > 0, None].astype(np.float32)


@dataclass(frozen=True)
class Family:
    """Bumps, and the background that they stand on."""

    name: str
    pool: Float32
    sample: Dataset
    sizes: Sizes
    bumps: Sequence[random_bumps.Bump | ExponentialBump]

    def columns_of(self, z: Float32, basis: object) -> Float64:
        """Return the sums of the columns over some events."""
        response = Response(latent.response(z, 1)) if z.shape[1] > 1 else Response.none(len(z))
        return columns(basis, z, response, self.sample.normalisation is not None).sum(axis=0)


def latent_family(name: str, bumps: int, seed: int, widths: tuple[float, float]) -> Family:
    pool = latent.background(20_000, np.random.default_rng(SEED + 1))
    sample = latent.LatentWorld().toy(np.random.default_rng(SEED + 2))
    return Family(name, pool, sample, Sizes(), random_bumps.random_bumps(bumps, seed, widths=widths))


def exponential_family(name: str, bumps: int, sizes: Sizes) -> Family:
    rng = np.random.default_rng(SEED)
    pool, reference = (rng.exponential(size=(n, 1)).astype(np.float32) for n in (20_000, MOMENTS))
    sample = Dataset(
        reference=reference,
        data=reference[:1],
        weights=np.full(MOMENTS, sizes.expected / MOMENTS),
        reference_response=Response.none(MOMENTS),
        data_response=Response.none(1),
        measured=np.empty(0),
    )
    made = []
    for _ in range(bumps):
        centre = 1.2 * float(rng.exponential())
        width = float(np.exp(rng.uniform(*np.log(WIDTHS))))
        x = rng.normal(centre, width, 20_000)
        x = x[x > 0]
        ratio = norm.pdf(x, centre, width) / (sizes.expected * np.exp(-x))
        made.append(ExponentialBump(centre, width, random_bumps.strength(ratio, rng.uniform(*KNOWN_Z))))
    return Family(name, pool, sample, sizes, made)


def families(bumps: int) -> Iterator[Family]:
    yield latent_family("latent world", bumps, SEED, random_bumps.WIDTHS)
    yield latent_family("latent world, broad", bumps, SEED + 7, (0.5, 2.0))
    yield exponential_family("exponential, 2000 events", bumps, Sizes(expected=2000.0, reference=200_000))
    yield exponential_family("exponential, 10 000 events", bumps, Sizes(expected=10_000.0, reference=52_000))


def global_z(null_log_p: Float64, log_p: Float64, chosen: list[int], cauchy: bool = False) -> Float64:
    """Return Z of the combination over some of the members, by the rank among draws of the null."""

    def combined(values: Float64) -> Float64:
        if not cauchy:
            return -values[:, chosen].min(axis=1)
        p = np.clip(np.exp(values[:, chosen]), 1e-300, 1 - 1e-12)
        return np.where(p < 1e-8, 1.0 / (np.pi * p), np.tan((0.5 - p) * np.pi)).mean(axis=1)

    null = np.sort(combined(null_log_p))
    beyond = len(null) - np.searchsorted(null, combined(log_p))
    return np.asarray(norm.isf((beyond + 0.5) / (len(null) + 1)))


@dataclass(frozen=True)
class Set:
    """Members by their capacities and spreads; `together` are the spreads of all widths."""

    capacities: tuple[int, ...]
    alone: tuple[float, ...]
    together: tuple[float, ...]

    @property
    def name(self) -> str:
        alone = ", ".join(map(str, self.capacities))
        told = [f"capacities {alone}, spread {' and '.join(f'{s:g}' for s in self.alone)}"] if alone else []
        told += [f"all widths, spread {', '.join(f'{s:g}' for s in self.together)}"] if self.together else []
        return "; ".join(told)

    def of(self, asked: Sequence[tuple[int | None, float]]) -> list[int]:
        """Return the places of its members among those asked for: capacities (None: all) and spreads."""
        return [
            k
            for k, (capacity, spread) in enumerate(asked)
            if (
                spread in self.together
                if capacity is None
                else spread in self.alone and capacity in self.capacities
            )
        ]


SETS = (
    Set((), (), (3.0, 10.0, 30.0)),
    Set((10,), (3.0,), (3.0, 10.0, 30.0)),
    Set((10,), (3.0,), (3.0, 10.0)),
    Set((10,), (3.0,), (3.0, 30.0)),
    Set((10,), (3.0,), (30.0,)),
    Set((10, 20), (3.0,), (3.0, 30.0)),
    Set((10, 45), (3.0,), (30.0,)),
    Set((10, 20, 45, 90), (3.0,), (3.0, 10.0, 30.0)),
    Set((10, 20, 45, 90), (3.0, 10.0), ()),
    Set((10, 20, 45, 90), (3.0, 10.0), (3.0, 10.0, 30.0)),
    Set((10,), (3.0,), ()),
    Set((), (), (3.0,)),
    Set((), (), (30.0,)),
)


def _place(members: Members, capacity: int | None, spread: float) -> int:
    """Return which member this is: the weakest ridge of its kind where events do not allow the spread."""
    scales = tuple(range(len(CAPACITIES))) if capacity is None else (CAPACITIES.index(capacity),)
    own = [k for k, member in enumerate(members.members) if member.scales == scales]
    return next((k for k in own if members.members[k].spread == spread), own[-1])


def powers(family: Family, toys: int) -> dict[str, tuple[float, float, float, float]]:
    """Return for every set: power, that of Cauchy's combination, and the mean and least share of the best.

    The best is the best of all members for that bump, where it has 0.2 to 0.9.
    """
    asked = [(c, s) for c in CAPACITIES for s in SPREADS] + [(None, s) for s in SPREADS]
    settings = AdaptiveSettings(widest=(), spreads=SPREADS, together=SPREADS)
    members = choose_members(family.pool, settings, family.sizes)
    null = adaptive_nulls(members, family.sample, n_reference=family.sizes.reference).at_yield()
    place = {(capacity, spread): _place(members, capacity, spread) for capacity, spread in asked}
    found: dict[str, list[tuple[float, float]]] = {}
    best = []
    for number, bump in enumerate(family.bumps):
        rng = np.random.default_rng([SEED, number])
        y = null.draw_scores(toys, rng)
        for row in y:
            z = bump.draw(rng)
            if len(z):
                row += family.columns_of(z, members.basis)
        log_p, draws = null.log_p_of_scores(y), null.law.draws
        best.append(max(float((global_z(draws, log_p, [k]) >= 2.0).mean()) for k in range(len(members))))
        for one in SETS:
            chosen = sorted({place[asked[k]] for k in one.of(asked)})
            z = [global_z(draws, log_p, chosen, cauchy) for cauchy in (False, True)]
            found.setdefault(one.name, []).append(tuple(float((each >= 2.0).mean()) for each in z))
    limit = np.array(best)
    told = (limit >= 0.2) & (limit <= 0.9)
    summary = {}
    for name, values in found.items():
        power, cauchy = np.array(values).T
        share = (power / np.maximum(limit, 1e-9))[told]
        summary[name] = float(power.mean()), float(cauchy.mean()), float(share.mean()), float(share.min())
    return summary


@click.command(help=__doc__.splitlines()[0])
@click.option("--bumps", default=60, show_default=True)
@click.option("--toys", default=200, show_default=True)
def main(bumps: int, toys: int) -> None:
    total: dict[str, list[float]] = {}
    for family in families(bumps):
        print(family.name)
        for name, (power, cauchy, share, least) in powers(family, toys).items():
            total.setdefault(name, []).append(power)
            print(
                f"  {name:70s} power {power:.3f} (Cauchy {cauchy:.3f}); of the best member's {share:.2f}, "
                f"at least {least:.2f}",
                flush=True,
            )
    print("on average over the families")
    for name, values in sorted(total.items(), key=lambda item: -float(np.mean(item[1]))):
        print(f"  {name:70s} power {np.mean(values):.3f}")


if __name__ == "__main__":
    main()
