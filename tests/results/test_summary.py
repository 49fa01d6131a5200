"""The summary of a small latent run: complete, JSON, and equal to what the toys say."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from covad.pipeline import run_study
from covad.results import collect, headlines, summarise, write_summary
from covad.study import parse_study
from covad.toys.toy import run_block

STUDY = {
    "seed": 5,
    "source": {"kind": "latent"},
    "sizes": {"expected": 300, "reference": 1500},
    "tests": {"network": {"clip": 1.5}, "convex": {"bumps": 8}},
    "configurations": [{"treatment": "none"}, {"treatment": "profiled"}],
    "nu": [0, 1],
    "signals": {"signal": [40]},
    "toys": 40,
}


def here(blocks):
    for block in blocks:
        yield block, run_block(block)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    run_study(parse_study(STUDY, "here"), path, here)
    return path


@pytest.fixture(scope="module")
def summary(run):
    return write_summary(collect(run))


def test_the_summary_is_json_and_stays_in_the_run(run, summary):
    assert json.loads((run / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert "NaN" not in (run / "summary.json").read_text()


def test_the_main_configuration_is_named(summary):
    assert summary["headline"]["configuration"] == "latent, profiled"


def test_every_ensemble_adds_up(summary):
    assert len(summary["ensembles"]) == 2 * (2 + 1 + 2 + 2)
    for line in summary["ensembles"]:
        assert line["requested"] == line["done"] + line["failed"] + line["missing"] == 40
    assert summary["toys"] == {"requested": 560, "done": 560, "failed": 0, "missing": 0}


def test_means_are_those_of_the_toys(run, summary):
    values = collect(run).values
    for line in summary["ensembles"]:
        assert line["mean"] == pytest.approx(values[line["identity"]].mean())


def test_the_significance_is_that_of_the_median_among_the_null(run, summary):
    values = collect(run).values
    lines = {(e["test"], e["configuration"], tuple(e["nu"]), e["signal"]): e for e in summary["ensembles"]}
    key = ("convex", "latent, profiled", (0.0,))
    null, signal = values[lines[*key, None]["identity"]], values[lines[*key, "signal"]["identity"]]
    beyond = int((null >= np.median(signal)).sum())
    (found,) = [
        line
        for line in summary["significance"]
        if (line["test"], line["configuration"], tuple(line["nu"]), line["null"]) == (*key, "R_0")
    ]
    assert found["z"] == pytest.approx(norm.isf((beyond + 1) / 41))


def test_a_law_beyond_the_toys_is_marked(summary):
    """40 toys resolve 1.97."""
    for line in summary["significance"]:
        assert line["extrapolated"] == (line["null"] in ("chi2", "analytic") and line["z"] > 1.972)


def test_each_test_has_its_own_calibrations(summary):
    nulls = {(line["test"], line["null"]) for line in summary["significance"]}
    assert nulls == {
        *(("network", null) for null in ("R_0", "R_+1", "chi2")),
        *(("convex", null) for null in ("R_0", "R_+1", "analytic")),
    }
    for line in summary["nulls"]:
        assert (line["analytic"] is None) == (line["test"] == "network")
        assert bool(line["against_chi2"]) == (line["test"] == "network")


def test_the_analytic_null_is_near_the_toys(summary):
    """300 events are few: 15 % of the mean of 40 toys, whose standard error is 5 %."""
    for line in summary["nulls"]:
        if line["analytic"]:
            assert line["analytic"]["mean"] == pytest.approx(line["mean"], rel=0.2)


def test_closure_has_a_line_per_shift_and_a_verdict_per_configuration(summary):
    assert len(summary["closure"]) == 4
    for line in summary["closure"]:
        shift = line["median_shift"]
        assert shift["interval95"]["low"] <= shift["shift"] <= shift["interval95"]["high"]
        assert all(cell["corrected_p"] >= cell["p"] for cell in line["against_null"])
    assert set(summary["headline"]["closes"]) == {
        f"{test}, latent, {treatment}" for test in ("network", "convex") for treatment in ("none", "profiled")
    }


def test_an_unfinished_run_says_what_it_can(tmp_path):
    study = parse_study(STUDY | {"tests": {"convex": {"bumps": 8}}, "toys": 5}, "here")
    run_study(study, tmp_path, here)
    found = summarise(collect(tmp_path))
    assert found["nulls"] == found["closure"] == found["significance"] == []
    assert found["toys"]["done"] == 35
    assert list(collect(tmp_path).groups()) == []


def test_headlines_say_what_closes_and_what_is_there(summary):
    lines = headlines(summary)
    assert lines[-1] == "toys: 560 requested = 560 done + 0 failed + 0 missing"
    for name in summary["headline"]["closes"]:
        assert sum(line.startswith(f"{name}: ") and "the median of t moves" in line for line in lines) == 1
    assert sum("40 events of signal give a median Z of" in line for line in lines) == 4


def test_a_summary_is_made_again_only_if_its_files_have_changed(run, monkeypatch):
    before = write_summary(collect(run))
    calls = []
    monkeypatch.setattr("covad.results.summary.summarise", lambda run: calls.append(run.directory.path) or {})
    assert write_summary(collect(run)) == before
    assert calls == []
    next((run / "toys").glob("*.parquet")).touch()
    write_summary(collect(run))
    assert calls == [run]


def test_toys_that_come_while_a_run_is_read_belong_to_the_next_summary(run, monkeypatch):
    early = collect(run)
    next((run / "toys").glob("*.parquet")).touch()
    write_summary(early)
    calls = []
    monkeypatch.setattr("covad.results.summary.summarise", lambda run: calls.append(run.directory.path) or {})
    write_summary(collect(run))
    assert calls == [run]
