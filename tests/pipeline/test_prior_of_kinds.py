"""A whole run with correlated auxiliary measurements and separate samples over the prior."""

import json

import numpy as np
import pytest
from finished_run import TINY, run_here, simulated

import covad
from covad.nplm.likelihood import GaussianPenalty
from covad.observed.dataset import make_dataset
from covad.observed.run import FinishedRun
from covad.pipeline.outlook import outlook
from covad.runs.directory import RunDirectory
from covad.study import parse_study
from covad.study.plan import draws

MATRIX = ((1.0, 0.9, 0.0), (0.9, 1.0, 0.3), (0.0, 0.3, 1.0))


def kinds_study(value=0.9):
    systematics = [
        {"name": "jet_energy_scale"},
        {"name": "rate", "kind": "normalisation", "uncertainty": 0.3, "only": ["ttbar"]},
        {"name": "model", "kind": "samples", "process": "ttbar", "up": {"simulate": 600}},
    ]
    correlations = [
        {"between": ["jet_energy_scale", "rate"], "value": value},
        {"between": ["model", "rate"], "value": 0.3},
    ]
    source = TINY["source"] | {"systematics": systematics, "correlations": correlations}
    changes = {"tests": {"convex": {"bumps": 5}}, "configurations": [{"treatment": "profiled"}], "nu": [0]}
    return parse_study(TINY | changes | {"source": source, "prior": True}, "here")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("covad.study.plan._PRIOR_POINTS", 16)
        yield run_here(kinds_study(), tmp_path_factory.mktemp("correlated") / "run")


def test_pools_are_at_correlated_points_and_at_both_signs(run):
    manifest = json.loads((run / "pools/covariant_linear/manifest.json").read_text())
    points = np.array([entry["nu"] for entry in manifest["prior"]])
    assert points.shape == (16, 3)
    assert sorted(set(points[:, 2])) == [-1.0, 1.0]
    assert np.corrcoef(points.T)[0, 1] > 0.7


def test_toys_have_the_matrix(run):
    study = RunDirectory(run).study()
    for draw in draws(study, study.configurations[0]):
        assert draw.correlation == MATRIX
    toys = covad.open_run(run).toys(prior=True)
    assert set(toys.column("true_nu")[:, 2]) == {-1.0, 1.0}


def test_observed_events_are_tested_with_the_matrix(run, tmp_path):
    finished = FinishedRun.open(run)
    events = finished.reference.sample.take(np.arange(200))
    dataset = make_dataset(finished, events, events, 200.0, dict.fromkeys(finished.nuisances, 0.0))
    np.testing.assert_array_equal(dataset.correlation, MATRIX)
    np.testing.assert_allclose(GaussianPenalty.of_nuisances(dataset).covariance[:3, :3], MATRIX, atol=1e-12)
    observed = simulated(tmp_path / "observed.h5", "background", 200, 77)
    answer = covad.test(run, observed)
    assert [found.name for found in answer.nuisances] == [
        "jet_energy_scale",
        "rate",
        "model",
        "normalisation",
    ]
    assert 0.0 < answer.answer.p <= 1.0


def test_another_correlation_keeps_the_models(run):
    """Pools of the prior, checks and toys are made anew; encoder and response are not."""
    lines = {line.partition(":")[0]: line for line in outlook(kinds_study(0.5), RunDirectory(run), None)}
    for stage in ("spaces", "response"):
        assert "anew" not in lines[stage]
    for stage in ("pools", "checks"):
        assert "source.correlations" in lines[stage]
