"""The summary of a small latent run: complete, JSON, and equal to what the toys say."""

import json
import math
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import report_world
from finished_run import here
from latent_run import STUDY
from scipy.stats import norm

from covad.errors import FileFormatError, UnknownNameError
from covad.inference.verdict import Verdict
from covad.pipeline import run_study
from covad.pipeline.report import write_summary
from covad.results import Summary, collect, read_summary, select, summarise, summary_lines
from covad.results.summary import SUMMARY_SCHEMA
from covad.storage.sealed import write_sealed
from covad.study import parse_study


@pytest.fixture(scope="module")
def summary(run):
    return write_summary(collect(run))


def test_the_summary_is_json_and_stays_in_the_run(run, summary):
    written = json.loads((run / "summary.json").read_text())
    del written["seal"]
    assert written == json.loads(json.dumps(summary.to_json()))
    assert "NaN" not in (run / "summary.json").read_text()
    assert read_summary(run) == summary


def test_the_main_configuration_is_named(summary):
    assert summary.main_configuration == "latent-profiled"
    assert summary.main.label == "latent, profiled"
    assert (summary.main.expected, summary.main.reference) == (300, 1500)


def test_a_configuration_is_found_by_its_slug_and_by_its_label(summary):
    assert summary.configuration("latent-none") is summary.configuration("latent, no nuisances")
    with pytest.raises(UnknownNameError, match=r"has no configuration 'other' \(it has: latent, no nuis"):
        summary.configuration("other")


@pytest.mark.parametrize(
    ("name", "slug"), [("latent, none", "latent-none"), ("latent-none", "latent-none"), ("none", None)]
)
def test_study_and_summary_know_a_configuration_by_the_same_names(summary, name, slug):
    if slug is not None:
        assert summary.configuration(name).configuration == summary.study.configuration(name).slug == slug
        return
    for holder in (summary, summary.study):
        with pytest.raises(UnknownNameError):
            holder.configuration(name)


def test_every_ensemble_adds_up(summary):
    assert len(summary.ensembles) == 2 * (2 + 1 + 2 + 2 + 4 + 1)
    for line in summary.ensembles:
        assert line.requested == line.done + line.failed + line.missing == 40
    toys = summary.toys
    assert (toys.requested, toys.done, toys.failed, toys.missing) == (960, 960, 0, 0)
    assert toys.complete


def test_means_are_those_of_the_toys(run, summary):
    toys = collect(run).toys
    for line in summary.ensembles:
        assert line.mean == pytest.approx(toys[line.identity].t.mean())


def test_the_significance_is_that_of_the_median_among_the_null(run, summary):
    """Of t at the nominal yield, among toys of five yields."""
    group = next(
        g for g in collect(run).groups() if (g.test, g.configuration.slug) == ("convex", "latent-profiled")
    )
    (signal,) = (toys for (nu, *_), toys in group.signals.items() if nu == (0.0,))
    beyond = int((group.null_t >= np.median(group.t(signal))).sum())
    key = {"test": "convex", "configuration": "latent-profiled", "nu": (0.0,)}
    (found,) = select(summary.significance, **key, null="R_0")
    assert found.z == pytest.approx(norm.isf((beyond + 1) / 201))


def test_a_law_beyond_the_toys_is_marked(summary):
    """40 toys resolve 1.97, 200 of five yields 2.58."""
    for line in summary.significance:
        resolved = 2.577 if line.configuration == "latent-profiled" else 1.972
        assert line.extrapolated == (line.null in ("chi2", "analytic") and line.z > resolved)


def test_each_test_has_its_own_calibrations(summary):
    nulls = {(line.test, line.null) for line in summary.significance}
    assert nulls == {
        *(("network", null) for null in ("R_0", "R_+1", "chi2")),
        *(("convex", null) for null in ("R_0", "R_+1", "analytic")),
    }
    for line in summary.nulls:
        assert line.law.name == ("chi2" if line.test == "network" else "analytic")
        assert bool(line.law.weights) == (line.test == "convex")
        assert line.law.goodness
    for line in summary.closure:
        assert bool(line.against_chi2) == (line.test == "network" and line.point == "R_+1")


def test_the_law_of_a_null_has_its_moments_and_a_curve(summary):
    for line in summary.nulls:
        t, density = line.law.curve
        assert np.trapezoid(density, t) == pytest.approx(1.0, abs=0.02)
        assert np.trapezoid(t * density, t) == pytest.approx(line.law.mean, rel=0.03)


def test_the_analytic_null_is_near_the_toys(summary):
    """300 events are few: 15 % of the mean of 40 toys, whose standard error is 5 %."""
    for line in select(summary.nulls, test="convex"):
        assert line.law.mean == pytest.approx(line.mean, rel=0.2)


def test_closure_has_a_line_per_shift_and_a_verdict_per_configuration(summary):
    points = {test: [line.point for line in select(summary.closure, test=test)] for test in summary.tests}
    yields = [f"nu_N = {x:+g} sigma" for x in (-3, -1.5, 1.5, 3)]
    assert points == {
        "network": ["R_+1", "R_0", "R_+1", "prior", *yields],
        "convex": ["R_0", "R_+1", "R_0", "R_+1", "prior", *yields],
    }
    for line in summary.closure:
        assert line.median_shift.shift in line.median_shift.interval
        assert bool(line.against_null) == (line.point == "R_+1")
        assert line.reason
        assert all(cell.corrected_p >= cell.p for cell in line.against_null)
        assert line.verdict in Verdict
        assert {rate.null for rate in line.false_positives} == {
            "R_0" if line.test == "network" else "analytic"
        }


def test_an_unfinished_run_says_what_it_can(tmp_path):
    study = parse_study(STUDY | {"tests": {"convex": {"bumps": 8}}, "toys": 5}, "here")
    run_study(study, tmp_path, here)
    found = summarise(collect(tmp_path))
    assert found.nulls == found.closure == found.significance == ()
    assert found.toys.done == 60
    assert list(collect(tmp_path).groups()) == []
    assert collect(tmp_path).values == {}


def test_lines_say_what_closes_and_what_is_there(summary):
    lines = list(summary_lines(summary))
    assert lines[-1] == "toys: 960 requested = 960 done + 0 failed + 0 missing"
    for test in ("network", "convex"):
        for label in ("latent, no nuisances", "latent, profiled"):
            mine = [line for line in lines if line.startswith(f"{test} test, {label}: ")]
            assert sum(any(f": {verdict}: " in line for verdict in Verdict) for line in mine) == 1
        signal = f"{test} test, latent, profiled: 40 events of signal (13 %) give a median Z of"
        assert sum(line.startswith(signal) for line in lines) == 1


def _counted(monkeypatch, summary):
    """Directories that are summarised from now on."""
    calls = []

    def instead(run):
        calls.append(run.directory.path)
        return replace(summary, made_of=run.made_of)

    monkeypatch.setattr("covad.results.compute.summarise", instead)
    return calls


@contextmanager
def _hidden_block(run):
    """Take a block of toys away for a while."""
    block = next((run / "toys").glob("*.parquet"))
    hidden = block.rename(run / "hidden")
    yield
    hidden.rename(block)


def test_a_summary_is_made_again_only_if_its_toys_have_changed(run, monkeypatch):
    before = write_summary(collect(run))
    calls = _counted(monkeypatch, before)
    next((run / "toys").glob("*.parquet")).touch()  # the time of a file says nothing
    assert write_summary(collect(run)) == before
    assert calls == []
    with _hidden_block(run):
        write_summary(collect(run))
    assert calls == [run]


def test_toys_that_come_while_a_run_is_read_belong_to_the_next_summary(run, summary, monkeypatch):
    with _hidden_block(run):
        early = collect(run)
    write_summary(early)
    calls = _counted(monkeypatch, summary)
    write_summary(collect(run))
    assert calls == [run]


def test_a_summary_of_toys_that_no_longer_count_is_made_again(run, monkeypatch):
    """Another identity orphans the stored toys, though no file has changed."""
    assert write_summary(collect(run)).toys.done == 960
    monkeypatch.setattr("covad.toys.ensembles.TOY_SCHEMA", 99)
    assert write_summary(collect(run)).toys.done == 0
    monkeypatch.undo()
    assert write_summary(collect(run)).toys.done == 960


@pytest.mark.parametrize(
    ("module", "version"),
    [("covad.toys.drawing", "LATENT_VERSION"), ("covad.results.collect", "STORE_SCHEMA")],
)
def test_a_summary_of_another_world_or_schema_is_made_again(run, monkeypatch, module, version):
    before = collect(run).made_of
    monkeypatch.setattr(import_module(module), version, 99)
    assert collect(run).made_of != before


@pytest.mark.parametrize("made_of", ["something else", None])
def test_a_summary_of_another_layout_is_made_again(run, summary, made_of, monkeypatch):
    write_summary(collect(run))
    content = json.loads((run / "summary.json").read_text()) | {"schema": 1, "made_of": made_of}
    (run / "summary.json").write_text(json.dumps(content))
    calls = _counted(monkeypatch, summary)
    assert write_summary(collect(run)).schema == SUMMARY_SCHEMA
    assert calls == [run]


@pytest.mark.parametrize("damage", ["cut off", "an unknown key", "a missing key"])
def test_a_kept_summary_that_is_spoilt_is_made_again(run, summary, damage, monkeypatch):
    write_summary(collect(run))
    file = run / "summary.json"
    content = json.loads(file.read_text())
    if damage == "cut off":
        file.write_text(file.read_text()[:-100])
    elif damage == "an unknown key":
        file.write_text(json.dumps(content | {"more": 1}))
    else:
        del content["power"]
        file.write_text(json.dumps(content))
    calls = _counted(monkeypatch, summary)
    assert write_summary(collect(run)).toys == summary.toys
    assert calls == [run]
    assert read_summary(run).toys == summary.toys


@pytest.fixture(scope="module")
def learned():
    """A summary with spaces, embeddings, clips and everything else."""
    return report_world.evidence(tests=("network", "convex")).summary


def test_everything_returns_from_json_as_it_was(learned):
    assert Summary.from_json(json.loads(json.dumps(learned.to_json())), "here") == learned


def test_a_number_that_could_not_be_computed_stays_what_it_is(learned):
    checked = replace(learned.spaces[0].validation[0], p=math.nan, chi2=math.inf)
    space = replace(learned.spaces[0], validation=(checked,))
    content = json.loads(json.dumps(replace(learned, spaces=(space,)).to_json()))
    (found,) = Summary.from_json(content, "here").spaces[0].validation
    assert math.isnan(found.p)
    assert found.chi2 == math.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 1}, r"here: has the layout 1 of another version of covad, not 12"),
        ({"schema": None}, "here: has the layout None"),
        ({"more": 1}, "here: cannot be read, it has an unknown key 'more'"),
        ({"toys": {"requested": 1, "done": 1, "failed": 0}}, "the key 'toys.missing' is missing"),
        ({"toys": []}, "toys: a JSON object was expected"),
        ({"power": [{}]}, r"the key 'power\.0\.test' is missing"),
        ({"study": {}}, r"the key 'study\.seed' is missing"),
        ({"main_configuration": 3}, "main_configuration: it should be a valid string"),
    ],
)
def test_another_layout_is_refused_in_one_sentence(learned, change, said):
    with pytest.raises(FileFormatError, match=said):
        Summary.from_json(learned.to_json() | change, "here")


def test_an_unknown_verdict_is_refused(learned):
    content = learned.to_json()
    content["closure"][0]["verdict"] = "perhaps"
    with pytest.raises(FileFormatError, match=r"closure\.0\.verdict: it should be 'closes'"):
        Summary.from_json(content, "here")


def test_every_key_and_every_verdict_is_documented():
    documented = (Path(__file__).parents[2] / "docs" / "reference" / "summary.md").read_text()
    assert [field.name for field in fields(Summary) if f"`{field.name}" not in documented] == []
    assert [verdict for verdict in Verdict if f"- `{verdict}`" not in documented] == []


@pytest.mark.parametrize("content", ["[]", "{", "3"])
def test_a_file_that_is_no_summary_is_refused(tmp_path, content):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(FileFormatError, match=r"summary\.json: cannot be read"):
        read_summary(tmp_path)


def test_a_file_of_another_layout_is_refused(tmp_path):
    write_sealed(tmp_path / "summary.json", {"schema": 1})
    with pytest.raises(FileFormatError, match=r"summary\.json: has the layout 1 of another version"):
        read_summary(tmp_path)


def test_a_directory_without_summary_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"summary\.json: cannot be read, the run has no summary"):
        read_summary(tmp_path)
