"""Too few events after the cuts are said before the training, by an estimate and then by a count."""

import json
import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from finished_run import TINY, make_run, tiny_study

from covad.errors import CovadError, TooFewEventsError
from covad.events.systematics import shift_events
from covad.pipeline.sizes import Efficiencies, check_needs, needs
from covad.pipeline.trial import try_events
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.selected import CountAt, SelectedEvents

SIGNAL = {"signals": {"a4l": {"simulate": 200}}}


def collisions(path, source=None, **changes):
    return CollisionData.of(tiny_study(source=TINY["source"] | (source or {}), **changes), RunDirectory(path))


def efficiencies(data, share, tried=4000, **samples):
    """The same share of every sample passes at every nu, unless told."""
    passed = {
        name: {nu: round(tried * samples.get(name, share)) for nu in data.study.points}
        for name in data.samples
    }
    return Efficiencies(data, passed, dict.fromkeys(data.samples, tried))


def test_plenty_of_events_is_no_topic(tmp_path, caplog):
    data = collisions(tmp_path)
    check_needs(data, efficiencies(data, 1.0))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("changes", "share", "message"),
    [
        (
            {"sizes": {"expected": 1000, "reference": 1000}},
            0.5,
            (
                r"source.splits.data: of 2200 events about 1100 \+- 17 pass the cuts at nu = 0, but a toy "
                "takes up to 1190: raise it to 2400, or lower sizes.expected, or loosen source.cuts"
            ),
        ),
        (
            {"sizes": {"expected": 100, "reference": 2000}},
            0.5,
            "splits.reference: .* a toy takes 2000: raise it",
        ),
        (
            {"tests": {"convex": {"bumps": 250}}},
            0.5,
            "splits.basis: .* but the convex test takes 250: .*bumps",
        ),
        ({}, 0.25, "splits.response: of 1500 events .* the fit of the response takes 500"),
        ({}, 0.4, "splits.check: of 1000 events .* but the checks take 500"),
        (
            {
                "source": {"training": TINY["source"]["training"] | {"batch": 32}},
                "sizes": {"expected": 20, "reference": 90},
            },
            0.5,
            "training.batch: of 32 events 16.0 pass the cuts on .* takes 3[0-9]: raise it to [67]",
        ),
        (
            {"source": SIGNAL, "signals": {"a4l": [50, 150]}},
            1.0,
            r"signals.a4l: of 200 .* up to 224: give it more events, 230, or lower signals\.a4l",
        ),
    ],
)
def test_a_shortfall_that_is_certain_is_refused(tmp_path, changes, share, message):
    data = collisions(tmp_path, **changes)
    with pytest.raises(TooFewEventsError, match=message):
        check_needs(data, efficiencies(data, share))


def test_the_yield_ratio_counts(tmp_path):
    """A third more events are expected where a third more pass: the pool at that nu needs them."""
    data = collisions(tmp_path, sizes={"expected": 1000, "reference": 1000})
    passed = {"background": {(0.0,): 2400, (1.0,): 3200}}
    largest = {
        need.nu: need.events
        for need in needs(data, Efficiencies(data, passed, {"background": 4000}))
        if need.role == "data"
    }
    assert largest[(0.0,)] == pytest.approx(1000 + 6 * np.sqrt(1000))
    assert largest[(1.0,)] == pytest.approx(4000 / 3 + 6 * np.sqrt(4000 / 3))


@pytest.mark.parametrize(
    ("changes", "share", "takes"),
    [
        ({"nu_norm": [-3, 3]}, 0.6, 1571),
        ({"prior": True}, 0.7, 1724),
        ({"prior": True, "normalisation": None}, 0.5, 1190),
        ({"nu_norm": [3], "prior": True, "configurations": [{"treatment": "none"}]}, 0.5, 1190),
    ],
    ids=["three sigma_N", "four sigma_N of the prior", "a known yield", "no nuisances"],
)
def test_the_largest_true_yield_is_needed_of_the_data(tmp_path, changes, share, takes):
    """1000 e^{0.3} or 1000 e^{0.4} events, and six standard deviations; the nominal yield takes 1190."""
    sizes = {"sizes": {"expected": 1000, "reference": 1000}}
    data = collisions(tmp_path, **sizes, **changes)
    told = rf"source.splits.data: of 2200 .* at nu = 0, but a toy takes up to {takes}: raise it to"
    with pytest.raises(TooFewEventsError, match=told):
        check_needs(data, efficiencies(data, share))
    if takes > 1190:
        nominal = collisions(tmp_path, **sizes)
        check_needs(nominal, efficiencies(nominal, share))


def test_an_estimate_that_cannot_tell_is_a_warning_and_the_count_decides(tmp_path, caplog):
    data = collisions(tmp_path, sizes={"expected": 1000, "reference": 1000})
    check_needs(data, efficiencies(data, 0.53))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2  # check and data
    assert "perhaps too few events, which the stage 'events' will count: source.splits.data" in caplog.text
    roles = {"encoder": 4000, "response": 1500, "check": 1000, "basis": 300, "reference": 2000}
    counts = [CountAt(role, (0.0,), n) for role, n in roles.items()]
    counts += [CountAt("data", nu, 1189) for nu in data.study.points]
    exact = SelectedEvents(tuple(counts), {}, (), ())
    with pytest.raises(TooFewEventsError, match=r"of 2200 events 1189 pass the cuts at nu = 0, .* 1190"):
        check_needs(data, exact)
    enough = tuple(replace(count, events=1190) if count.role == "data" else count for count in counts)
    check_needs(data, replace(exact, counts=enough))


def test_the_trial_estimates_what_the_cuts_leave(tmp_path):
    source = {"cuts": {"trigger_minimum": 60.0}}
    with pytest.raises(TooFewEventsError, match=r"source.splits.\w+: of \d+ events about \d+ \+- \d+ pass"):
        try_events(collisions(tmp_path, source))


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    source = TINY["source"] | SIGNAL | {"cuts": {"trigger_minimum": 25.0}}
    return make_run(tmp_path_factory.mktemp("run"), until="events", source=source, signals={"a4l": [5]})


def test_the_stage_events_counts_what_passes(counted):
    found = json.loads((counted / "selected.json").read_text())
    data = CollisionData.of(RunDirectory(counted).study(), RunDirectory(counted))
    processes: Counter[str] = Counter()
    for role in data.rows:
        points = data.study.points if role == "data" else [(0.0,)]
        with data.open("background") as files:
            events = files.read(data.rows[role])
        for nu in points:
            n = len(shift_events(events, data.systematics, nu, data.selection).events)
            assert {"role": role, "nu": list(nu), "events": n} in found["counts"]
            assert n < len(events)
        nominal = shift_events(events, data.systematics, (0.0,), data.selection).events
        processes.update(nominal.process_names[code] for code in nominal.process)
    assert found["processes"] == processes  # after the cuts, not before them
    assert sum(found["training"][0].values()) + sum(found["validation"][0].values()) == 4500


def test_events_are_counted_once(counted):
    before = (counted / "selected.json").stat().st_mtime_ns
    source = TINY["source"] | SIGNAL | {"cuts": {"trigger_minimum": 25.0}}
    make_run(counted, until="events", source=source, signals={"a4l": [5]})
    assert (counted / "selected.json").stat().st_mtime_ns == before
    (counted / "selected.json").write_text("{}")
    make_run(counted, until="events", source=source, signals={"a4l": [5]})
    assert len(json.loads((counted / "selected.json").read_text())["counts"]) > 5


def test_a_rare_process_is_noticed_before_the_training(tmp_path):
    training = TINY["source"]["training"] | {"validation_share": 0.03}
    source = TINY["source"] | {"training": training}
    with pytest.raises(CovadError, match=r"source.splits.encoder: the process 'ttbar' has 1 of 135 events"):
        make_run(tmp_path, until="spaces", source=source)
    assert not (tmp_path / "models").exists()


def test_events_of_another_engine_refuse_no_sample(tmp_path, caplog):
    """The trial has parametric events only: those of Pythia take too long."""
    few = {"sizes": {"expected": 2150, "reference": 1000}}
    with pytest.raises(TooFewEventsError, match=r"source\.splits\.data"):
        try_events(collisions(tmp_path, **few))
    try_events(collisions(tmp_path, {"background": {"simulate": 12000, "engine": "pythia8"}}, **few))
    assert "perhaps too few events, by events of the parametric engine" in caplog.text


@pytest.mark.parametrize(("sigma", "warned"), [(0.025, False), (2.5, True)])
def test_a_sigma_in_per_cent_is_asked_about(tmp_path, caplog, sigma, warned):
    source = TINY["source"] | {"systematics": [{"name": "jet_energy_scale", "sigma": sigma}]}
    try_events(CollisionData.of(tiny_study(source=source), RunDirectory(tmp_path)))
    assert ("one sigma of 'jet_energy_scale' moves pt of jet" in caplog.text) == warned
