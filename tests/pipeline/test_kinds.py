"""Every kind of systematic, from the study file to the stage `events`: before anything is trained."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from finished_run import TINY, here

from covad.errors import CovadError
from covad.events.files import EventWriter
from covad.events.layout import Events, concatenate
from covad.events.processes import BACKGROUND
from covad.events.systematics import JetEnergyScale
from covad.inference.prior_average import PriorAverage
from covad.pipeline import run_study
from covad.pipeline.response import grid_of, mixed_terms
from covad.pipeline.trial import check_collisions, try_events
from covad.runs.collisions import ALTERNATIVE_ROLES, CollisionData
from covad.runs.directory import RunDirectory
from covad.simulation.simulate import Simulation
from covad.study import parse_study

N = {"w": 9000, "ttbar": 3000}
KINDS = [
    {"name": "jet_energy_scale"},
    {"name": "jes", "kind": "varied", "up": "jesUp", "down": "jesDown"},
    {"name": "pileup", "kind": "weights", "up": "puUp", "down": "puDown"},
    {"name": "rate", "kind": "normalisation", "uncertainty": 0.3, "only": ["ttbar"]},
    {"name": "lumi", "kind": "normalisation", "uncertainty": 0.02},
]


def half_nan(events, amount):
    """A ratio that is no number for the one event that the test marked."""
    return np.where(events.particles[:, 0, 0] > 1e6, np.nan, np.exp(amount))


def weigh(events, amount):
    return np.exp(0.1 * amount * events.present("jet").sum(axis=1))


def other_each_time(events, amount):
    return np.random.default_rng().uniform(0.9, 1.1, len(events))


def own(name):
    return {"name": name, "kind": "weights", "function": f"{Path(__file__).stem}:{name}"}


def sample(process, n_events, seed, name=None):
    events = concatenate(list(Simulation(process, n_events, seed).blocks()))
    labels = np.zeros(n_events, dtype=np.int16)
    return replace(events, process=labels, process_names=(name or process,), weights=np.full(n_events, 0.5))


def with_columns(events: Events) -> Events:
    ratio = np.exp(0.05 * events.present("jet").sum(axis=1))
    scale = JetEnergyScale(sigma=0.05)
    return replace(
        events,
        variations={"puUp": ratio * events.event_weights, "puDown": events.event_weights / ratio},
        varied={
            f"jes{side}": scale.shift(events, nu).events.particles for side, nu in (("Up", 1), ("Down", -1))
        },
    )


def write(path: Path, events: Events, sums=None) -> str:
    columns = {"variations": tuple(events.variations), "varied": tuple(events.varied), "sum_of_weights": sums}
    with EventWriter(path, events.layout, events.process_names, weighted=True, **columns) as writer:
        writer.append(events, dict(events.varied))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Background of two processes with columns, another generator of ttbar, and files that lack something."""
    folder = tmp_path_factory.mktemp("kinds")
    events = {name: with_columns(sample(name, n, seed)) for seed, (name, n) in enumerate(N.items())}
    found = {name: write(folder / f"{name}.h5", each) for name, each in events.items()}
    bare = replace(events["ttbar"], variations={}, varied={})
    found["bare"] = write(folder / "bare.h5", bare)
    found["model"] = write(folder / "model.h5", with_columns(sample("ttbar", 800, 7)), {"ttbar": 4000.0})
    found["down"] = write(folder / "down.h5", with_columns(sample("ttbar", 700, 8)))
    found["other"] = write(folder / "other.h5", sample("qcd", 300, 9))
    mixed = [with_columns(sample("ttbar", 200, 11)), with_columns(sample("w", 100, 12))]
    found["mixed"] = write(folder / "mixed.h5", concatenate(mixed))
    marked = events["w"].particles.copy()
    marked[8_999, 0, 0] = 2e6
    found["marked"] = write(folder / "marked.h5", replace(events["w"], particles=marked))
    zero = {name: column.copy() for name, column in events["w"].variations.items()}
    zero["puDown"][8_999] = 0.0
    found["zero"] = write(folder / "zero.h5", replace(events["w"], variations=zero))
    strange = {name: objects.copy() for name, objects in events["w"].varied.items()}
    strange["jesUp"][:, events["w"].layout.slots("jet").start, 1] += 0.1
    found["strange"] = write(folder / "strange.h5", replace(events["w"], varied=strange))
    return found


def samples(up, down=None, process="ttbar"):
    sides = {"up": {"files": [up]}} | ({} if down is None else {"down": {"files": [down]}})
    return {"name": "model", "kind": "samples", "process": process, **sides}


def kinds_study(given, systematics, **changes):
    entry = ({"files": given} if given else {}) | changes.pop("background", {})
    source = TINY["source"] | {"background": entry, "systematics": systematics}
    source |= {"splits": TINY["source"]["splits"] | {"encoder": 4000}, "folder": str(Path(__file__).parent)}
    study = TINY | {"source": source | changes.pop("source", {}), "nu": [0], "sizes": {"reference": 800}}
    study["sizes"] |= {"expected": 150}
    return parse_study(study | {"tests": {"convex": {"bumps": 5}}} | changes, "here")


def tried(study, folder):
    data = CollisionData.of(study, RunDirectory(folder))
    check_collisions(data)
    try_events(data)


@pytest.mark.parametrize(
    ("background", "entry", "message"),
    [
        (
            ("w", "ttbar"),
            KINDS[3] | {"only": ["tt"]},
            r"systematics\.0\.only: there is no process 'tt' \(there are w",
        ),
        (
            ("w", "ttbar"),
            KINDS[2] | {"up": "pu"},
            r"no file has the weights 'pu' .*\(they have puUp, ",
        ),
        (("w", "ttbar"), KINDS[1] | {"up": "je"}, "no file has the varied objects 'je'"),
        (("w", "bare"), KINDS[2], r"bare\.h5: has no weights 'puUp', .* events of ttbar: write them"),
        (("w", "bare"), KINDS[1], r"bare\.h5: has no varied objects 'jesUp', .* events of ttbar: write them"),
        (
            ("ttbar", "zero"),
            KINDS[2],
            r"'background': systematic 'pileup': .* must be positive; in event 11999$",
        ),
        (("strange", "ttbar"), KINDS[1], "'background': systematic 'jes': objects of jet cannot be matched"),
        (("ttbar", "marked"), own("half_nan"), r"'half_nan': the weight ratio is nan .* in event 11999$"),
        (("w", "ttbar"), own("other_each_time"), "must give the same answer whenever it is asked"),
        (("w", "ttbar"), samples("other"), r"other\.h5: .* takes its events for 'ttbar', but it has qcd"),
        (("w", "ttbar"), samples("model", process="z"), r"systematics\.0\.process: there is no process 'z'"),
        (
            ("w", "ttbar"),
            samples("mixed"),
            r"'model-ttbar-up': .* but of another process is event 200$",
        ),
        (("w", "ttbar"), samples("ttbar"), r"ttbar\.h5: is listed twice"),
        (("w", "ttbar"), samples("none"), r"none: cannot be read"),
        (("w", "ttbar"), KINDS[3] | {"uncertainty": 1e-17}, "'rate' changes none of 4000 background events"),
    ],
)
def test_what_is_wrong_is_said_before_any_work_starts(files, tmp_path, background, entry, message):
    if entry.get("kind") == "samples":
        file = entry["up"]["files"][0]
        entry = entry | {"up": {"files": [files.get(file, file)]}}
    study = kinds_study([files[name] for name in background], [entry])
    with pytest.raises(CovadError, match=message) as failure:
        tried(study, tmp_path)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("background", "entry", "message"),
    [
        ("zero", KINDS[2], r"'background': systematic 'pileup': .* must be positive; in event 8999$"),
        ("marked", own("half_nan"), r"'half_nan': the weight ratio is nan .* in event 8999$"),
    ],
)
def test_one_bad_event_among_all_is_found_before_the_training(files, tmp_path, background, entry, message):
    """The trial has not seen it, and no toy is drawn away from nu = 0."""
    study = kinds_study([files[background], files["ttbar"]], [entry])
    tried(study, tmp_path)
    with pytest.raises(CovadError, match=message):
        run_study(study, tmp_path / "run", here, until="events", workers=1)


def test_correlated_signs_alone_are_no_prior(files, tmp_path):
    """Every point of the prior is thrown as often as the others."""
    given, other = [files["w"], files["ttbar"]], samples(files["down"]) | {"name": "other"}
    correlated = {"correlations": [{"between": ["model", "other"], "value": 0.5}]}
    entries = [samples(files["model"]), other]
    with pytest.raises(CovadError, match=r"source\.correlations: all systematics are separate samples"):
        tried(kinds_study(given, entries, source=correlated, prior=True), tmp_path)
    tried(kinds_study(given, entries, source=correlated), tmp_path)
    tried(kinds_study(given, [KINDS[3], *entries], source=correlated, prior=True), tmp_path)


def test_simulated_events_have_no_columns(tmp_path):
    study = kinds_study([], [KINDS[2]], background={"simulate": 12_000})
    with pytest.raises(CovadError, match="weights 'puUp', which the simulated events of 'background' do not"):
        tried(study, tmp_path)


def test_a_process_that_is_trained_as_another_is_named(files, tmp_path):
    processes = {"w": {"yield": 100}, "ttbar": {"yield": 50, "label": "w"}}
    study = kinds_study([files["w"], files["ttbar"]], [KINDS[3]], background={"processes": processes})
    with pytest.raises(CovadError, match=r"no process 'ttbar' \(there are w, and ttbar is trained as w\)"):
        tried(study, tmp_path)


def test_one_of_many_that_does_nothing_is_told_by_name(files, tmp_path, caplog):
    idle = {"name": "idle", "kind": "normalisation", "uncertainty": 1e-17}
    also = {"name": "jet_energy_scale", "kind": "normalisation", "uncertainty": 1e-17}
    study = kinds_study([files["w"], files["ttbar"]], [*KINDS, idle, also])
    tried(study, tmp_path)
    told = [record.message for record in caplog.records]
    assert [line for line in told if "'idle' changes none of 4000 background events" in line]
    assert [line for line in told if "entry 2 of 'jet_energy_scale' changes none" in line]
    assert not [line for line in told if "'rate'" in line or "'lumi'" in line]


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    """The stage `events` with a study of all kinds."""
    out = tmp_path_factory.mktemp("run") / "run"
    entries = [*KINDS, own("weigh"), samples(files["model"], files["down"])]
    points = [0, {"model": 1}, {"model": -1, "jes": 1}, {"rate": 1, "pileup": -1}]
    study = kinds_study([files["w"], files["ttbar"]], entries, nu=points)
    run_study(study, out, here, until="events", workers=1)
    return CollisionData.of_run(study, RunDirectory(out))


def test_separate_samples_are_samples_of_their_own(run):
    notes = json.loads((run.directory.path / "events.json").read_text())
    names = ["model-ttbar-up", "model-ttbar-down"]
    assert set(names) <= set(run.directory.read("events.json"))
    assert notes
    for name in names:
        assert run.products.fingerprints(name).whole()
    assert run.products.separate() in run.products.of_stage("events", {})


def test_roles_share_no_event_of_a_separate_sample(run):
    rows = run.alternative_rows(800)
    splits = {role: getattr(run.source.splits, role) for role in ALTERNATIVE_ROLES}
    for role, mine in rows.items():
        assert abs(len(mine) - 800 * splits[role] / sum(splits.values())) < 1
    assert len(np.unique(np.concatenate(list(rows.values())))) == sum(map(len, rows.values()))


@pytest.mark.parametrize(("role", "parts"), [("response", 1), ("check", 1), ("data", 3)])
def test_separate_samples_have_the_yield_of_their_process(run, role, parts):
    """All parts of a role together; the weights of all events are alike, so that only counts fluctuate."""
    with run.open(BACKGROUND) as files:
        nominal = files.read(run.rows[role])
        everything = np.concatenate([events.process for events in files.chunks()])
    share = len(run.rows[role]) / len(everything)
    found = {0: 0.0, 1: 0.0}
    for part in range(parts):
        for number, other in enumerate(run.alternatives(role, part, parts)):
            assert other.nuisance == 6
            found[number] += sum(float(events.event_weights.sum()) for events in other.pieces())
    for number, line in enumerate(run.separate.samples):
        passing = line.total / (0.5 * line.events)
        assert found[number] * passing == pytest.approx(share * line.nominal, rel=1e-6)
    assert set(nominal.variations) == {"puUp", "puDown"}
    assert set(nominal.varied) == {"jesUp", "jesDown"}


def test_selected_events_are_counted_with_separate_samples(run):
    counts = {
        tuple(count["nu"]): count
        for count in json.loads((run.directory.path / "selected.json").read_text())["counts"]
        if count["role"] == "data"
    }
    nominal, up = (counts[nu] for nu in run.study.points[:2])
    totals = [count["weights"]["total"] for count in (nominal, up)]
    # the sample has the yield of ttbar; a third of the events fluctuate as their few hundred do
    assert totals[1] == pytest.approx(totals[0], rel=0.1)
    assert up["events"] < nominal["events"]


def test_a_cross_section_is_that_of_the_process(files, tmp_path):
    processes = {"w": {"yield": 100}, "ttbar": {"cross_section": 2.0, "sum_of_weights": 6000}}
    study = kinds_study(
        [files["w"], files["ttbar"]],
        [KINDS[0], samples(files["model"], files["down"])],
        background={"processes": processes},
        source={"luminosity": 100.0},
        sizes={"reference": 800},
    )
    run_study(study, tmp_path / "run", here, until="events", workers=1)
    data = CollisionData.of(study, RunDirectory(tmp_path / "run"))
    up, down = data.separate.samples
    assert (up.by_cross_section, down.by_cross_section) == (True, False)
    assert up.scale == pytest.approx(100.0 * 2.0 / 4000.0)
    assert down.yield_ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("others", "scale"), [({"cross_section": 3.0, "sum_of_weights": 6000}, 5.0), ({"yield": 150}, None)]
)
def test_a_cross_section_is_that_of_all_that_is_trained_as_the_process(files, tmp_path, others, scale):
    """The sample takes the place of w as well, which is trained as ttbar; a yield is no cross section."""
    processes = {
        "w": others | {"label": "ttbar"},
        "ttbar": {"cross_section": 2.0, "sum_of_weights": 6000},
        "qcd": {"yield": 3},
    }
    study = kinds_study(
        [files["w"], files["ttbar"], files["other"]],
        [KINDS[0], samples(files["model"], files["down"])],
        background={"processes": processes},
        source={"luminosity": 100.0},
        sizes={"reference": 800},
    )
    run_study(study, tmp_path / "run", here, until="events", workers=1)
    up, _ = CollisionData.of(study, RunDirectory(tmp_path / "run")).separate.samples
    assert up.by_cross_section == (scale is not None)
    expected = up.nominal / up.total if scale is None else 100.0 * scale / 4000.0
    assert up.scale == pytest.approx(expected)


def test_two_nuisances_of_which_one_has_one_side_have_no_mixed_term(files, tmp_path):
    entries = [KINDS[0], samples(files["model"])]
    data = CollisionData.of(kinds_study([files["w"], files["ttbar"]], entries), RunDirectory(tmp_path))
    assert mixed_terms(data) == ()
    grid = grid_of(data)
    assert grid == [(1.0, 0.0), (-1.0, 0.0), (2.0, 0.0), (-2.0, 0.0), (0.0, 1.0)]
    assert PriorAverage.over(grid).weights.sum() == pytest.approx(1.5)


def test_separate_samples_take_no_place_of_a_signal(files, tmp_path):
    """The signal has events that are called as the process of the sample is."""
    study = kinds_study(
        [files["w"], files["ttbar"]],
        [KINDS[0], samples(files["model"])],
        nu=[0, {"model": 1}, {"model": -1}],
        source={"signals": {"x": {"files": [files["mixed"]]}}},
        signals={"x": [20]},
    )
    run_study(study, tmp_path / "run", here, until="events", workers=1)
    counts = json.loads((tmp_path / "run" / "selected.json").read_text())["counts"]
    assert (
        len({(count["events"], count["weights"]["total"]) for count in counts if count["role"] == "x"}) == 1
    )
