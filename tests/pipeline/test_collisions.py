"""A study from collisions, small but whole: every stage, left and taken up again."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from finished_run import one_by_one

from covad.errors import CovadError, PlanError, StudyError
from covad.events.files import EventWriter, open_events
from covad.pipeline import checks, dry_run, encoder, events, response, run_study
from covad.pipeline import pools as pools_stage
from covad.pipeline.trial import check_collisions, try_events
from covad.response.grid import response_grid
from covad.results import collect, summarise
from covad.runs.checks import read_checks
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.products import RECIPES
from covad.runs.scale import Standardisation
from covad.runs.sources import open_sources
from covad.runs.status import learning_progress
from covad.study import parse_study, read_study
from covad.toys.ensembles import Shard
from covad.toys.pool_files import open_pools, pools_digest
from covad.toys.toy import run_block

STUDY = {
    "seed": 2,
    "source": {
        "kind": "events",
        "background": {"simulate": 25_000},
        "signals": {"a4l": {"simulate": 500}},
        "systematics": [{"name": "jet_energy_scale", "sigma": 0.025}],
        "splits": {
            "encoder": 6000,
            "response": 6000,
            "check": 4000,
            "basis": 1000,
            "reference": 4000,
            "data": 4000,
        },
        "spaces": {"contrastive": {"alpha": 0}, "covariant": {"alpha": 30}},
        "encoder": {"width": 8, "layers": 1, "heads": 2, "feed_forward": 8, "outputs": 2, "projector": 8},
        "training": {"steps": 6, "batch": 64, "validate_every": 3, "validation_batches": 1, "warm_up": 1},
        "response": {"epochs": 1, "hidden": [8], "batch": 1024},
    },
    "sizes": {"expected": 200, "reference": 800},
    "tests": {"convex": {"bumps": 6}},
    "configurations": [
        {"space": "contrastive", "treatment": "none"},
        {"space": "covariant", "order": 2},
    ],
    "nu": [0, 1],
    "nu_norm": [],
    "prior": False,
    "signals": {"a4l": [30]},
    "toys": 10,
}


def still(events, amount):
    return events


def broken(events, amount):
    raise ValueError("out of order")


def leaving(events, amount):
    sys.exit(0)


def in_place(events, amount):
    events.particles[:, 0, 0] *= 1 + amount
    return events


def jumping(events, amount):
    particles = events.particles.copy()
    particles[:, 0, 0] *= np.float32(1 + 0.1 * np.sign(amount))
    return events.with_particles(particles)


def losing_a_number(events, amount):
    """Makes NaN of the one event that the test marked."""
    particles = events.particles.copy()
    particles[:, 0, 0] *= np.float32(1 + 0.01 * amount)
    particles[particles[:, 0, 0] > 1e6] = np.nan
    return events.with_particles(particles)


def user_systematic(name):
    return {
        "systematics": [{"name": name, "function": f"{Path(__file__).stem}:{name}", "sigma": 1}],
        "folder": str(Path(__file__).parent),
    }


def here(blocks):
    for block in blocks:
        yield block, run_block(block)


def study(**changes):
    return parse_study(STUDY | {"source": STUDY["source"] | changes}, "here")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    assert run_study(study(), path, here, workers=2).computed == 70
    return path


def stamps(path):
    return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}


def test_a_finished_run_has_nothing_left_to_do(run):
    before = stamps(run)
    assert run_study(study(), run, here, workers=2).computed == 0
    assert stamps(run) == before


def test_a_run_copied_elsewhere_goes_on(run, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "toys")
    shutil.rmtree(copy / "checks")
    assert run_study(study(), copy, here, workers=2).computed == 70
    assert _results(copy) == _results(run)


def _results(path):
    found = summarise(collect(path))
    ensembles = [replace(line, seconds_per_toy=None) for line in found.ensembles]
    return ensembles, found.spaces, found.closure, found.significance


def test_the_expected_events_are_shared_among_the_processes_that_pass_the_cuts(run):
    found = summarise(collect(run))
    counted = json.loads((run / "selected.json").read_text())["processes"]
    assert {line.process: line.events for line in found.processes} == counted
    assert [line.process for line in found.processes][:2] == ["w", "qcd"]
    expected = [found.study.sizes.expected * n / sum(counted.values()) for n in counted.values()]
    assert sorted(line.expected for line in found.processes) == sorted(expected)


def test_a_run_whose_processes_were_not_counted_has_none(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "made" / "selected.json.json").unlink()
    assert summarise(collect(copy)).processes == ()


def test_a_changed_study_keeps_the_models_and_the_events_of_the_pools(run, tmp_path, monkeypatch):
    copy = shutil.copytree(run, tmp_path / "copy")
    before, pools = stamps(copy), "pools/covariant_quadratic"
    old = open_pools(copy / pools, pools_digest(copy / pools))
    changed = parse_study(STUDY | {"nu": [0, -1, 1], "sizes": {"expected": 350, "reference": 800}}, "here")
    lines = dry_run(changed, copy)
    assert stamps(copy) == before
    assert [line.partition(" (")[0] for line in lines[1:-1]] == [
        "events: 2 samples kept, those that pass the cuts are counted",
        "spaces: 2 kept",
        "response: 2 kept",
        "checks: 2 made anew",
        "pools: 2 made anew",
        "tune: 2 made anew",
    ]
    for module in (events, encoder, response, pools_stage, checks):
        monkeypatch.setattr(module, "run_jobs", one_by_one)
    run_study(changed, copy, here, until="tune", workers=2)
    after = stamps(copy)
    models = [file for file in before if file.is_relative_to(copy / "models") or file.suffix == ".h5"]
    assert len(models) > 5
    assert {file: after[file] for file in models} == {file: before[file] for file in models}
    new = open_pools(copy / pools, pools_digest(copy / pools))
    for nu in old.data:
        np.testing.assert_array_equal(new.data[nu].sample.z, old.data[nu].sample.z)
    aside = {
        file.relative_to(copy / "aside").parts[1] for file in (copy / "aside").rglob("*") if file.is_file()
    }
    assert aside == {"selected.json", "pools", "checks", "basis", "made"}


def test_no_event_has_two_roles(run):
    data = CollisionData.of(study(), RunDirectory(run))
    rows = np.concatenate(list(data.rows.values()))
    assert len(np.unique(rows)) == len(rows) == 25_000
    folded = CollisionData.of(study(folds=3), RunDirectory(run))
    folds = folded.encoder_folds()
    assert sorted(np.concatenate(folds)) == sorted(data.rows["encoder"])


def test_every_fold_is_trained_and_checked_and_toys_use_one(run, tmp_path):
    files = {
        name: {"files": [str(f) for f in sorted((run / "events").glob(f"{name}_*"))]}
        for name in ("background", "a4l")
    }
    changes = {"folds": 2, "fold": 1, "background": files["background"], "signals": {"a4l": files["a4l"]}}
    changes["spaces"] = {"covariant": {"alpha": 30}}
    content = STUDY | {"source": STUDY["source"] | changes, "configurations": STUDY["configurations"][1:]}
    folded = parse_study(content, "here")
    run_study(folded, tmp_path, here, until="checks", workers=2)
    space = summarise(collect(tmp_path)).spaces[0]
    assert [line.fold for line in space.folds] == [0, 1]
    assert space.folds[1].reach == space.reach
    assert space.folds[0].reach != space.reach
    assert done_of(tmp_path, "checks") == 2


def done_of(path, stage):
    progress = learning_progress(RunDirectory(path).study(), RunDirectory(path))
    return next(found.done for found in progress if found.stage == stage)


def test_pools_are_standardised_on_the_reference(run):
    sources = open_sources(study(), RunDirectory(run))
    assert set(sources) == {("contrastive", 1), ("covariant", 2)}
    for (_, order), source in sources.items():
        pools = open_pools(source.directory, source.digest)
        np.testing.assert_allclose(pools.reference.sample.z.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(pools.reference.sample.z.std(axis=0), 1, atol=1e-4)
        assert (pools.reference.sample.response.quadratic is None) == (order == 1)
        assert set(pools.data) == {(0.0,), (1.0,)} == set(pools.signals["a4l"])
        assert len(pools.basis) == 1000


def test_the_checks_hold_reach_and_validation(run):
    for name in ("contrastive_linear", "covariant_quadratic"):
        found = json.loads((run / "checks" / f"{name}.json").read_text())
        assert [line["nu"] for line in found["reach"]["points"]] == [[1.0], [-1.0], [2.0], [-2.0]]
        assert found["reach"]["average"]["interval"]["low"] > 0
        assert [line["nu"] for line in found["yields"]] == [[1.0], [-1.0], [2.0], [-2.0]]
        assert all(line["observed"] == 1.0 for line in found["yields"])  # no lepton is shifted
        assert {line["where"] for line in found["comparisons"]} == {"z0", "z1", "cells"}
        for line in found["comparisons"]:
            assert sum(line["observed"]) == pytest.approx(sum(line["predicted"]))


def test_a_stage_that_makes_another_thing_by_now_leaves_what_it_is_made_from(run, monkeypatch):
    monkeypatch.setitem(RECIPES, "response", RECIPES["response"] + 1)
    lines = dry_run(study(), run)
    assert lines[1] == "spaces: 2 kept"
    assert lines[2] == "response: 2 made anew (this version of covad makes them in another way)"
    assert lines[4].startswith("pools: 2 made anew")


def test_models_know_what_they_were_trained_on(run):
    from covad.storage.tensors import load_weights

    data = CollisionData.of(study(), RunDirectory(run))
    for name, kind in (("encoder", "encoder"), ("response_2", "response")):
        _, settings = load_weights(run / "models" / "covariant" / "fold_0" / f"{name}.safetensors", kind)
        assert settings["trained_on"]["systematics"] == [{"name": "jet_energy_scale", "sigma": 0.025}]
        assert 0 < settings["trained_on"]["n_events"] <= len(data.rows["encoder"])


def test_until_stops_after_its_stage(tmp_path):
    assert run_study(study(), tmp_path, here, until="events", workers=2) is None
    assert {path.name for path in tmp_path.iterdir()} >= {"events", "events.json", "study.json"}
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"systematics": [{"name": "jet_energy_scal"}]}, "unknown systematic 'jet_energy_scal'"),
        ({"systematics": [{"name": "x", "function": "no_module:f", "sigma": 1}]}, "'no_module' cannot be"),
        ({"background": {"files": ["none.h5"]}}, r"none\.h5: cannot be read"),
        ({"signals": {"a4l": {"files": ["none.h5"]}}}, r"none\.h5: cannot be read"),
        (
            {"systematics": [{"name": "lepton_energy_scale"}]},
            "'background': the sample holds only",
        ),
        ({"cuts": {"object_minimum": {"photon": 10}}}, "'background': .*photon"),
        ({"cuts": {"trigger_minimum": 1e6}}, r"'background': none of 4000 events passes source\.cuts"),
        (user_systematic("still"), "'still' changes none of 4000 background events"),
        (
            user_systematic("broken"),
            r"'background': systematic 'broken' ended in ValueError: out of order \(.*, line \d+\)",
        ),
        (user_systematic("leaving"), r"'background': systematic 'leaving' ended in SystemExit: 0 \(.*line"),
        (user_systematic("in_place"), r"'background': systematic 'in_place' changes the events that it was"),
        (user_systematic("jumping"), "'background': systematic 'jumping' must change ever less"),
    ],
)
def test_what_is_wrong_is_said_before_any_work_starts(tmp_path, changes, message):
    out = tmp_path / "run"
    with pytest.raises(CovadError, match=message):
        run_study(study(**changes), out, here, workers=1)
    assert not out.exists()


def test_a_file_with_too_few_events_is_named(run, tmp_path):
    file = str(run / "events" / "a4l_0.h5")
    with pytest.raises(CovadError, match=r"a4l_0\.h5: source.background has 500 events, but the splits ask"):
        check_collisions(CollisionData.of(study(background={"files": [file]}), RunDirectory(tmp_path)))


def test_a_bad_event_is_named_by_its_number_in_the_sample(run, tmp_path):
    path = tmp_path / "marked.h5"
    with open_events(run / "events" / "background_0.h5") as source:
        events = source.read()
        events.particles[24_999, 0, 0] = 2e6
        with EventWriter(path, source.layout, source.process_names) as writer:
            writer.append(events)
    mine = study(background={"files": [str(path)]}, **user_systematic("losing_a_number"))
    with pytest.raises(StudyError, match=r"'background': .*pt of met is not finite .* in event 24999$"):
        run_study(mine, tmp_path / "run", here, workers=1)


def lepton_study(**source):
    """A scale of 2 % changes who passes the lepton trigger, and with it a yield that is known."""
    scale = {
        "systematics": [{"name": "lepton_energy_scale", "sigma": 0.02}],
        "background": {"simulate": 70_000, "lepton_filter": 20.0},
        "spaces": {"contrastive": {"alpha": 0}},
    }
    content = {
        "source": STUDY["source"] | scale | source,
        "configurations": [{"space": "contrastive", "order": order} for order in (1, 2)],
        "normalisation": None,
        "signals": {},
    }
    return parse_study(STUDY | content, "here")


def test_a_shift_of_a_known_yield_is_not_refused(tmp_path):
    try_events(CollisionData.of(lepton_study(), RunDirectory(tmp_path)))


@pytest.mark.slow
def test_the_response_has_the_yield(tmp_path, monkeypatch):
    """Also that of fresh events; what is left of it is told as a shift of t."""
    mine = lepton_study(
        splits=STUDY["source"]["splits"] | {"encoder": 12_000, "response": 24_000, "check": 16_000},
        training=STUDY["source"]["training"] | {"steps": 60},
        response={"epochs": 8, "hidden": [32, 32], "batch": 1024},
    )
    for module in (events, encoder, response, pools_stage, checks):
        monkeypatch.setattr(module, "run_jobs", one_by_one)
    run_study(mine, tmp_path, here, until="checks", workers=1)
    data = CollisionData.of(mine, RunDirectory(tmp_path))
    for space in mine.spaces:
        yields = {at.nu[0]: at for at in read_checks(data.products.checks(space, 0)).yields}
        assert list(yields) == [1.0, -1.0, 2.0, -2.0]
        for nu, at in yields.items():
            assert np.sign(at.observed - 1.0) == np.sign(nu)
            # half of the change; without its yield the response would miss all of it
            assert abs(at.observed - at.predicted) < 0.5 * abs(at.observed - 1.0)
            assert at.low <= at.high
            assert at.shift <= at.high


def test_jets_that_the_sample_lacks_below_the_cut_are_told(tmp_path, caplog):
    """Jets are stored from 15 GeV on and cut at 23: e^{0.2 nu} is more from 2.1 sigma on, of three."""
    dry_run(study(), tmp_path)
    assert "source.cuts" not in caplog.text
    dry_run(study(systematics=[{"name": "jet_energy_scale", "sigma": 0.2}]), tmp_path)
    assert "source.cuts: 'jet_energy_scale' scales jet, which the sample holds from 15" in caplog.text


def test_a_filter_too_tight_for_two_sigma_is_refused_at_once(tmp_path):
    """Toys are drawn to one sigma, but the response learns from two: 22.7 e^{0.02} is more than 23."""
    tight = {"simulate": 25_000, "lepton_filter": 22.7}
    with pytest.raises(StudyError, match=r"sample 'background': .* lepton above 22\.7 GeV.* below 22\.5"):
        dry_run(study(systematics=[{"name": "lepton_energy_scale"}], background=tight), tmp_path)


def test_shards_wait_for_the_learning(tmp_path):
    with pytest.raises(PlanError, match="--until tune"):
        run_study(study(), tmp_path / "run", here, Shard(1, 2), workers=1)
    assert not (tmp_path / "run").exists()


def test_an_edited_systematic_makes_another_study(tmp_path):
    module = tmp_path / "covad_test_edited.py"
    lines = [
        "p = events.particles.copy()",
        "p[:, 0, 0] *= 1 + 0.01 * amount",
        "return events.with_particles(p)",
    ]
    module.write_text("\n    ".join(["def f(events, amount):", *lines]) + "\n")
    mine = study(
        systematics=[{"name": "mine", "function": "covad_test_edited:f", "sigma": 1}], folder=str(tmp_path)
    )
    run_study(mine, tmp_path / "run", here, until="events", workers=2)
    module.write_text(module.read_text() + "# edited\n")
    with pytest.raises(StudyError, match="the events or the systematics of the source"):
        run_study(mine, tmp_path / "run", here, until="events", workers=2)


def test_a_file_may_be_sorted_by_process(run, tmp_path):
    path = tmp_path / "sorted.h5"
    with open_events(run / "events" / "background_0.h5") as source:
        events = source.read()
        with EventWriter(path, source.layout, source.process_names) as writer:
            writer.append(events[np.argsort(events.process, kind="stable")])
    run_study(study(background={"files": [str(path)]}), tmp_path / "run", here, until="checks", workers=2)
    spaces = (summarise(collect(where)).spaces for where in (run, tmp_path / "run"))
    shuffled, in_order = ([space.probe.accuracy for space in found] for found in spaces)
    # judged on 2000 events each: 5 standard errors of the difference of two accuracies around 0.7
    assert in_order == pytest.approx(shuffled, abs=5 * np.sqrt(2 * 0.21 / 2000))


def test_files_are_as_good_as_simulation(run, tmp_path):
    source = STUDY["source"] | {
        "background": {"files": ["background_0.h5"]},
        "signals": {"a4l": {"files": ["a4l_0.h5"]}},
    }
    path = run / "events" / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"source": source}))
    assert run_study(read_study(path), tmp_path, here, workers=2).computed == 70
    assert _results(tmp_path) == _results(run)
    path.unlink()


def test_the_grid_of_the_response_has_axes_and_corners():
    assert response_grid(1) == [(1.0,), (-1.0,), (2.0,), (-2.0,)]
    assert len(response_grid(2)) == 8 + 4
    assert (1.0, -1.0) in response_grid(2)


def test_a_standardisation_survives_its_file():
    z = np.random.default_rng(1).normal(3.0, 2.0, (1000, 2)).astype(np.float32)
    scale = Standardisation.of(z)
    again = Standardisation.restore(json.loads(json.dumps(scale.plain())))
    assert np.array_equal(scale(z), again(z))
