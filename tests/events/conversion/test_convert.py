"""Conversion of files that the tests write themselves, against a direct reading with uproot."""

import logging
from pathlib import Path
from typing import Any

import awkward as ak
import h5py
import numpy as np
import pyarrow as pa
import pytest
import uproot
from pyarrow import parquet
from root_files import nano_branches, sums, write_nano, write_root

from covad.errors import (
    CovadError,
    DuplicateEventsError,
    EventContentError,
    FileFormatError,
    FileWriteError,
    MappingError,
    TooFewEventsError,
)
from covad.events.conversion import reading
from covad.events.conversion.convert import Tally, convert_rows, prepare
from covad.events.conversion.mapping import EventMapping, parse_mapping, ready_mapping
from covad.events.files import open_events
from covad.events.layout import Events

NANO = ready_mapping("nanoaod").changed(process="ttbar")
JET = {"slots": 10, "features": {"pt": "Jet_pt", "eta": "Jet_eta", "phi": "Jet_phi"}}


def mapping(**content: Any) -> EventMapping:
    return parse_mapping({"tree": "Events", "collections": {"jet": JET}} | content, "m.yaml")


def convert(chosen: EventMapping, *paths: Path, workers: int = 1) -> tuple[Path, Tally]:
    out = paths[0].with_name("converted.h5")
    conversion = prepare(chosen, paths, out, workers)
    return out, conversion.write(out, conversion.blocks(workers))


def read(path: Path, **options: Any) -> Events:
    with open_events(path) as source:
        return source.read(**options)


def direct(path: Path, *names: str) -> ak.Array:
    with uproot.open(path) as file:
        return file["Events"].arrays(filter_name=list(names))


def test_kinematic_sums_agree_with_a_direct_reading(tmp_path: Path) -> None:
    """Sum and count of every feature of every collection, to the precision of sums in double."""
    path = write_nano(tmp_path / "nano.root", 2000)
    out, tally = convert(NANO, path)
    events = read(out)
    assert (len(events), tally.n_read, events.process_names) == (2000, 2000, ("ttbar",))
    cuts = {"Electron": (10, 2.5, 4), "Muon": (10, 2.4, 4), "Jet": (20, 4.7, 10)}
    for name, (pt, eta, slots) in cuts.items():
        found = direct(path, f"{name}_*")
        kept = (found[f"{name}_pt"] > pt) & (abs(found[f"{name}_eta"]) < eta)
        objects = events.objects(name.lower())
        for feature in ("pt", "eta", "phi"):
            right = found[f"{name}_{feature}"][kept][:, :slots]
            column = objects[..., events.layout.column(feature)]
            np.testing.assert_array_equal(events.present(name.lower()).sum(axis=1), ak.num(right))
            # float32 numbers are stored as they are, so that sums in double agree to rounding
            np.testing.assert_allclose(
                column.sum(axis=1, dtype=float), ak.sum(ak.values_astype(right, "float64"), axis=1)
            )
            assert column.sum(dtype=float) == pytest.approx(
                ak.sum(ak.values_astype(right, "float64")), rel=1e-12
            )
    np.testing.assert_array_equal(events.objects("met")[:, 0, 0], direct(path, "MET_pt")["MET_pt"])
    np.testing.assert_array_equal(events.weights, direct(path, "genWeight")["genWeight"])
    with open_events(out) as source:
        assert source.sum_of_weights == {"ttbar": 750.5}


def test_objects_beyond_the_slots_are_counted(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "nano.root")
    _, tally = convert(mapping(collections={"jet": JET | {"slots": 2}}), path)
    counts = ak.num(direct(path, "Jet_pt")["Jet_pt"]).to_numpy()
    beyond = int(np.maximum(counts - 2, 0).sum())
    assert tally.objects == {"jet": (counts.sum(), beyond)}
    assert list(tally.remarks()) == [
        f"{100 * beyond / counts.sum():.2g} % of the objects of jet found no slot and were left out"
    ]


def test_expressions_reach_all_parts_of_a_mapping(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "nano.root")
    chosen = mapping(
        derived={"ht": "sum(jet.pt)", "scale": "0.5"},
        collections={
            "jet": JET | {"cut": "pt > 20 and (Jet_jetId & 2) > 0", "sort": "-abs(eta)", "slots": 2},
            "event": {"slots": 1, "features": {"pt": "ht"}},
        },
        select="HLT_IsoMu24 and count(jet.pt) >= 2",
        weight="genWeight * scale",
        variations={"scale_up": "genWeight * scale * LHEScaleWeight[8]", "twice": "2 * genWeight"},
        process="tt",
    )
    events = read(convert(chosen, path)[0], variations=("scale_up", "twice"))
    found = direct(path, "Jet_*", "HLT*", "genWeight", "LHE*")
    jets = ak.zip({f: found[f"Jet_{f}"] for f in ("pt", "eta", "phi")})
    jets = jets[jets.pt > 20]
    selected = (ak.num(jets) >= 2) & found["HLT_IsoMu24"]
    jets, found = jets[selected], found[selected]
    assert len(events) == ak.sum(selected) < 500
    ht = ak.sum(ak.values_astype(jets.pt, "float64"), axis=1)
    np.testing.assert_allclose(events.objects("event")[:, 0, 0], ht, rtol=1e-6)
    central = jets[ak.argsort(abs(jets.eta), axis=1)][:, :2]
    np.testing.assert_array_equal(
        events.objects("jet")[..., 0], ak.sort(central.pt, ascending=False).to_numpy()
    )
    np.testing.assert_allclose(events.event_weights, 0.5 * found["genWeight"])
    scaled = 0.5 * ak.values_astype(found["genWeight"], "float64") * found["LHEScaleWeight"][:, 8]
    np.testing.assert_allclose(events.variations["scale_up"], scaled)
    np.testing.assert_allclose(events.variations["twice"], 2 * found["genWeight"])


def test_shifted_branches_are_other_objects_of_the_same_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_nano(tmp_path / "nano.root")
    chosen = mapping(
        collections={"jet": JET | {"cut": "pt > 30"}, "met": {"slots": 1, "features": {"pt": "MET_pt"}}},
        select="any(Jet_pt > 30)",
        weight="genWeight",
        varied={"jesUp": {"Jet_pt": "Jet_pt_jesTotalUp"}, "metUp": {"MET_pt": "MET_pt * 1.5"}},
    )
    with caplog.at_level(logging.WARNING):
        out, _ = convert(chosen, path)
    assert "`select` uses Jet_pt, which 'jesUp' replaces" in caplog.text
    assert "metUp" not in caplog.text
    nominal, jes, met = read(out), read(out, varied="jesUp"), read(out, varied="metUp")
    assert len(nominal) == len(jes) == len(met) < 500
    np.testing.assert_allclose(met.objects("met"), nominal.objects("met") * 1.5, rtol=1e-6)
    np.testing.assert_array_equal(met.objects("jet"), nominal.objects("jet"))
    np.testing.assert_array_equal(jes.objects("met"), nominal.objects("met"))
    found = direct(path, "Jet_pt*")
    found = found[ak.any(found["Jet_pt"] > 30, axis=1)]
    shifted = found["Jet_pt_jesTotalUp"]
    np.testing.assert_array_equal(jes.present("jet").sum(axis=1), ak.num(shifted[shifted > 30]))
    assert jes.present("jet").sum() > nominal.present("jet").sum()  # the object cut sees the shifted pt


def test_workers_and_steps_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write_nano(tmp_path / f"{seed}.root", 300 + seed, seed) for seed in (1, 2)]
    alone = read(convert(NANO, *paths)[0])
    parallel = read(convert(NANO, *paths, workers=2)[0])
    monkeypatch.setattr(reading, "STEP_EVENTS", 70)
    monkeypatch.setattr(reading, "_LARGEST_STEP", 90)
    assert len(prepare(NANO, paths, tmp_path / "x.h5").surveys[0].steps) == 5
    stepped = read(convert(NANO, *paths)[0])
    for other in (parallel, stepped):
        np.testing.assert_array_equal(other.particles, alone.particles)
        np.testing.assert_array_equal(other.weights, alone.weights)
    np.testing.assert_array_equal(alone.weights[301:603], direct(paths[1], "genWeight")["genWeight"])
    with open_events(tmp_path / "converted.h5") as source:
        assert source.sum_of_weights == {"ttbar": 2 * 750.5}


def test_steps_end_where_stored_pieces_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("Events", {"x": "float64"})
        for size in (40, 40, 40, 5, 300):
            tree.extend({"x": np.ones(size)})
    monkeypatch.setattr(reading, "STEP_EVENTS", 60)
    monkeypatch.setattr(reading, "_LARGEST_STEP", 120)
    table = reading.open_source(tmp_path / "a.root").find(None)
    assert table.steps(["x"]) == [(0, 80), (80, 140), (140, 200), (200, 260), (260, 320), (320, 425)]


def test_the_latest_cycle_of_a_tree_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    write_root(path, {"Events": {"Jet_pt": nano_branches(5)["MET_pt"]}})
    with uproot.update(path) as file:
        file.mktree("Events", {"Jet_pt": "float32"}).extend({"Jet_pt": np.full(7, 3, dtype=np.float32)})
    _, tally = convert(mapping(collections={"jet": {"slots": 1, "features": {"pt": "Jet_pt"}}}), path)
    assert tally.n_read == 7


def test_flat_trees_have_an_object_per_branch(tmp_path: Path) -> None:
    """Missing objects have pt <= 0, whatever else they have; phi from 0 to 2 pi is brought to +-pi."""
    branches = {
        "lep1": np.array([20.0, 30.0, -999.0]),
        "lep2": np.array([0.0, 40.0, 10.0]),
        "phi1": np.array([0.5, 6.0, np.nan]),
        "phi2": np.array([-999.0, 1.0, 4.0]),
        "w": np.array([1.0, -2.0, 3.0]),
        "channel": np.array([7, 9, 7]),
    }
    path = write_root(tmp_path / "flat.root", {"mini": branches})
    chosen = parse_mapping(
        {
            "collections": {"lepton": {"features": {"pt": ["lep1", "lep2"], "phi": ["phi1", "phi2"]}}},
            "weight": "w",
            "sum_of_weights": {"sum": "abs(w)"},
            "process": {"branch": "channel", "names": {7: "a", 9: "b"}},
        },
        "m.yaml",
    )
    out, _ = convert(chosen, path)
    events = read(out)
    two_pi = 2 * np.pi
    expected = [[[20, 0.5], [0, 0]], [[40, 1], [30, 6 - two_pi]], [[10, 4 - two_pi], [0, 0]]]
    np.testing.assert_allclose(events.particles, expected, rtol=1e-6)
    assert events.process.tolist() == [0, 1, 0]
    with open_events(out) as source:
        assert source.sum_of_weights == {"a": 4.0, "b": 2.0}


def test_vectors_and_fixed_arrays_are_lists(tmp_path: Path) -> None:
    path = write_root(tmp_path / "a.root", {"t": {"E": np.arange(12, dtype=np.float64).reshape(4, 3)}})
    chosen = parse_mapping({"collections": {"cell": {"slots": 2, "features": {"pt": "E"}}}}, "m.yaml")
    assert read(convert(chosen, path)[0]).particles[:, :, 0].tolist() == [[2, 1], [5, 4], [8, 7], [11, 10]]


def test_many_weights_are_named_by_a_pattern(tmp_path: Path) -> None:
    weights = {
        f"weight_sys_{name}": np.full(4, float(n)) for n, name in enumerate(("a_UP", "a_DOWN"), start=2)
    }
    path = write_root(tmp_path / "a.root", {"t": {"x": np.ones(4), "weight_nominal": np.ones(4), **weights}})
    content = {
        "collections": {"met": {"slots": 1, "features": {"pt": "x"}}},
        "weight": "weight_nominal",
        "variations": {"*": "weight_sys_*", "half": "weight_nominal / 2"},
    }
    out, _ = convert(parse_mapping(content, "m.yaml"), path)
    with open_events(out) as source:
        assert source.variation_names == ("a_UP", "a_DOWN", "half")
        assert source.read(variations=("a_DOWN",)).variations["a_DOWN"].tolist() == [3.0] * 4
    with pytest.raises(MappingError, match=r"has no branch like 'w_"):
        convert(parse_mapping(content | {"variations": {"*": "w_*"}}, "m.yaml"), path)


def test_names_that_changed_between_versions_have_aliases(tmp_path: Path) -> None:
    old = write_nano(tmp_path / "v12.root")
    branches = nano_branches(500)
    new = write_nano(
        tmp_path / "v15.root",
        MET_pt=None,
        MET_phi=None,
        PFMET_pt=branches["MET_pt"],
        PFMET_phi=branches["MET_phi"],
    )
    first, second = read(convert(NANO, old)[0]), read(convert(NANO, new)[0])
    np.testing.assert_array_equal(first.particles, second.particles)
    with pytest.raises(
        MappingError, match=r"v15.root: 'MET_p.*' is PFMET_p.*, but in .*v12.root it is MET_p.*one by one"
    ):
        convert(NANO, old, new)


def test_parquet_takes_the_same_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STEP_EVENTS", 70)
    branches = nano_branches(500)
    root = write_root(tmp_path / "a.root", {"Events": branches})
    ak.to_parquet(ak.Array(branches), tmp_path / "a.parquet", row_group_size=200)
    chosen = NANO.changed(sum_of_weights=None)
    first, second = read(convert(chosen, root)[0]), read(convert(chosen, tmp_path / "a.parquet")[0])
    np.testing.assert_array_equal(first.particles, second.particles)
    np.testing.assert_array_equal(first.weights, second.weights)


def test_parquet_with_records_and_labels(tmp_path: Path) -> None:
    table = pa.table(
        {
            "Jet": [[{"pt": 5.0}, {"pt": 9.0}], [], [{"pt": 1.0}]],
            "w": [1.0, 2.0, 3.0],
            "label": ["zz", "tt", "zz"],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    content = {
        "collections": {"jet": {"slots": 2, "features": {"pt": "Jet.pt"}}},
        "weight": "w",
        "process": {"branch": "label", "names": {"tt": "ttbar", "zz": "diboson"}},
    }
    events = read(convert(parse_mapping(content, "m.yaml"), tmp_path / "a.parquet")[0])
    assert events.particles[..., 0].tolist() == [[9, 5], [0, 0], [1, 0]]
    assert [events.process_names[i] for i in events.process] == ["diboson", "ttbar", "diboson"]


def test_empty_files_are_skipped_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    full, empty = write_nano(tmp_path / "full.root"), write_nano(tmp_path / "empty.root", 0)
    with caplog.at_level(logging.WARNING):
        out, tally = convert(NANO, empty, full)
    assert "empty.root: has 0 events, and is skipped" in caplog.text
    assert tally.n_read == 500
    with open_events(out) as source:  # what was generated for the skipped file counts
        assert source.sum_of_weights == {"ttbar": 2 * 750.5}
    with pytest.raises(TooFewEventsError, match=r"empty.root: has 0 events, nothing to convert"):
        convert(NANO, empty)


def test_a_missing_tree_of_sums_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_root(tmp_path / "a.root", {"Events": nano_branches(50)})
    with caplog.at_level(logging.WARNING):
        out, _ = convert(NANO, path)
    assert "has no tree 'Runs', so that the sum of generator weights stays unknown" in caplog.text
    with open_events(out) as source:
        assert source.sum_of_weights == {}
    other = write_nano(tmp_path / "b.root", 50, 2)
    with pytest.raises(MappingError, match=r"only one of this file and .*a.root has the tree of the sum"):
        convert(NANO, path, other)


def test_a_negative_total_is_said(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "a.root", 50, genWeight=np.full(50, -1.0, dtype=np.float32))
    _, tally = convert(NANO, path)
    assert "the sum of weights of ttbar is -50: no study takes that" in list(tally.remarks())


def test_nan_is_refused_only_where_it_would_be_used(tmp_path: Path) -> None:
    branches = nano_branches(50)
    weights = branches["genWeight"].copy()
    weights[7] = np.nan
    momenta = branches["MET_pt"].copy()
    momenta[9] = np.inf
    path = write_nano(tmp_path / "a.root", 50, genWeight=weights, MET_pt=momenta, id=np.arange(50))
    with pytest.raises(EventContentError, match=r"a.root: weight: 'genWeight' is nan in event 7"):
        convert(NANO, path)
    with pytest.raises(
        EventContentError, match=r"a.root: pt of met is not finite in event 9: leave.*isfinite.pt"
    ):
        convert(NANO.without_weights(), path)
    assert convert(NANO.changed(select="id != 7 and id != 9"), path)[1].n_written == 48


def broken_basket(path: Path) -> None:
    """Overwrite a stretch of a column that is read."""
    content = bytearray(path.read_bytes())
    if path.suffix == ".root":
        with uproot.open(path) as file:
            start = int(file["Events"]["Jet_pt"].member("fBasketSeek")[0]) + 200
    else:
        column = parquet.ParquetFile(path).metadata.row_group(0).column(0)
        start = column.data_page_offset + 50
    content[start : start + 2000] = bytes(2000)
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [broken_basket, cut_off])
@pytest.mark.parametrize("kind", ["root", "parquet"])
def test_damaged_files_are_one_sentence(tmp_path: Path, damage: Any, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    branches = nano_branches(3000)
    if kind == "root":
        write_root(path, {"Events": branches})
    else:
        ak.to_parquet(ak.Array(branches), path)
    damage(path)
    with pytest.raises(FileFormatError) as failure:
        convert(NANO.changed(sum_of_weights=None), path)
    assert str(failure.value).startswith(
        f"{path}: cannot be read, it is damaged or was not written to its end"
    )
    assert "\n" not in str(failure.value)
    assert list(tmp_path.iterdir()) == [path]


def jets(pt: str) -> dict[str, Any]:
    return {"collections": {"jet": {"slots": 1, "features": {"pt": pt}}}}


@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (jets("Jet_ptt"), MappingError, "tree 'Events' has no branch 'Jet_ptt'; is 'Jet_pt' or"),
        (jets("Jet_ptt"), MappingError, "needed by collections.jet.features.pt"),
        (jets("Jet_pt.__class__"), MappingError, "has no branch 'Jet_pt.__class__'"),
        (jets("name"), MappingError, "branch 'name' holds"),
        ({"tree": "Event"}, MappingError, "has no tree 'Event' (its trees: Events, Runs)"),
        ({"tree": None}, MappingError, "has several trees or none (Events, Runs): name one in `tree`"),
        ({"weight": "Jet_pt"}, MappingError, "weight: 'Jet_pt': has a list of numbers per event where one"),
        ({"weight": "genweight"}, MappingError, "is 'genWeight' meant?, needed by weight; are these data"),
        ({"weight": "LHEScaleWeight[9]"}, MappingError, "entry [9] is asked for, but a list has only 9"),
        ({"weight": "genWeight / 0"}, EventContentError, "weight: 'genWeight / 0' is"),
        ({"weight": "0 * genWeight"}, EventContentError, "'weight' is zero in all events"),
        ({"select": "Jet_pt > 20"}, MappingError, "select: 'Jet_pt > 20' is a list of yes and no per event"),
        ({"select": "MET_pt"}, MappingError, "yes or no is needed, not a number with a fraction"),
        ({"select": "MET_pt < 0"}, TooFewEventsError, "none of 50 events passes `select`"),
        (jets("Jet_pt * Muon_pt"), MappingError, "collections.jet: 'Jet_pt * Muon_pt': lists of different"),
        (jets("Jet_pt / 0"), EventContentError, "pt of jet is not finite in event"),
        (
            {"collections": {"jet": {"slots": 1, "features": {"pt": "Jet_pt", "phi": "Jet_phi * 180 / pi"}}}},
            EventContentError,
            "collections.jet: has angles up to 1",
        ),
        (
            {"weight": "genWeight", "sum_of_weights": {"tree": "Runs", "sum": "genSumw"}},
            MappingError,
            "tree 'Runs' has no branch 'genSumw'",
        ),
        (
            {"process": {"branch": "number", "names": {3: "a"}}},
            EventContentError,
            "'number' has the value 0, which",
        ),
        ({"process": {"branch": "nummer", "names": {3: "a"}}}, MappingError, "needed by process.branch"),
    ],
)
def test_what_does_not_fit_the_file_is_one_sentence(
    tmp_path: Path, content: dict[str, Any], kind: type[CovadError], sentence: str
) -> None:
    names = ak.Array(["text"] * 50)
    path = write_nano(tmp_path / "a.root", 50, number=np.arange(50), name=names)
    before = set(tmp_path.iterdir())
    with pytest.raises(kind) as failure:
        convert(mapping(**content), path)
    assert sentence in str(failure.value)
    assert str(failure.value).startswith(str(tmp_path))  # the file, or the output that would be made of it
    assert "\n" not in str(failure.value)
    assert set(tmp_path.iterdir()) == before


def test_no_event_is_converted_twice(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "a.root")
    link, copy = tmp_path / "link.root", tmp_path / "copy.root"
    link.symlink_to(path)
    copy.write_bytes(path.read_bytes())
    for twin in (path, link, copy):
        with pytest.raises(
            DuplicateEventsError, match=rf"{twin.name}: holds the same events as .*a.root: give each"
        ):
            convert(NANO, path, twin)


def test_no_input_is_overwritten(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "converted.h5")
    before = path.read_bytes()
    with pytest.raises(
        FileWriteError, match=r"is one of the files to convert: choose another name for --out"
    ):
        convert(NANO, path)
    assert path.read_bytes() == before


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "a.root"
    text.write_text("not a ROOT file")
    ntuple = tmp_path / "ntuple.root"
    with uproot.recreate(ntuple) as file:
        file.mkrntuple("Events", {"x": np.ones(3)})
    for path, sentence in (
        (text, "is neither a ROOT nor a Parquet file"),
        (tmp_path, "is a directory, not a file"),
        (tmp_path / "none.root", "cannot be read (no such file: is the name right?)"),
        (ntuple, "'Events' is an RNTuple, which covad does not read: write it as a TTree"),
        (Path("root://host/a.root"), "only files on this machine are read"),
    ):
        with pytest.raises(FileFormatError) as failure:
            convert(NANO, path)
        assert sentence in str(failure.value)


def test_provenance_says_where_events_come_from(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "a.root", 50)
    with open_events(convert(NANO, path)[0]) as source:
        assert source.provenance["converted_from"] == "a.root"
        assert source.provenance["events_read"] == 50
        assert parse_mapping(source.provenance["mapping"], "it") == NANO


def test_a_failure_in_the_middle_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = write_nano(tmp_path / "good.root", 300)
    out, _ = convert(NANO, good)
    before = out.read_bytes()
    weights = nano_branches(200, 2)["genWeight"]
    weights[150] = np.nan
    bad = write_nano(tmp_path / "bad.root", 200, 2, genWeight=weights)
    with pytest.raises(EventContentError, match=r"bad.root: weight: .* in event 150"):
        convert(NANO, good, bad)
    assert out.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"good.root", "bad.root", "converted.h5"}


def test_unweighted_files_have_no_weights(tmp_path: Path) -> None:
    out, _ = convert(NANO.without_weights(), write_nano(tmp_path / "data.root", 50, genWeight=None))
    with h5py.File(out) as file:
        assert "weight" not in file
    assert read(out).weights is None


def test_rows_can_be_converted_one_by_one(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "a.root", 50)
    recipe = prepare(NANO, [path], tmp_path / "x.h5").recipe
    whole = convert_rows(path, recipe, 0, 50).events.particles
    single = [convert_rows(path, recipe, i, i + 1).events.particles[0] for i in range(50)]
    np.testing.assert_array_equal(np.stack(single), whole)


def test_sums_of_generator_weights_must_be_finite(tmp_path: Path) -> None:
    path = write_root(tmp_path / "a.root", {"Events": nano_branches(5), "Runs": sums(1.0, np.nan)})
    with pytest.raises(EventContentError, match=r"the sum of generator weights, 'genEventSumw', is nan"):
        convert(NANO, path)


def test_a_file_that_takes_the_name_of_another_is_read_anew(tmp_path: Path) -> None:
    """A tree stays open from step to step, but never beyond its file."""
    path = write_nano(tmp_path / "a.root", 50, 1)
    recipe = prepare(NANO, [path], tmp_path / "x.h5").recipe
    first = convert_rows(path, recipe, 0, 50).events
    write_nano(path, 50, 2)
    second = convert_rows(path, recipe, 0, 50).events
    assert not np.array_equal(first.particles, second.particles)
