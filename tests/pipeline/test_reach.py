"""The closure reach of a space: points, average and tests of the right size, with two nuisances."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from covad.embedding.embed import Embedded
from covad.inference.ranking import PriorClosure
from covad.nplm.dataset import Float32
from covad.pipeline.checks import _warn_of_yields
from covad.pipeline.reach import _FreshEvents, space_reach
from covad.response.grid import response_grid
from covad.response.model import ResponseModel, ResponseShape
from covad.response.pairs import Pairs
from covad.runs.checks import YieldAt
from covad.storage.records import plain, restore
from covad.study import Study, parse_study
from covad.study.plan import reach_convex

STEP = 0.05


@dataclass(frozen=True)
class Shifts:
    """The response to shifts of z_0 and z_1 by STEP per sigma in a normal density; damped where z > 0."""

    damping: float

    @property
    def shape(self) -> ResponseShape:
        return ResponseShape(n_dimensions=2, n_nuisances=2)

    def columns(self, z: Float32) -> Float32:
        return np.where(z > 0, self.damping, 1.0).astype(np.float32) * np.float32(STEP) * z


@dataclass(frozen=True)
class HalfRight(Shifts):
    """The response that is damped in one of the coordinates, and exact in the other."""

    place: int

    def columns(self, z: Float32) -> Float32:
        damping = np.where(np.arange(2) == self.place, self.damping, 1.0)
        return np.float32(STEP) * z * damping.astype(np.float32)


def pairs(n: int, grid: list[tuple[float, ...]] | None = None) -> Pairs:
    z = np.random.default_rng(1).normal(size=(n, 2)).astype(np.float32)
    grid = response_grid(2) if grid is None else grid
    passes = np.ones(n, dtype=bool)
    shifted = {nu: z + np.float32(STEP) * np.array(nu, np.float32) for nu in grid}
    return Pairs(z, passes, shifted, dict.fromkeys(grid, passes))


def study(**content) -> Study:
    sizes = {"expected": 5000, "reference": 25000}
    convex = {"convex": {"bumps": 20}}
    latent = {"seed": 1, "source": {"kind": "latent"}, "sizes": sizes, "tests": convex}
    return parse_study(latent | {"configurations": [{"treatment": "profiled"}]} | content, "here")


@pytest.mark.parametrize("normalisation", [0.1, None])
def test_two_nuisances_add_up_in_the_average(normalisation):
    events = np.random.default_rng(2).normal(size=(5000, 2)).astype(np.float32)
    fresh, asked = pairs(15_000), study(normalisation=normalisation)
    exact, wrong = (space_reach(asked, "", Shifts(damping), fresh, events).reach for damping in (1.0, 0.5))
    axes = [nu for nu in response_grid(2) if np.count_nonzero(nu) == 1]
    assert [point.nu for point in wrong.points] == axes
    assert {point.fresh_events for point in (wrong.average, *wrong.points)} == {15_000}
    assert wrong.average.interval.high < exact.average.interval.low
    one, two = (found.n_events for found in wrong.smallest.values())
    assert two < one / 3
    # both are as wrong: on average the mean of t moves by twice what one of them moves it by at one sigma
    mean_of_ones = np.mean([1.0 / point.n_events for point in wrong.points if max(map(abs, point.nu)) == 1.0])
    assert wrong.average.n_events * mean_of_ones == pytest.approx(0.5, rel=0.3)


def test_two_nuisances_without_a_mixed_term_have_their_pair_measured_apart():
    events, asked_for = np.random.default_rng(2).normal(size=(5000, 2)).astype(np.float32), []

    def corners(planes):
        asked_for.extend(planes)
        return pairs(3000, [nu for nu in response_grid(2) if np.count_nonzero(nu) == 2])

    found = space_reach(study(), "", Shifts(0.5), pairs(8000, response_grid(2, ())), events, corners)
    assert asked_for == [(0, 1)]
    assert [entry.pair for entry in found.prior.pairs] == [(0, 1)]


def signed(n: int) -> Pairs:
    """The same density in events of which a fifth is negative, of three times the weight where z_0 < 0."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(2 * n, 2)).astype(np.float32)
    z = z[(z[:, 0] > 0) | (rng.random(2 * n) < 1 / 3)][:n]
    weights = np.where(rng.random(n) < 0.2, -1.0, 1.0) * np.where(z[:, 0] > 0, 1.0, 3.0)
    grid, passes = response_grid(2), np.ones(n, dtype=bool)
    shifted = {nu: z + np.float32(STEP) * np.array(nu, np.float32) for nu in grid}
    return Pairs(z, passes, shifted, dict.fromkeys(grid, passes), weights)


def test_the_reach_of_signed_weights_is_that_of_the_density():
    """The misfit at two sigma, where it is large, and the null are those of unweighted events."""
    events = np.random.default_rng(2).normal(size=(5000, 2)).astype(np.float32)
    asked = study(normalisation=0.1)
    ones = replace(pairs(15_000), weights=np.ones(15_000))
    plain, same, found = (
        space_reach(asked, "", Shifts(0.5), p, events).reach for p in (pairs(15_000), ones, signed(60_000))
    )
    assert same.average.n_events == pytest.approx(plain.average.n_events, rel=1e-6)
    assert found.average.fresh_events == 60_000
    for one, other in zip((plain.average, *plain.points), (found.average, *found.points), strict=True):
        # intervals of 68 % that do not even overlap if one is half as wide again: a false alarm below 1 %
        assert one.interval.low < 1.5 * other.interval.high
        assert other.interval.low < 1.5 * one.interval.high
    exact = space_reach(asked, "", Shifts(1.0), signed(60_000), events).reach
    assert exact.average.interval.low > 2 * found.average.interval.high


def test_a_weighted_reference_is_worth_less():
    """The shift is held against a null with more noise, of which the effective share is told."""
    fresh = _FreshEvents.of(Shifts(1.0), signed(40_000), 0.1, 5.0)
    share = fresh.reference_share
    # smoothed weights of 3 and 1 in equal halves of the density: (1/2 + 1/2)^2 / (1/2 3 + 1/2 1) of the mean
    assert share == pytest.approx(0.75, abs=0.03)
    assert _FreshEvents.of(Shifts(1.0), pairs(1000), 0.1, 5.0).reference_share == 1.0


def test_the_test_is_that_of_a_size():
    asked = study()
    assert reach_convex(asked, "", 5000) == reach_convex(asked, "")
    larger = reach_convex(asked, "", 500_000)
    assert (larger.expected, larger.reference) == (500_000, 2_500_000)
    assert reach_convex(asked, "", 100).capacity == 6.0


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_done_already_is_not_advised(caplog, order):
    """A response of second order left something of the yield: only a wider normalisation is left."""
    _warn_of_yields("a space", order, [YieldAt((2.0,), 1.03, 1.01, 1e-4, 1e4, 0.9, 0.8, 1.0)], ("jets",))
    (line,) = caplog.messages
    assert ("order: 2" in line) == (order == 1)
    assert line.endswith(
        "choose a configuration with order: 2, or a normalisation of at least 0.02"
        if order == 1
        else "choose a normalisation of at least 0.02"
    )


@dataclass(frozen=True)
class Three:
    """Shifts of z_0 and z_1 by STEP per sigma, and the weight e^{0.1 nu z_2}; the first is damped."""

    damping: float = 0.5

    @property
    def shape(self) -> ResponseShape:
        return ResponseShape(n_dimensions=3, n_nuisances=3, cross=())

    def columns(self, z: Float32) -> Float32:
        damped = np.where(z[:, :1] > 0, self.damping, 1.0)
        return (np.array([STEP, STEP, 0.1]) * z * np.hstack([damped, np.ones((len(z), 2))])).astype(
            np.float32
        )


def three(n: int, points: list[tuple[float, ...]], seed: int) -> Pairs:
    z = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)

    def at(nu: tuple[float, ...]) -> Embedded:
        moved = z + np.float32(STEP) * np.array([nu[0], nu[1], 0.0], np.float32)
        return Embedded(moved, np.arange(n), np.exp(0.1 * nu[2] * z[:, 2].astype(np.float64)), 1.0)

    return Pairs.align(at((0.0, 0.0, 0.0)), {nu: at(nu) for nu in points})


def test_three_nuisances_are_ranked_and_their_pairs_measured_apart():
    asked_for = []

    def corners(planes):
        asked_for.extend(planes)
        grid = response_grid(3, planes)
        return three(4000, [nu for nu in grid if np.count_nonzero(nu) == 2], seed=4)

    events = np.random.default_rng(2).normal(size=(5000, 3)).astype(np.float32)
    fresh = three(12_000, response_grid(3), seed=3)
    assert sum(z is fresh.nominal for z in fresh.z.values()) == 4
    found = space_reach(study(), "", Three(), fresh, events, corners)
    assert asked_for == [(0, 1), (0, 2), (1, 2)]
    assert len(found.reach.points) == 12
    assert found.prior.nuisances[0].nuisance == 0
    assert abs(found.prior.worst_direction[0]) > 0.9
    assert {entry.pair for entry in found.prior.pairs} == set(asked_for)
    assert found.spread is None
    first = found.prior.nuisances[0].misfit
    assert found.prior.average.high >= first.shift
    # the weight is exact: zero within its interval of 68 %, twice as wide
    weight = next(entry.misfit for entry in found.prior.nuisances if entry.nuisance == 2)
    assert weight.shift < 0.1 * first.shift
    assert found.prior.pruned == ()
    assert restore(PriorClosure, plain(found.prior), "here") == found.prior


def test_the_spread_of_heads_is_measured():
    """Two heads that differ in one nuisance move t by its error; the other nuisance is the same in both."""
    torch.manual_seed(1)
    model = ResponseModel(ResponseShape(2, 2, hidden=(8,)), n_heads=2)
    first, second = model.heads
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        second.layers[-1].weight[0].mul_(-3.0)
    events = np.random.default_rng(2).normal(size=(5000, 2)).astype(np.float32)
    spread = space_reach(study(), "", model, pairs(8000), events, bootstrap=True).spread
    assert (spread.heads, spread.bootstrap) == (2, True)
    assert spread.shifts[0] > 0.01
    assert spread.shifts[1] == pytest.approx(0.0, abs=1e-9)


def joined_study() -> Study:
    """A study with a space of two observables that are joined."""
    parts = {name: {"kind": "observables", "observables": [name]} for name in ("met", "ht")}
    scales = [{"name": name} for name in ("jet_energy_scale", "met_soft_scale")]
    source = {"kind": "events", "background": {"simulate": 10**7}, "systematics": scales}
    source["spaces"] = parts | {"both": {"kind": "joined", "of": ["met", "ht"]}}
    return study(source=source, tests={"adaptive": {}}, configurations=[{"space": "both"}])


def test_the_reach_of_a_joined_space_has_the_widest_scales_of_all_parts():
    """What the response lacks in either part counts, in reach and ranking."""
    events = np.random.default_rng(2).normal(size=(5000, 2)).astype(np.float32)
    asked, fresh = joined_study(), pairs(15_000)
    assert reach_convex(asked, "both").parts == (("met", 1), ("ht", 1))
    assert reach_convex(asked, "met").parts == ()
    test = reach_convex(asked, "both").choose(events)
    assert [bumps.seen for bumps in test.basis.by_width] == [(0,), (1,)]
    for place in (0, 1):
        found = space_reach(asked, "both", HalfRight(0.0, place), fresh, events)
        lacking = [reach.n_events for reach in found.reach.points if reach.nu[place]]
        exact = [reach.n_events for reach in found.reach.points if reach.nu[1 - place]]
        assert max(lacking) < 0.05 * min(n or np.inf for n in exact)
        assert found.prior.nuisances[0].nuisance == place
        assert place not in found.prior.pruned
