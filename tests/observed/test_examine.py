"""`covad test` on a whole, tiny run: every stage is real, but nothing is learned in four training steps."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from event_files import write_events
from finished_run import make_run, simulated
from samples import random_events

from covad.errors import (
    CovadError,
    FileFormatError,
    LayoutError,
    StudyError,
    TooFewEventsError,
    UnfinishedRunError,
    UnknownNameError,
)
from covad.events.layout import Collection, EventLayout
from covad.observed.examine import examine, yield_deviation
from covad.observed.result import read_observations
from covad.pipeline.claim import claim
from covad.pipeline.observation import store_observation
from covad.runs.directory import RunDirectory
from covad.storage.sealed import write_sealed

PROFILED, QUADRATIC, NONE = "covariant, profiled", "covariant, profiled, quadratic", "covariant, none"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("observed") / "observed.h5", "background", 210, seed=77)


def test_a_file_is_tested_against_every_null_of_the_run(run, observed):
    found = examine(run, observed)
    assert (found.configuration, found.label) == ("covariant-profiled", PROFILED)
    assert (found.n_file, found.n_selected, found.n_reference, found.expected) == (210, 210, 1000, 200)
    assert [test.test for test in found.tests] == ["network", "convex"]
    nulls = [[line.null for line in test.significances] for test in found.tests]
    assert nulls == [["R_0", "R_+1", "chi2"], ["R_0", "R_+1", "analytic"]]
    for test in found.tests:
        assert test.t == pytest.approx(test.tau - test.delta)
        assert test.t >= -0.01
        # the rank of the file among the 10 toys and itself
        assert test.significances[0].p * 11 == pytest.approx(round(test.significances[0].p * 11))
        for line in test.significances:  # ten toys resolve 1.34
            assert line.extrapolated == (not line.null.startswith("R_") and line.z > 1.336)
    assert [line.name for line in found.nuisances] == ["jet_energy_scale", "normalisation"]
    assert all(len(test.nu_with_h) == 2 for test in found.tests)
    assert found.compatibility.dof == 2
    assert found.warnings == ()


def test_the_answer_is_kept_and_is_the_same_again(run, observed, tmp_path):
    found = examine(run, observed)
    path = store_observation(run, found)
    assert path == run / "observed" / f"{found.name}.json"
    assert found in read_observations(RunDirectory(run))
    moved = shutil.copy(observed, tmp_path / "renamed.h5")
    again = examine(run, Path(moved))
    assert replace(again, name=found.name, file=found.file) == found


def test_the_answer_to_one_question_does_not_replace_that_to_another(run, observed):
    usual = examine(run, observed)
    assert usual.name.endswith("-covariant-profiled")
    same = examine(run, observed, expected=200, auxiliary={"jet_energy_scale": 0})
    assert same == usual
    others = (
        {"expected": 220.0},
        {"auxiliary": {"jet_energy_scale": 1.0}},
        {"auxiliary": {"normalisation": 1.0}},
    )
    names = {usual.name, *(examine(run, observed, **question).name for question in others)}
    assert len(names) == 4


def test_events_are_ranked_by_h_with_their_number_in_the_file(run, observed):
    for test in examine(run, observed).tests:
        excess = test.excess
        h = [event.h for event in excess.ranked]
        assert h == sorted(h, reverse=True)
        assert excess.n_top == len(h) == 20
        assert h[-1] == excess.h_threshold
        assert len({event.event for event in excess.ranked}) == 20
        assert all(0 <= event.event < 210 for event in excess.ranked)
        assert 0 < excess.expected < 200
        for line in excess.observables:
            assert sum(line.top) == 20
            assert sum(line.observed) == 210
            assert sum(line.region) == pytest.approx(excess.expected)
            values = [event.observables[line.name] for event in excess.ranked]
            assert line.top_mean == pytest.approx(np.mean(values))


def test_events_that_fail_the_selection_are_left_out_but_counted(run, tmp_path):
    events = random_events(300, seed=3)
    particles = events.particles.copy()
    particles[:100, events.layout.slots("electron")] = 0
    particles[:100, events.layout.slots("muon")] = 0
    path = write_events(tmp_path / "half.h5", replace(events, particles=particles))
    found = examine(run, path)
    assert (found.n_file, found.n_selected) == (300, 200)
    assert all(event.event >= 100 for event in found.tests[0].excess.ranked)


def test_a_gross_excess_is_found_where_it_is(run, observed, tmp_path):
    """Forty copies of one background event: whatever the encoder has learned, they sit in one place."""
    from covad.events.files import open_events

    with open_events(observed) as source:
        events = source.read()
    rows = np.r_[np.arange(200), np.repeat(205, 40)]
    path = write_events(tmp_path / "pile.h5", events[rows])
    found = examine(run, path)
    convex = found.tests[1]
    analytic = convex.significances[-1]
    assert analytic.z > 4
    pile = [event.event >= 200 for event in convex.excess.ranked]
    # one in six by chance; bumps are wider than the pile, so its neighbours are among the first as well
    assert np.mean(pile) > 0.5


def test_an_auxiliary_value_far_from_the_data_is_named(run, observed):
    """A measured yield of 10 sigma_N = 1 in its logarithm, where the data say none."""
    found = examine(run, observed, auxiliary={"normalisation": 10.0})
    assert any("auxiliary value of normalisation contradicts" in warning for warning in found.warnings)


def test_auxiliary_values_pull_the_nuisances(run, observed):
    low, high = (
        examine(run, observed, auxiliary={"jet_energy_scale": value}).nuisances[0] for value in (-4.0, 4.0)
    )
    assert high.auxiliary - low.auxiliary == 8.0
    assert low.fitted < high.fitted
    norm = examine(run, observed, auxiliary={"normalisation": 1.5}).nuisances[1]
    assert norm.auxiliary == pytest.approx(1.5)


def test_other_configurations_are_tested_too(run, observed):
    quadratic = examine(run, observed, configuration=QUADRATIC)
    assert quadratic.label == QUADRATIC
    assert examine(run, observed, configuration=quadratic.configuration) == quadratic
    assert quadratic.nuisances[0].name == "jet_energy_scale"
    plain = examine(run, observed, configuration=NONE)
    assert plain.nuisances == ()
    assert plain.compatibility is None
    assert all(test.delta == 0.0 and test.t == test.tau for test in plain.tests)
    assert all(test.nu_with_h == () for test in plain.tests)
    assert len({f.name for f in (quadratic, plain)}) == 2


def test_a_surprising_yield_is_said(run, observed):
    found = examine(run, observed, expected=2000.0)
    assert any("210 events are observed where 2000 are expected" in line for line in found.warnings)
    assert any("nulls were made for 200 expected events" in line for line in found.warnings)
    assert yield_deviation(1300, 1000, None) == pytest.approx(300 / np.sqrt(1000))
    assert yield_deviation(1300, 1000, 0.1) == pytest.approx(300 / np.sqrt(1000 + 100**2))


def test_other_layouts_are_refused(run, tmp_path):
    layout = EventLayout((Collection("met", 1), Collection("photon", 2, ("pt", "eta", "phi"))))
    path = write_events(tmp_path / "photons.h5", random_events(50, 1, layout))
    with pytest.raises(LayoutError, match=r"photons\.h5: its events have 1 x met .* 2 x photon"):
        examine(run, path)


def test_a_file_without_selected_events_is_refused(run, tmp_path):
    events = random_events(50, seed=3)
    particles = events.particles.copy()
    particles[:, events.layout.slots("electron")] = 0
    particles[:, events.layout.slots("muon")] = 0
    path = write_events(tmp_path / "empty.h5", replace(events, particles=particles))
    with pytest.raises(TooFewEventsError, match=r"empty\.h5: none of its 50 events passes"):
        examine(run, path)


def test_events_of_the_run_itself_are_refused(run):
    with pytest.raises(FileFormatError, match="an event file of the run itself, of its sample 'background'"):
        examine(run, run / "events" / "background_0.h5")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"auxiliary": {"jes": 1.0}}, "has no nuisance 'jes' .*jet_energy_scale, normalisation"),
        ({"configuration": NONE, "auxiliary": {"jet_energy_scale": 1.0}}, "its nuisances: none"),
        ({"configuration": "covariant"}, "no configuration 'covariant' .*covariant, no nuisances"),
    ],
)
def test_unknown_names_are_named(run, observed, question, message):
    with pytest.raises(UnknownNameError, match=message):
        examine(run, observed, **question)


@pytest.mark.parametrize("expected", [0.0, -1.0, np.inf, np.nan])
def test_a_senseless_yield_is_refused(run, observed, expected):
    with pytest.raises(CovadError, match="expected yield must be a positive number"):
        examine(run, observed, expected=expected)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_senseless_auxiliary_value_is_refused(run, observed, value):
    with pytest.raises(CovadError, match="auxiliary value of 'jet_energy_scale' must be a number"):
        examine(run, observed, auxiliary={"jet_energy_scale": value})


@pytest.mark.parametrize(
    ("lost", "stage"),
    [
        ("models/covariant/fold_0/encoder.safetensors", "encoder"),
        ("models/covariant/fold_0/response_1.safetensors", "response"),
        ("pools/covariant_linear/manifest.json", "pools"),
        ("basis/covariant-profiled.json", "tune"),
        ("toys", "toys"),
    ],
)
def test_an_unfinished_run_names_the_stage(run, observed, tmp_path, lost, stage):
    copy = shutil.copytree(run, tmp_path / "copy")
    path = copy / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(UnfinishedRunError, match=f"the stage '{stage}'"):
        examine(copy, observed)


@pytest.mark.parametrize("content", [None, "[]", '{"centre": [0]}'], ids=["lost", "no object", "half"])
def test_a_damaged_scale_is_named(run, observed, tmp_path, content):
    copy = shutil.copytree(run, tmp_path / "copy")
    scale = copy / "pools" / "covariant_linear" / "scale.json"
    scale.unlink() if content is None else scale.write_text(content)
    with pytest.raises(CovadError, match=r"scale\.json: is not what|the stage 'pools' has not run yet"):
        examine(copy, observed)


def test_a_clip_that_is_not_tuned_yet_is_named(run, observed, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    content = json.loads((copy / "study.json").read_text())
    content["study"]["tests"]["network"]["clip"] = "tune"
    del content["seal"]
    write_sealed(copy / "study.json", content)
    with pytest.raises(UnfinishedRunError, match="the stage 'tune'"):
        examine(copy, observed)


def test_a_run_without_events_is_refused(tmp_path, observed):
    from covad.study import parse_study

    latent = parse_study({"seed": 1, "source": {"kind": "latent"}, "tests": {"convex": {"bumps": 5}}}, "here")
    claim(RunDirectory(tmp_path), latent, None)
    with pytest.raises(StudyError, match="a source of kind 'events'"):
        examine(tmp_path, observed)
