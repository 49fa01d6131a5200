"""Expected events that follow from processes: settled once, kept by the run, shown before any training."""

import json
import logging

import h5py
import pytest
from finished_run import TINY, here, make_run, tiny_study
from weighted_files import RAW, YIELDS, weighted_study, write_process, write_processes

from covad.errors import StudyError, TooFewEventsError
from covad.pipeline import dry_run, run_study
from covad.pipeline.sizes import Efficiencies, check_needs
from covad.pipeline.yields import doubts, settled
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.selected import CountAt, SelectedEvents, WeightedCountAt, WeightSums, read_selected
from covad.runs.yields import YieldTable
from covad.storage.records import plain, restore

KEYS = {name: {"yield": value} for name, value in YIELDS.items()}
TOTAL = sum(YIELDS.values())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_processes(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def run(tmp_path_factory, files):
    """A run of a study that leaves its expected events open, up to the counts."""
    path = tmp_path_factory.mktemp("run") / "run"
    run_study(weighted_study(files, KEYS), path, here, until="events", workers=1)
    return path


def collisions(path, files, processes=KEYS, **changes):
    return CollisionData.of(weighted_study(files, processes, **changes), RunDirectory(path))


def test_the_expected_events_follow_and_are_kept(run):
    assert RunDirectory(run).study().sizes.expected == TOTAL
    assert RunDirectory(run).study().sizes.reference == 1500
    table = restore(YieldTable, json.loads((run / "yields.json").read_text()), "here")
    assert {line.process: round(line.expected, 6) for line in table.processes} == YIELDS


def test_a_resumed_run_is_unchanged_and_reads_no_file_for_it(run, files, monkeypatch):
    before = (run / "study.json").read_bytes()
    monkeypatch.setattr("covad.runs.collisions._counted", {})
    monkeypatch.setattr("covad.runs.collisions.count_yields", lambda *_: pytest.fail("the files are read"))
    lines = dry_run(weighted_study(files, KEYS), run)
    assert lines[0] == "events: 1 samples kept"
    run_study(weighted_study(files, KEYS), run, here, until="events", workers=1)
    assert (run / "study.json").read_bytes() == before


def test_a_damaged_table_is_made_anew(run, files):
    content = (run / "yields.json").read_text()
    (run / "yields.json").write_text(content.replace("118.0", "119.0"))
    run_study(weighted_study(files, KEYS), run, here, until="events", workers=1)
    assert (run / "yields.json").read_text() == content


def test_the_dry_run_shows_the_table(tmp_path, files):
    lines = dry_run(weighted_study(files, KEYS), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    w = next(line.split() for line in lines if line.startswith("w "))
    assert w[:3] == ["w", str(RAW["w"]), str(RAW["w"])]
    assert w[6] == "118"
    assert lines[-1].split()[0] == "total"


def test_a_changed_cross_section_makes_everything_anew(run, files):
    """All recipes hold it: nothing that was learned with another mix is taken for current."""
    changed = weighted_study(files, KEYS | {"w": {"yield": 130.0}})
    lines = dry_run(changed, run)
    assert lines[0].startswith("the study has changed: ")
    assert "source.background.processes.w.yield was 118.0 and is now 130.0" in lines[0]
    assert "sizes.expected was 214.0 and is now 226.0" in lines[0]
    assert "the yields of their processes are counted, those that pass the cuts are counted" in lines[1]
    directory = RunDirectory(run)
    before, after = Products(directory.study(), directory), Products(settle(changed, run), directory)
    for part in ("selected", "yields"):
        assert getattr(before, part)().recipe != getattr(after, part)().recipe
    assert before.space("covariant", 0).recipe != after.space("covariant", 0).recipe


def settle(study, path):
    return settled(CollisionData.of(study, RunDirectory(path))).study


def test_recipes_of_studies_without_processes_are_what_they_were(tmp_path):
    """Names of the parts that every recipe had before there were weights: runs are kept."""
    make_run(tmp_path, until="events")
    directory = RunDirectory(tmp_path)
    products = Products(directory.study(), directory)
    common = {"recipes", "seed", "events", "splits", "systematics", "systematics_code", "cuts"}
    assert set(products.space("covariant", 0).recipe) == common | {
        "alpha", "encoder", "training", "folds", "fold"
    }  # fmt: skip
    assert not products.has_yields
    assert not (tmp_path / "yields.json").exists()
    assert "weighted" not in (tmp_path / "events.json").read_text()
    assert "weights" not in (tmp_path / "selected.json").read_text()


@pytest.mark.parametrize(
    ("expected", "agrees"), [(171.5, True), (171.0, False), (256.5, True), (257.0, False)]
)
def test_given_events_agree_within_a_fifth_or_are_refused(tmp_path, files, expected, agrees):
    data = collisions(tmp_path, files, sizes={"expected": expected, "reference": 1000})
    if agrees:
        assert settled(data).study.sizes.expected == expected
        return
    with pytest.raises(
        StudyError, match=rf"sizes\.expected: {expected:g} differs by more than 20% from the 214"
    ):
        settled(data)


def test_sizes_of_configurations_follow_too(tmp_path, files):
    configurations = [
        {"treatment": "none"},
        {"sizes": {"reference": 900}},
        {"sizes": {"expected": 50, "reference": 900}},
    ]
    study = settle(weighted_study(files, KEYS, configurations=configurations), tmp_path)
    assert [c.sizes and c.sizes.expected for c in study.configurations] == [None, TOTAL, 50]


def test_events_that_are_too_few_for_what_follows_are_refused(tmp_path, files):
    processes = {name: {"yield": 12 * value} for name, value in YIELDS.items()}
    with pytest.raises(StudyError, match=r"2568 events are expected .*splits\.data: toys need 2568"):
        settle(weighted_study(files, processes), tmp_path)


def test_simulated_background_takes_yields(tmp_path, caplog):
    """The mix of the embedded simulator with other yields; the table is counted once the events are there."""
    caplog.set_level(logging.INFO, "covad")
    yields = {"w": 60, "qcd": 60, "z": 60, "ttbar": 20}
    background = TINY["source"]["background"] | {"processes": {k: {"yield": v} for k, v in yields.items()}}
    source = TINY["source"] | {"background": background}
    source["splits"] = source["splits"] | {"encoder": 4000, "response": 1800, "check": 1200}
    changes = {"source": source, "sizes": {"reference": 1500}}
    study = tiny_study(**changes)
    assert (
        dry_run(study, tmp_path)[0] == "events: new: background, the yields of their processes are counted, "
        "those that pass the cuts are counted"
    )
    with pytest.raises(TooFewEventsError, match=r"and count as .* events without weights"):
        make_run(tmp_path, until="events", **changes)
    assert RunDirectory(tmp_path).study().sizes.expected == 200
    table = CollisionData.of(RunDirectory(tmp_path).study(), RunDirectory(tmp_path)).yields
    assert {line.process: round(line.expected, 6) for line in table.processes} == yields
    assert any("the process 'ttbar' is 10.0% of the yield, but counts" in line for line in caplog.messages)


def test_a_process_that_is_thin_where_shapes_come_from_is_told(tmp_path, files):
    few = write_process(tmp_path / "few.h5", "z", 100, 9, name="few")
    data = collisions(tmp_path, [*files, str(few)], KEYS | {"few": {"yield": 20.0}})
    told = doubts(data)
    assert [line.split(":")[0] for line in told] == ["source.splits.response", "source.splits.reference"]
    assert "the process 'few' is 8.5% of the yield, but counts as only about " in told[0]
    assert doubts(collisions(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("normalisation", "told"),
    [
        (0.01, "the normalisation of 1.00%: simulate 12 times as many events, or raise it"),
        (0.034, None),
        (0.03, "the normalisation of 3.00%: simulate 2 times as many events, or raise it"),
        (None, None),
    ],
)
def test_a_simulation_that_is_too_small_for_the_yield_is_told(tmp_path, files, normalisation, told):
    """8071 effective events tell the total to 1.1 %, a third of 3.4 %; the Poisson error is 6.8 %."""
    processes = {name: {"cross_section": 4.0 * value} for name, value in YIELDS.items()}
    data = collisions(tmp_path, files, processes, source={"luminosity": 1.3}, normalisation=normalisation)
    found = doubts(settled(data))
    assert found == ([] if told is None else [found[0]])
    if told is not None:
        assert found[0].startswith(
            "source.background.processes: the simulation is too small for the yield: its error is 1.11% of "
            "the 221.117 expected events, "
        )
        assert found[0].endswith(f"more than a third of {told}")


@pytest.mark.parametrize("key", ["cross_section", "yield"])
def test_a_yield_that_is_known_exactly_is_held_against_its_poisson_error(tmp_path, files, key):
    """Of 1500 expected events that is 2.6 %; what the study gives as a yield is no estimate."""
    processes = {name: {key: 7.0 * value} for name, value in YIELDS.items()}
    luminosity = {"source": {"luminosity": 5.0}} if key == "cross_section" else {}
    sizes = {"reference": 1500, "expected": 1500}
    told = doubts(collisions(tmp_path, files, processes, sizes=sizes, normalisation=None, **luminosity))
    if key == "yield":
        assert told == []
    else:
        assert told[0].endswith(
            "of the Poisson error of 2.58%: simulate 2 times as many events, or give a normalisation"
        )


def test_more_selected_than_generated_is_told(tmp_path, files):
    processes = KEYS | {"z": {"cross_section": 1.0, "sum_of_weights": 500.0}}
    (told,) = doubts(collisions(tmp_path, files, processes, source={"luminosity": 10.0}))
    assert told.startswith(
        "source.background.processes.z: the weights of its selected events add up to 1016, more"
    )
    assert told.endswith("is the sum of generator weights right?")


# how many events are left


def counts(role_sums):
    """Exact counts of every role: 2000 events with these sums of weights, 4500 without weights."""
    found = [
        WeightedCountAt(role, nu, 2000, role_sums[role]) if role in role_sums else CountAt(role, nu, 4500)
        for role in ("encoder", "response", "check", "basis", "reference", "data")
        for nu in ((0.0,), (1.0,))
    ]
    return SelectedEvents(tuple(found), {}, (), ())


def of_equal(n, negative=0.0, outlier=1.0):
    """The sums of n events of weight +-1, and one that is larger."""
    total = n * (1 - 2 * negative)
    return WeightSums(total, float(n), float(n), outlier, float(n))


@pytest.mark.parametrize(
    ("role", "sums", "message"),
    [
        (
            "response",
            of_equal(2000, negative=0.3),
            "count as 320 events without weights, but the fit of the resp",
        ),
        (
            "data",
            of_equal(2000, outlier=50.0),
            r"splits\.data: of 2200 events 2000 .* about 40, but a toy takes up to 30\d: raise it to 17000",
        ),
        ("data", of_equal(2000, outlier=10.0), "about 200, but a toy takes up to"),
    ],
)
def test_what_weights_leave_is_compared_with_what_toys_take(tmp_path, files, role, sums, message):
    data = settled(collisions(tmp_path, files))
    with pytest.raises(TooFewEventsError, match=message):
        check_needs(data, counts({role: sums}))


def test_a_doubtful_draw_is_a_warning_and_a_reference_keeps_its_weights(tmp_path, files, caplog):
    data = settled(collisions(tmp_path, files))
    check_needs(data, counts({"reference": of_equal(2000, negative=0.4, outlier=100.0)}))
    assert not caplog.messages
    # 32 by the signed weights, but they may become as even as one likes
    check_needs(data, counts({"data": of_equal(2000, negative=0.4, outlier=12.5)}))
    (told,) = caplog.messages
    assert told.startswith(
        "perhaps too few events, which the stage 'pools' will count: source.splits.data: of"
    )


def test_the_trial_estimates_what_weights_leave(tmp_path, files):
    """4000 tried events stand for 2200: largest weights and shares stay, sums are scaled."""
    data = settled(collisions(tmp_path, files))
    sums = {nu: of_equal(4000, negative=0.1) for nu in data.study.points}
    passed = {"background": dict.fromkeys(data.study.points, 4000)}
    found = Efficiencies(data, passed, {"background": 4000}, {"background": sums}).weights("data", (0.0,))
    assert (found.total, found.largest) == (pytest.approx(0.8 * 2200), 1.0)
    assert found.effective == pytest.approx(0.64 * 2200)


def test_sums_of_weights_are_counted_and_restored(run):
    data = CollisionData.of(RunDirectory(run).study(), RunDirectory(run))
    found = read_selected(data.products.selected())
    assert restore(SelectedEvents, json.loads(json.dumps(plain(found))), "here") == found
    with data.open("background") as opened:
        weights = opened.read(data.rows["reference"]).weights
    sums = found.weights("reference", (0.0,))
    assert sums == WeightSums.of(weights, weights)
    assert sums.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.weights("data", (1.0,)).total > 0


@pytest.mark.parametrize(("scale", "told"), [(1e-2, True), (0.1, False)])
def test_hardly_any_expected_events_are_a_hint_at_units(tmp_path, files, scale, told):
    """214 events times the scale: 2.14 and 21.4."""
    processes = {name: {"yield": scale * value} for name, value in YIELDS.items()}
    found = [line for line in doubts(settled(collisions(tmp_path, files, processes))) if "1/pb" in line]
    assert len(found) == told
    if told:
        assert "only 2.14 events are expected of all processes: is source.luminosity in 1/pb" in found[0]


def test_a_process_that_one_weight_decides_gets_a_word_whatever_its_share(tmp_path):
    files = write_processes(tmp_path)
    processes = KEYS | {"ttbar": {"yield": 0.01}}
    word = "source.background.processes.ttbar: its 1000 selected events count as only 1"
    assert not any(word in line for line in doubts(settled(collisions(tmp_path, files, processes))))
    with h5py.File(files[-1], "r+") as file:
        file["weight"][7] = 1e6
    found = [line for line in doubts(settled(collisions(tmp_path, files, processes))) if word in line]
    assert len(found) == 1
