"""Anomalies that nobody tuned for, hidden in the background of a space.

They are random bumps, processes left out, and events whose objects were changed.

A bump has a random place, width and strength. Its strength is that of a search which knew the bump: its
counting experiment would have a Z that is drawn evenly. No signal of a study has a part in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import cKDTree

from covad.errors import TooFewEventsError
from covad.nplm.dataset import Dataset, Response
from covad.nplm.scale import RobustScale
from covad.toys.drawing import draw_from, largest_number
from covad.toys.ensembles import Draw, ToySeeds
from covad.toys.pools import LatentEvents, Pool, Pools

#: Widths of bumps, in standard deviations of the space; they are drawn evenly in their logarithm.
WIDTHS = (0.05, 1.0)
#: Z that a search would have which knew the bump; drawn evenly.
KNOWN_Z = (3.0, 8.0)
#: How far centres lie from a random event, in standard deviations of the space.
DISPLACED = 0.5
#: Events that stand for a bump, at least, and background events among which they are placed.
_BUMP_EVENTS, _NEIGHBOURS = 2000, 50_000
#: Name of the family of bumps: the only one whose events differ from space to space.
RANDOM_BUMPS = "random bumps"
#: Name of the family of events whose objects were changed.
CHANGED_EVENTS = "changed events"
#: Yields of processes that are left out, and of changed events, as shares of the expected events.
LEFT_OUT_SHARES = (0.005, 0.01, 0.02)


@dataclass(frozen=True)
class Anomaly:
    """Events on top of the background: `injected` of them are expected."""

    name: str
    injected: float
    pool: Pool


@dataclass(frozen=True)
class AnomalyFamily:
    """Anomalies of one kind, and the background in which each of them is hidden."""

    name: str
    background: Pools  # at nu = 0
    anomalies: tuple[Anomaly, ...]

    def toy(self, draw: Draw, seeds: ToySeeds, anomaly: Anomaly | None) -> Dataset:
        """Return one toy at nu = 0, with an anomaly or without."""
        there, injected = self.background, draw
        if anomaly is not None:
            there = replace(there, signals={anomaly.name: {draw.nu: anomaly.pool}})
            injected = replace(draw, signal=anomaly.name, injected=anomaly.injected)
        return draw_from(there, injected, seeds)

    def turn(self, index: int, toys: int) -> Anomaly:
        """Return the anomaly of one of so many toys: all in turn, or some at equal distances."""
        n = len(self.anomalies)
        return self.anomalies[index * n // toys if toys < n else index % n]


def toy_seeds(seed: int, family: str, index: int, with_anomaly: bool) -> ToySeeds:
    """Return the random numbers of a toy: they depend on no setting, so that all settings see the same."""
    root = np.random.SeedSequence(seed, spawn_key=(*family.encode(), int(with_anomaly), index))
    return ToySeeds(root, *root.spawn(5))


def check_sizes(family: AnomalyFamily, draw: Draw) -> None:
    """Raise TooFewEventsError if a toy may need more events than the family has."""
    reference, data = family.background.reference, family.background.background(draw.nu)
    for what, pool, need in (
        ("reference", reference, float(draw.n_reference)),
        ("data", data, largest_number(draw.expected_background)),
        *((f"data ({a.name})", a.pool, largest_number(a.injected)) for a in family.anomalies),
    ):
        if len(pool) < need:
            raise TooFewEventsError(
                f"the family '{family.name}' has {len(pool)} events of the pool {what}, but toys may need "
                f"{need:.0f}: use larger pools (source.splits), or smaller sizes"
            )


def random_bumps(background: Pools, draw: Draw, number: int, seed: int) -> AnomalyFamily:
    """Return bumps of random place, width and strength in the space of the background.

    Their events have the response of the background event that is nearest.
    """
    rng = np.random.default_rng(seed)
    scale = RobustScale.of(background.basis)
    place, size = scale.location, scale.scale
    sample = background.reference.sample
    rows = rng.permutation(len(sample))[:_NEIGHBOURS]
    near = sample.take(np.sort(rows))
    u = (near.z.astype(np.float64) - place) / size
    weights = near.weights_for(draw.expected)
    tree = cKDTree(u)
    centres = (background.basis[rng.integers(len(background.basis), size=number)] - place) / size
    anomalies = []
    for k, centre in enumerate(centres + DISPLACED * rng.normal(size=centres.shape)):
        width = float(np.exp(rng.uniform(*np.log(WIDTHS))))
        known = float(rng.uniform(*KNOWN_Z))
        # with sum s^2 / b = S^2 / B, B is the background under the squared bump, which is narrower by sqrt 2
        distance = np.square(u - centre).sum(axis=1)
        injected = events_of_known_z(known, float(weights @ np.exp(-distance / (4.0 * width**2))))
        n_events = max(_BUMP_EVENTS, int(largest_number(injected)) + 1)
        there = centre + width * rng.normal(size=(n_events, len(centre)))
        nearest, g = tree.query(there)[1], near.response
        quadratic = None if g.quadratic is None else g.quadratic[nearest]
        response = Response(g.linear[nearest], quadratic)
        events = LatentEvents((there * size + place).astype(np.float32), response)
        anomalies.append(Anomaly(f"bump {k}", injected, Pool(events)))
    return AnomalyFamily(RANDOM_BUMPS, background, tuple(anomalies))


def events_of_known_z(z: float, background: float) -> float:
    """Return the signal events whose expected Z over so much background is `z`; three at least."""
    b = max(background, 1e-3)

    def excess(s: float) -> float:
        return float(2.0 * ((s + b) * np.log1p(s / b) - s) - z**2)

    return max(float(brentq(excess, 0.0, z**2 + 2.0 * z * np.sqrt(b) + 1.0)), 3.0)


def left_out(
    background: Pools,
    draw: Draw,
    process: str,
    labels: dict[str, NDArray[np.str_]],
    shares: Sequence[float] = LEFT_OUT_SHARES,
) -> AnomalyFamily:
    """Return a process as an anomaly: reference, data and basis are without it, and it comes on top.

    `labels` has the process of every event of the pools 'reference', 'data' and 'basis'.
    """
    data = background.background(draw.nu)
    mine = {role: names == process for role, names in labels.items()}
    rest = Pools(
        reference=_part(background.reference, ~mine["reference"]),
        basis=background.basis[~mine["basis"]],
        data={draw.nu: _part(data, ~mine["data"])},
    )
    alone = replace(_part(data, mine["data"]), yield_ratio=1.0)
    anomalies = [Anomaly(f"{process} {100 * x:g} %", x * draw.expected, alone) for x in shares]
    return AnomalyFamily(f"{process} left out", rest, tuple(anomalies))


def changed(
    background: Pools, draw: Draw, events: Mapping[str, Pool], shares: Sequence[float] = LEFT_OUT_SHARES
) -> AnomalyFamily:
    """Return changed events as anomalies, by the name of the change, each at every yield."""
    anomalies = [
        Anomaly(f"{name} {100 * x:g} %", x * draw.expected, pool)
        for name, pool in events.items()
        for x in shares
    ]
    return AnomalyFamily(CHANGED_EVENTS, background, tuple(anomalies))


def _part(pool: Pool, keep: NDArray[np.bool_]) -> Pool:
    signed = None if pool.signed is None else pool.signed[keep]
    return Pool(pool.sample.take(np.flatnonzero(keep)), pool.yield_ratio, signed)


def as_signal(background: Pools, draw: Draw, name: str, injected: Sequence[float]) -> AnomalyFamily:
    """Return a signal of the study as a family: a process that was left out of the training, too."""
    pool = background.signal(name, draw.nu)
    return AnomalyFamily(name, background, tuple(Anomaly(f"{name} {n:g}", n, pool) for n in injected))
