"""The adaptive test through all stages of a tiny run: toys, summary, report, observed file."""

import json

import numpy as np
import pytest
from finished_run import make_run, simulated
from scipy.stats import norm

from covad.errors import FileFormatError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.basis import evaluate
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.observed.examine import examine
from covad.observed.lines import observation_lines
from covad.observed.result import Observation
from covad.observed.run import FinishedRun
from covad.pipeline.report import report_run
from covad.results.collect import collect
from covad.results.compute import summarise
from covad.results.lines import summary_lines
from covad.results.overview import quoted_test
from covad.results.summary import Summary
from covad.runs.tuned import plain_test, restore_test

TESTS = {
    "convex": {"bumps": 5},
    "adaptive": {"capacities": [2.5, 5], "bumps": [5, 10], "spreads": [3], "together": [3, 10]},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run"
    return make_run(path, tests=TESTS, result="adaptive", configurations=[{"treatment": "profiled"}])


@pytest.fixture(scope="module")
def summary(run):
    return summarise(collect(run))


def test_members_are_chosen_once_and_kept(run):
    group = next(group for group in FinishedRun.open(run).groups if group.test == "adaptive")
    test = group.ensemble.test.build(group.ensemble.source)
    assert isinstance(test, AdaptiveTest)
    assert test.members.names[0] == "capacity 2.5, spread 3"
    assert (run / "members" / "covariant-profiled.json").exists()
    again = restore_test(plain_test(test), "here")
    assert again.members.members == test.members.members
    for one, other in zip(again.members.scales, test.members.scales, strict=True):
        assert (one.centres == other.centres).all()
        assert one.width == other.width


@pytest.fixture
def parts():
    """A test with members for each of two parts, as it is kept; and events."""
    pool = np.random.default_rng(1).normal(size=(3000, 3)).astype(np.float32)
    settings = AdaptiveSettings(capacities=(4.0,), bumps=(12,))
    members = choose_members(pool, settings, Sizes(expected=600, reference=3000), (("a", 1), ("b", 2)))
    return members, json.loads(json.dumps(plain_test(AdaptiveTest(members)))), pool


def test_members_of_parts_are_kept(parts):
    members, content, pool = parts
    again = restore_test(content, "here")
    assert again.members.names == members.names
    np.testing.assert_array_equal(evaluate(again.basis, pool), evaluate(members.basis, pool))


@pytest.mark.parametrize("seen", [[-1], [99], [0.7], [True], "0", [0, 1], [], [1, 1]])
def test_bumps_that_see_what_is_not_there_are_refused(parts, seen):
    _, content, _ = parts
    content["scales"][0]["basis"]["dimensions"] = seen
    with pytest.raises(FileFormatError, match="here: cannot be understood"):
        restore_test(content, "here")


@pytest.mark.parametrize(
    ("key", "value"),
    [("parts", ["a"]), ("capacities", [4.0]), ("members", [{"scales": [0, 1], "spread": 3, "ridge": 1}])],
)
def test_members_that_do_not_fit_are_refused(parts, key, value):
    _, content, _ = parts
    with pytest.raises(FileFormatError, match="here: cannot be understood"):
        restore_test(content | {key: value}, "here")


def test_members_with_a_bump_twice_are_refused(parts):
    """Few values had scales that were alike: runs that chose them have no right t."""
    _, content, _ = parts
    content["scales"][1] = content["scales"][0]
    content["members"] = [{"scales": [0, 1], "spread": 3.0, "ridge": 1.0}]
    with pytest.raises(FileFormatError, match="the same bump twice"):
        restore_test(content, "here")


def test_a_file_has_one_p_and_the_member_that_saw_it(run, summary, tmp_path):
    found = examine(run, simulated(tmp_path / "observed.h5", "background", 210, seed=77))
    assert found.rule == "adaptive"
    assert [test.test for test in found.tests] == ["adaptive", "convex"]
    test = found.tests[0]
    assert test.member in ("capacity 2.5, spread 3", "capacity 5, spread 3", "all widths, spread 3",
                           "all widths, spread 10")  # fmt: skip
    assert test.quoted == "analytic"
    assert test.significance.z == pytest.approx(norm.isf(test.p))
    assert test.significance.null_interval.low < test.z < test.significance.null_interval.high
    assert f"most was seen by its member of {test.member}" in found.answer.line
    assert {impact.name for impact in found.impacts} == {fit.name for fit in found.nuisances}
    assert found.test_of_impacts == "adaptive"
    assert found.joint is None, "that is of the network and the convex test"
    assert test.excess.n_top > 0
    assert Observation.from_json(found.to_json()) == found
    assert any(test.member in line for line in observation_lines(found, summary))


def test_the_summary_has_its_law_and_is_the_same_when_read_again(summary):
    null = next(line for line in summary.nulls if line.test == "adaptive")
    assert null.law.name == "analytic"
    assert not null.law.weights
    law = null.law.distribution
    assert law.sf(0.0) == 1.0
    assert law.sf(40.0) < 1e-8
    t, density = null.law.curve
    assert (density >= 0).all()
    assert 0.9 < density @ (t[1:2] - t[:1]).repeat(len(t)) <= 1.001
    assert Summary.from_json(summary.to_json(), "here") == summary
    assert quoted_test(summary) == ("adaptive", "analytic")
    assert {line.test for line in summary.closure} == {"convex", "adaptive"}
    told = list(summary_lines(summary))
    assert any("widest scale of the adaptive test" in line for line in told)
    assert any(line.startswith("adaptive test, covariant, profiled:") for line in told)


def test_the_report_is_drawn(run):
    report_run(run)
    page = (run / "report.html").read_text()
    assert "adaptive test" in page
