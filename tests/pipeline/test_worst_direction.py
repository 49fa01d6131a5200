"""Toys along the worst direction, and pruned nuisances, from the study file to the summary."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from finished_run import TINY, here, run_here, tiny_study

from covad.cli.main import commands
from covad.errors import CovadError, PlanError, StudyError
from covad.inference import ranking
from covad.observed.examine import examine
from covad.pipeline import run_study
from covad.pipeline.stages import dry_run
from covad.results.run import open_run
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.status import run_status
from covad.study import parse_study
from covad.study.plan import n_prior_points
from covad.toys.ensembles import Shard
from covad.toys.pool_files import open_pools, pools_digest

NAMES = ("jet_energy_scale", "jet_energy_resolution", "met_soft_scale")
SPACE = ("covariant", 1)
ALONG = {"+2 sigma along the worst direction", "-2 sigma along the worst direction"}


def three(prune=False, **changes):
    source = TINY["source"] | {
        "systematics": [{"name": name} for name in NAMES],
        "response": TINY["source"]["response"] | {"fits": 2, "prune": prune},
    }
    study = {
        "source": source,
        "configurations": [{"treatment": "none"}, {"treatment": "profiled"}],
        "tests": {"convex": {"bumps": 5}},
        "nu": [0],
        "worst_direction": True,
    }
    return tiny_study(**study | changes)


def pools_of(path):
    folder = path / "pools" / "covariant_linear"
    return open_pools(folder, pools_digest(folder))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that stopped before its checks, and what it said then; and that run when it was finished."""
    path = tmp_path_factory.mktemp("worst") / "run"
    run_here(three(), path, until="response")
    before = run_status(path), dry_run(three(), path)
    with pytest.raises(PlanError, match="before shards are run"):
        run_study(three(), path, here, Shard(1, 2))
    run_here(three(), path)
    return path, *before


def test_the_plan_waits_for_the_direction(run):
    _, status, lines = run
    assert status.ranking_lines == ["covariant, linear: worst direction: toys wait for this stage"]
    assert status.total("requested") == 20
    assert lines[-1] == (
        "toys: 0 are there, 20 are computed, and those along the worst direction, which the checks will find"
    )


def test_pools_and_toys_lie_on_both_sides_of_the_direction(run):
    path, _, _ = run
    study = three()
    found = Products(study, RunDirectory(path)).ranking(SPACE)
    up, down = found.worst_points(2.0)
    assert set(pools_of(path).data) == {(0.0, 0.0, 0.0), up, down}
    summary = open_run(path).summary
    drawn = {line.along_worst: line.nu for line in summary.ensembles if line.along_worst}
    assert drawn == {2.0: up, -2.0: down}
    assert all(line.done == 10 for line in summary.ensembles)
    assert {line.point for line in summary.closure if line.configuration == "covariant-profiled"} >= ALONG
    assert not {line.point for line in summary.closure if line.configuration == "covariant-none"} & ALONG
    assert up not in summary.points
    assert len(open_run(path).toys(nu=up).t) == 10
    (space,) = summary.spaces
    assert space.closure_over_prior == found
    assert found.names == NAMES
    assert len(found.pairs) == 3
    assert space.training_spread.heads == 2
    assert len(space.training_spread.shifts) == 3


def test_a_finished_run_keeps_all_and_says_where_it_points(run):
    path, _, _ = run
    assert dry_run(three(), path)[-1] == "toys: 40 are there, 0 are computed"
    assert run_study(three(), path, here, Shard(2, 2)).computed == 0
    shown = CliRunner().invoke(commands, ["status", str(path)])
    assert shown.exit_code == 0
    assert "covariant, linear: worst direction: +0." in shown.output
    assert "+2 sigma along the worst direction" in shown.output
    told = CliRunner().invoke(commands, ["status", str(path), "--json"])
    ranked = json.loads(told.output)["closure_over_prior"]["covariant, linear"]
    assert ranked["names"] == list(NAMES)


def test_changed_points_are_told_by_names(run):
    path, _, _ = run
    points = [0, {"met_soft_scale": 1}, {"jet_energy_scale": -2, "met_soft_scale": 1}]
    assert dry_run(three(nu=points), path)[0] == (
        "the study has changed: nu has got (met_soft_scale = +1), "
        "(jet_energy_scale = -2, met_soft_scale = +1)"
    )
    with pytest.raises(CovadError, match=r"nu has 1 numbers, but nuisances are jet_energy_scale, jet"):
        open_run(path).toys(nu=1.0)


def test_toys_elsewhere_are_what_they_are_without_the_direction(run):
    path, _, _ = run
    assert dry_run(three(worst_direction=False), path)[-1] == "toys: 20 are there, 0 are computed"


def test_pruned_nuisances_are_unknown_to_the_test(run, tmp_path, monkeypatch):
    """With a rule that prunes all, the response stays as it was, and g is 0 in the pools."""
    path, _, _ = run
    monkeypatch.setattr(ranking, "PRUNED_INFORMATION", 1e9)
    monkeypatch.setattr(ranking, "PRUNED_SHIFT", 1e9)
    study = three(prune=True, worst_direction=False)
    shutil.copytree(path, tmp_path / "run")
    (tmp_path / "run" / "checks" / "covariant_linear.json").unlink()
    run_here(study, tmp_path / "run")
    g = pools_of(tmp_path / "run").reference.sample.response.linear
    assert not g.any()
    assert np.asarray(pools_of(path).reference.sample.response.linear).any(axis=0).all()
    line = f"covariant, linear: left out of the tests, as they matter too little: {', '.join(NAMES)}"
    assert run_status(tmp_path / "run").ranking_lines == [line]
    response = Products(study, RunDirectory(tmp_path / "run")).response("covariant", 0, 1)
    assert response.digest == Products(three(), RunDirectory(path)).response("covariant", 0, 1).digest
    t = open_run(tmp_path / "run").toys("covariant-profiled").t
    assert np.isfinite(t).all()
    with pytest.raises(
        CovadError, match=r"value of 'met_soft_scale' cannot be used: .* leave the nuisance out"
    ):
        examine(tmp_path / "run", tmp_path / "none.h5", auxiliary={"met_soft_scale": 1.0})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"source": {"kind": "latent", "nuisances": 3}, "nu": [[0, 0, 0]]},
            "only a response that the run fits",
        ),
        ({"source": TINY["source"]}, "worst_direction: one systematic has no other direction"),
    ],
)
def test_a_direction_that_does_not_exist_is_refused(changes, message):
    with pytest.raises(StudyError, match=message):
        parse_study(TINY | {"worst_direction": True, "nu": [0], "configurations": [{}]} | changes, "here")


@pytest.mark.parametrize(("k", "points"), [(1, 64), (16, 64), (24, 128), (50, 256)])
def test_many_nuisances_have_more_points_of_the_prior(k, points):
    latent = {"seed": 1, "source": {"kind": "latent", "nuisances": k}, "tests": {"convex": {}}}
    assert n_prior_points(parse_study(latent, "here")) == points
