"""The verdict on the toys of a run: planned points that lack, toys that failed, and the network's yields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from covad.inference.verdict import Verdict
from covad.results.collect import Group, RunToys, joint_null
from covad.results.compute import _closure
from covad.runs.directory import RunDirectory
from covad.storage.versions import Versions
from covad.study import Study, parse_study
from covad.study.plan import Entry, plan
from covad.toys.drawing import LatentSource
from covad.toys.store import EnsembleToys
from covad.toys.toy import Toy

CONVEX = {"convex": {"bumps": 10, "capacity": 5}}
NETWORK = {"network": {"clip": 1.0}}


@pytest.fixture(autouse=True)
def no_goodness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goodness of fit has no say, and takes seconds."""
    monkeypatch.setattr("covad.results.compute._goodness", lambda *_: ({}, {}))


def study(**changes: Any) -> Study:
    plain: dict[str, Any] = {
        "seed": 1,
        "source": {"kind": "latent"},
        "sizes": {"expected": 200, "reference": 1000},
        "tests": CONVEX,
        "nu": [0, 2, -2],
        "nu_norm": [-3, 3],
        "prior": False,
        "toys": 1500,
    }
    return parse_study(plain | changes, "here")


def ensemble(t: np.ndarray, log_yield: np.ndarray, failed: int = 0) -> EnsembleToys:
    """Toys of these t; the first ones failed."""
    toys = [
        Toy(i, i, i, "failed", "x")
        if i < failed
        else Toy(
            i, i, i, "converged", t=float(t[i]), log_yield=float(log_yield[i]), true_nu=(0.0,), true_norm=0.0
        )
        for i in range(len(t))
    ]
    return EnsembleToys(len(t), tuple(toys), (Versions.here(),) * len(t))


def group_of(study: Study, make: Callable[[Entry], EnsembleToys]) -> Group:
    """The one group of a study with these toys."""
    clips = {configuration.slug: 1.0 for configuration in study.configurations}
    entries = plan(study, {study.spaces[0]: LatentSource(1)}, clips)
    toys = {entry.ensemble.identity: make(entry) for entry in entries}
    (group,) = RunToys(RunDirectory("nowhere"), study, entries, toys).groups()
    return group


def verdict(group: Group) -> tuple[Verdict, str, list[str]]:
    lines = list(_closure(group, 1))
    return lines[0].verdict, lines[0].reason, [line.point for line in lines]


@pytest.fixture(scope="module")
def law() -> Callable[[float], np.ndarray]:
    """The weights of the law of t at a log yield."""
    group = group_of(study(toys=12), lambda entry: ensemble(np.arange(12.0), np.zeros(12)))
    return lambda log_yield: group._analytic.at_yield(log_yield).law.weights


def convex_toys(law, entry: Entry, n: int, failed: int = 0) -> EnsembleToys:
    log_yield = 0.1 * entry.draw.nu_norm
    rng = np.random.default_rng([5, round(10 * entry.draw.nu[0] + 50), round(10 * entry.draw.nu_norm + 50)])
    weights = law(log_yield)
    t = (weights * rng.chisquare(1, (n, len(weights)))).sum(axis=1)
    return ensemble(t, np.full(n, log_yield), failed)


def test_sound_toys_close(law):
    found = verdict(group_of(study(), lambda entry: convex_toys(law, entry, entry.toys)))
    assert found[0] is Verdict.CLOSES
    assert found[2] == ["R_0", "R_+2", "R_-2", "nu_N = -3 sigma", "nu_N = +3 sigma"]


@pytest.mark.parametrize(("n", "failed"), [(1500, 1500), (1500, 1491), (9, 0), (0, 0)])
def test_a_planned_point_without_toys_does_not_close(law, n, failed):
    """All or nearly all of its toys failed, or were not computed yet."""

    def toys(entry: Entry) -> EnsembleToys:
        at_point = entry.draw.nu == (2.0,)
        return convex_toys(law, entry, n if at_point else entry.toys, failed if at_point else 0)

    found = verdict(group_of(study(), toys))
    assert found[:2] == (Verdict.CANNOT_TELL, f"nu = +2 has only {n - failed} toys")
    assert "R_+2" not in found[2]


def test_few_toys_per_yield_do_not_close(law):
    few = study(toys=5, configurations=[{"background_toys": 1500, "yield_toys": 5}])
    found = verdict(group_of(few, lambda entry: convex_toys(law, entry, entry.toys)))
    assert found[:2] == (Verdict.CANNOT_TELL, "nu_N = -3 sigma has only 5 toys, and 1 more")


@pytest.mark.parametrize(("failed", "expected"), [(3, Verdict.CLOSES), (180, Verdict.CANNOT_TELL)])
def test_failed_toys_count_against_closure(law, failed, expected):
    """3 of 1500 cost little; 12 % may all lie beyond 2 sigma."""

    def toys(entry: Entry) -> EnsembleToys:
        return convex_toys(law, entry, entry.toys, failed if entry.draw.nu == (2.0,) else 0)

    found = verdict(group_of(study(), toys))
    assert found[0] is expected
    if expected is Verdict.CANNOT_TELL:
        assert found[1].endswith("at nu = +2; 180 failed toys count against it, find out why they failed")


SIGMA = 0.3


def network_toys(entry: Entry, wrong: float = 0.0) -> EnsembleToys:
    """Toys whose mean and spread move with the yield; at +3 sigma the tail may be another one."""
    rng = np.random.default_rng([6, round(10 * entry.draw.nu[0] + 50), round(10 * entry.draw.nu_norm + 50)])
    y = SIGMA * entry.draw.nu_norm
    growth = (1 + np.exp(y) / 5.2) / (1 + 1 / 5.2)
    t = 45 * growth + 9.5 * growth * (rng.gamma(22.4, 1.0, entry.toys) - 22.4) / 22.4**0.5
    if wrong and entry.draw.nu_norm == 3.0:
        t = t + wrong * 9.5 * (rng.random(entry.toys) < 0.1)
    return ensemble(t, y + rng.normal(0, 0.02, entry.toys))


def network(**changes: Any) -> Study:
    return study(tests=NETWORK, normalisation=SIGMA, nu_norm=[-3, -1.5, 1.5, 3], **changes)


def test_the_yields_of_the_network_are_judged_against_each_other():
    """Sound toys close at all of them; a tail of its own at one yield, which enters all moments, does not."""
    yields = [f"nu_N = {x:+g} sigma" for x in (-3, -1.5, 1.5, 3)]
    sound = verdict(group_of(network(), network_toys))
    assert sound[2] == ["R_0", "R_+2", "R_-2", *yields]
    assert sound[0] is Verdict.CLOSES
    spoiled = verdict(group_of(network(), lambda entry: network_toys(entry, wrong=5.0)))
    assert spoiled[0] is Verdict.DOES_NOT_CLOSE
    assert "at nu_N = " in spoiled[1]


def test_a_toy_is_no_part_of_the_null_that_judges_it():
    group = group_of(network(toys=100), network_toys)
    apart = group.yields_apart()
    assert list(apart) == list(group.at_yields)
    for t, null in apart.values():
        assert (len(t), len(null.t)) == (100, 400)
        assert not np.isin(t, null.t).any()
    # moved by what other toys say: nearly as by all, and never the same
    everything = np.concatenate([t for t, _ in apart.values()])
    assert 0.0 < np.abs(everything - group.null_t).max() < 0.5 * group.null_t.std()


@pytest.mark.parametrize("few", [29, 33, 60])
def test_too_few_toys_per_yield_are_told(few):
    """Though every nu has toys enough, and closes."""
    apart = network(configurations=[{"background_toys": 3000, "yield_toys": few}])
    found = verdict(group_of(apart, network_toys))
    assert found[0] is Verdict.CANNOT_TELL
    if few < 34:
        told = f"nu_N = -3 sigma has only {few} toys, 34 toys per yield tell how t moves with it"
        assert found[1] == told
    else:
        assert found[1].endswith("toys per ensemble would tell")


def test_toys_of_other_yields_that_are_not_moved_have_no_rank():
    both = study(tests=NETWORK | CONVEX, toys=20)
    entries = plan(both, {both.spaces[0]: LatentSource(1)}, {both.configurations[0].slug: 1.0})
    toys = {entry.ensemble.identity: network_toys(entry) for entry in entries}
    groups = {g.test: g for g in RunToys(RunDirectory("nowhere"), both, entries, toys).groups()}
    assert groups["network"].moments is None
    assert len(groups["network"].null_p()) == len(groups["network"].null_t) == 20
    assert len(joint_null(groups["network"], groups["convex"]).t) == 20
