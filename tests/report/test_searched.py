"""What was searched, as the first screen says it."""

from dataclasses import replace
from pathlib import Path

import pytest
import report_world
from observations import observation

from covad.report.searched import searched
from covad.results.manifest import StageVersions


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence()


def _said(evidence):
    return {term: text.replace("\xa0", " ") for term, text in searched(evidence)}


def test_the_first_screen_says_what_was_searched(evidence):
    said = _said(evidence)
    assert said["Background"] == "6 000 000 events simulated by the embedded generator"
    assert said["Processes"] == "W 9 000, tt\N{COMBINING OVERLINE} 1 000 expected events"
    assert said["Cuts"] == "every jet ≥ 23 GeV; at least one electron or muon ≥ 23 GeV"
    assert said["Systematics"] == "jet energy scale (σ = 0.025), normalisation (σ = 10 %)"
    assert said["Signals"] == "LQ → bτ: 50 events (0.5 %); h± → τν: 50 events (0.5 %), 100 events (1 %)"
    assert said["Sizes"].startswith("10 000 expected events, 52 000 reference events; 400 toys per ensemble")
    assert said["Test"] == "network, covariant, profiled (main configuration)"


def test_versions_of_the_toys_are_not_those_of_the_report(evidence):
    (toys,) = evidence.summary.toy_versions
    made = replace(toys, versions=replace(toys.versions, covad="0.1"))
    said = _said(replace(evidence, summary=replace(evidence.summary, toy_versions=(made,))))
    assert said["Versions"] == "toys made with covad 0.1, numpy 2.0, torch 2.4; reported with covad 0.0"


def test_the_joint_rule_is_named():
    both = report_world.evidence(tests=("network", "convex"))
    study = both.summary.study.model_copy(update={"result": "joint"})
    said = _said(replace(both, summary=replace(both.summary, study=study)))
    assert said["Test"] == "both tests, the smaller p of them, covariant, profiled (main configuration)"
    assert _said(both)["Test"] == "convex test, covariant, profiled (main configuration); beside it: network"


def test_files_of_data_and_of_background_are_named(evidence):
    study = evidence.summary.study
    files = tuple(Path(file) for file in ("a/x.h5", "y.h5", "z.h5", "w.h5"))
    entry = study.source.background.model_copy(update={"simulate": None, "files": files})
    source = study.source.model_copy(update={"background": entry})
    study = study.model_copy(update={"source": source, "normalisation": None})
    told = replace(
        evidence, summary=replace(evidence.summary, study=study), observed=(observation("data.h5", 1.0),)
    )
    said = _said(told)
    assert said["Data"] == "data.h5"
    assert said["Background"] == "x.h5, y.h5 and 2 more files"
    assert said["Systematics"] == "jet energy scale (σ = 0.025)"
    assert _said(evidence)["Data"].startswith("no observed file was tested yet")


def test_the_dates_are_those_of_the_run(evidence):
    (versions,) = (line.versions for line in evidence.summary.toy_versions)
    lines = [StageVersions(versions, f"2026-11-{day} 23:59:01 UTC") for day in (17, 19)]
    for stages, date in (
        ({"events": lines[:1]}, "2026-11-17"),
        ({"events": lines}, "2026-11-17 to 2026-11-19"),
    ):
        manifest = replace(evidence.summary.manifest, stages={k: tuple(v) for k, v in stages.items()})
        assert _said(replace(evidence, summary=replace(evidence.summary, manifest=manifest)))["Date"] == date
    assert "Date" not in _said(evidence)


def test_a_source_without_events_has_no_cuts():
    said = _said(report_world.evidence((("latent", "profiled", 1),), checked=False))
    assert said["Background"] == "an analytic latent world"
    assert "Cuts" not in said
    assert said["Systematics"] == "1 made-up nuisance, normalisation (σ = 10 %)"


def test_processes_that_nobody_counted_are_not_invented(evidence):
    older = replace(evidence, summary=replace(evidence.summary, processes=()))
    assert _said(older)["Processes"] == "not counted yet (covad run counts them)"
