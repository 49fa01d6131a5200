"""What is expected of every process: by hand on a few files, and what is refused."""

import math
from pathlib import Path

import numpy as np
import pytest
from event_files import write_events
from samples import random_events
from weighted_files import RAW, SIZES, YIELDS, weighted_study, write_process, write_processes

from covad.errors import CovadError, FileFormatError, StudyError
from covad.events.files import open_events
from covad.events.layout import Events
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.yields import YieldTable
from covad.storage.records import plain, restore

CROSS_SECTIONS = {name: {"cross_section": 0.01 * value} for name, value in YIELDS.items()}
YIELD_KEYS = {name: {"yield": value} for name, value in YIELDS.items()}


def collisions(folder, files, processes=None, **changes):
    return CollisionData.of(weighted_study(files, processes, **changes), RunDirectory(folder / "run"))


def table_of(folder, files, processes=None, **changes):
    return collisions(folder, files, processes, **changes).yields


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_processes(tmp_path_factory.mktemp("files"))


def test_cross_sections_give_yields_with_errors(tmp_path, files):
    """The definition: L sigma sum(w, selected) / sum(w, generated), and the root of the sum of squares."""
    cuts = {"trigger_minimum": 30.0}
    table = table_of(tmp_path, files, CROSS_SECTIONS, source={"luminosity": 5000.0, "cuts": cuts})
    assert {line.process for line in table.processes} == set(RAW)
    for path, (name, n) in zip(files, RAW.items(), strict=True):
        with open_events(Path(path)) as source:
            events = source.read()
        leptons = np.maximum(events.objects("electron")[..., 0].max(1), events.objects("muon")[..., 0].max(1))
        kept = events.weights[leptons >= 30.0]
        assert 0 < len(kept) < n
        (line,) = (line for line in table.processes if line.process == name)
        scale = 5000.0 * 0.01 * YIELDS[name] / (4.0 * n * SIZES[name])
        assert (line.events, line.selected, line.generated) == (n, len(kept), 4.0 * n * SIZES[name])
        assert line.expected == pytest.approx(scale * kept.sum())
        assert line.error == pytest.approx(scale * math.sqrt((kept**2).sum()))
        assert line.effective == pytest.approx(kept.sum() ** 2 / (kept**2).sum())
        assert line.negative_share == pytest.approx((kept < 0).mean())
        assert line.efficiency == pytest.approx(kept.sum() / (4.0 * n * SIZES[name]))
    assert table.expected == pytest.approx(sum(line.expected for line in table.processes))
    assert [line.expected for line in table.processes] == sorted(
        (line.expected for line in table.processes), reverse=True
    )
    assert restore(YieldTable, plain(table), "here") == table


def test_events_of_a_study_have_the_weights_of_the_table(tmp_path, files):
    data = collisions(tmp_path, files, YIELD_KEYS)
    with data.open("background", verify=False) as opened:
        events = opened.read(np.arange(len(opened)))
    for name, expected in YIELDS.items():
        mine = events.process == events.process_names.index(name)
        assert events.weights[mine].sum() == pytest.approx(expected)


def test_a_given_sum_goes_before_that_of_the_files(tmp_path, files):
    processes = CROSS_SECTIONS | {"w": {"cross_section": 1.0, "sum_of_weights": 1e5}}
    (line,) = (
        line
        for line in table_of(tmp_path, files, processes, source={"luminosity": 10.0}).processes
        if line.process == "w"
    )
    assert line.scale == pytest.approx(10.0 * 1.0 / 1e5)


def test_sums_of_several_files_add_up_and_labels_merge(tmp_path, files):
    """Two files of w, one of which has no weights; a third sample is trained as w."""
    more = write_process(tmp_path / "w_2.h5", "w", 700, 21, size=None, generated=1000.0)
    other = write_process(tmp_path / "w_ht.h5", "w", 300, 22, generated=900.0, name="w_ht")
    processes = CROSS_SECTIONS | {"w_ht": {"cross_section": 0.1, "label": "w"}}
    data = collisions(tmp_path, [*files, str(more), str(other)], processes, source={"luminosity": 10.0})
    lines = {line.process: line for line in data.yields.processes}
    assert lines["w"].generated == 4.0 * RAW["w"] * SIZES["w"] + 1000.0
    assert (lines["w"].events, lines["w_ht"].events) == (RAW["w"] + 700, 300)
    with data.open("background", verify=False) as opened:
        assert opened.process_names == ("w", "qcd", "z", "ttbar")
        events = opened.read(np.arange(len(opened)))
    w = events.process == 0
    assert w.sum() == RAW["w"] + 1000
    assert events.weights[w].sum() == pytest.approx(lines["w"].expected + lines["w_ht"].expected)
    np.testing.assert_allclose(events.weights[w][RAW["w"] : RAW["w"] + 700], lines["w"].scale)
    assert "w_ht (as w)" in "\n".join(data.yields.lines())


def test_weights_alone_are_a_mix_of_the_expected_events(tmp_path, files):
    data = collisions(tmp_path, files, sizes={"expected": 150, "reference": 1000})
    table = data.yields
    assert not table.given
    assert table.expected == pytest.approx(150)
    totals = {name: line.total for name, line in ((line.process, line) for line in table.processes)}
    for line in table.processes:
        assert line.expected == pytest.approx(150 * line.total / sum(totals.values()))
    with data.open("background", verify=False) as opened:  # as they stand in the files
        assert set(np.abs(opened.read(np.arange(100)).weights)) == {SIZES["w"]}


def test_without_weights_and_processes_there_is_no_table(tmp_path):
    plain_files = write_processes(tmp_path, size=None)
    assert table_of(tmp_path, plain_files) is None
    with collisions(tmp_path, plain_files).open("background", verify=False) as opened:
        assert opened.read(np.arange(10)).weights is None


def test_files_are_read_once_as_long_as_nothing_touches_them(tmp_path, monkeypatch):
    files = write_processes(tmp_path)
    first = table_of(tmp_path, files, YIELD_KEYS)
    with monkeypatch.context() as patch:
        patch.setattr("covad.runs.collisions.count_yields", lambda *_: pytest.fail("read again"))
        assert table_of(tmp_path, files, YIELD_KEYS) == first
    write_process(tmp_path / "ttbar.h5", "ttbar", 900, 77)
    assert table_of(tmp_path, files, YIELD_KEYS) != first


def fewer(keys, *names):
    return {name: entry for name, entry in keys.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"processes": fewer(YIELD_KEYS, "z")},
            r"z\.h5: has events of the process 'z', of which source\.back",
        ),
        (
            {"processes": YIELD_KEYS | {"zz": {"yield": 3}}},
            r"background\.processes\.zz: no background file has events of it, they have qcd, ttbar, w, z",
        ),
        (
            {"extra": {"process": "w", "name": "g", "negative": 0.8}},
            "the process 'g': the weights of its 200 selected events add up to -",
        ),
        (
            {"extra": {"process": "w", "name": "g", "negative": 0.5, "n_events": 2, "seed": 3}},
            "'g': the weights of",
        ),
        (
            {"extra": {"process": "w", "name": "g", "size": None}},
            r"extra\.h5: has no weights, but .*w\.h5 has",
        ),
        (
            {
                "processes": CROSS_SECTIONS | {"g": {"cross_section": 1.0}},
                "extra": {"process": "w", "name": "g"},
                "luminosity": 1.0,
            },
            r"processes\.g: its cross_section needs the sum of generator weights, and .*extra\.h5 has none",
        ),
        (
            {
                "processes": CROSS_SECTIONS,
                "extra": {"process": "w"},
                "luminosity": 1.0,
            },
            r"processes\.w: its cross_section needs the sum of generator weights, and .*extra\.h5 has none",
        ),
        (
            {
                "processes": CROSS_SECTIONS | {"g": {"cross_section": 1.0}},
                "extra": {"process": "w", "name": "g", "generated": -2.0},
                "luminosity": 1.0,
            },
            r"processes\.g: the sums of generator weights in the files add up to -2",
        ),
    ],
)
def test_what_gives_no_expectation_is_refused_in_one_sentence(tmp_path, files, change, message):
    listed = list(files)
    if "extra" in change:
        options = {"n_events": 200, "seed": 5} | change["extra"]
        listed.append(str(write_process(tmp_path / "extra.h5", **options)))
    source = {"luminosity": change["luminosity"]} if "luminosity" in change else {}
    sizes = {"expected": 200, "reference": 1000}
    with pytest.raises(CovadError, match=message) as refused:
        table_of(tmp_path, listed, change.get("processes"), source=source, sizes=sizes)
    assert "\n" not in str(refused.value)


def test_a_process_whose_events_are_all_cut_is_refused(tmp_path, files):
    source = {"cuts": {"trigger_minimum": 1e5}}
    with pytest.raises(StudyError, match=r"'w': none of its 6000 events passes source\.cuts"):
        table_of(tmp_path, files, YIELD_KEYS, source=source)


def test_unlabelled_events_are_refused(tmp_path, files):
    """Their label would be the last of the scales, were it taken for a position."""
    labelled = random_events(50, seed=1)
    bare = Events.unlabelled(labelled.layout, labelled.particles)
    listed = [*files, str(write_events(tmp_path / "bare.h5", bare))]
    with pytest.raises(FileFormatError, match=r"bare\.h5: has events of no process label, of which source"):
        table_of(tmp_path, listed, YIELD_KEYS)
