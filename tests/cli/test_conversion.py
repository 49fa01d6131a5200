"""covad convert as a user meets it: what it writes, what it says, and one sentence for each bad input."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from root_files import nano_branches, sums, write_nano, write_root

from covad.cli.main import commands, main
from covad.events.conversion.mapping import READY, parse_mapping, ready_mapping
from covad.events.files import open_events

MAPPING = {
    "tree": "Events",
    "collections": {"jet": {"slots": 4, "features": {"pt": "Jet_pt", "eta": "Jet_eta"}, "cut": "pt > 20"}},
    "weight": "genWeight",
}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(part) for part in arguments], prog_name="covad")


def write_mapping(path: Path, **changes: object) -> Path:
    path.write_text(yaml.safe_dump(MAPPING | changes))
    return path


def test_convert_with_a_ready_mapping(tmp_path: Path) -> None:
    first, second = write_nano(tmp_path / "1.root", 300), write_nano(tmp_path / "2.root", 200, 2)
    out = tmp_path / "tt.h5"
    result = invoke(
        "convert", "--mapping", "nanoaod", "--process", "ttbar", "--workers", 1, first, second, "--out", out
    )
    assert (result.exit_code, result.stdout) == (0, f"wrote 500 of 500 events of ttbar to {out}\n")
    assert "converting 500 events of 2 files" in result.stderr
    with open_events(out) as source:
        assert (len(source), source.weighted, source.sum_of_weights) == (500, True, {"ttbar": 1501.0})
    shown = invoke("inspect", out)
    assert shown.exit_code == 0
    assert "converted_from: 1.root, 2.root" in shown.output
    assert "Jet_pt" not in shown.output  # the mapping itself would hide the rest


def test_convert_with_a_mapping_of_ones_own(tmp_path: Path) -> None:
    path, out = write_nano(tmp_path / "a.root"), tmp_path / "a.h5"
    mapping = write_mapping(tmp_path / "m.yaml", select="any(Jet_pt > 40)")
    result = invoke("convert", mapping, path, "--out", out, "--quiet")
    assert result.exit_code == 0
    assert result.stdout.startswith("wrote ")
    with open_events(out) as source:
        assert source.process_names == ()
        assert source.sum_of_weights == {}


def test_processes_told_by_a_branch(tmp_path: Path) -> None:
    path, out = write_nano(tmp_path / "a.root", 6, channel=np.array([7, 9, 9, 7, 7, 7])), tmp_path / "a.h5"
    names = {"branch": "channel", "names": {7: "tt", 9: "dy"}}
    mapping = write_mapping(tmp_path / "m.yaml", process=names)
    options = ("--sum-of-weights", "events")
    assert invoke("convert", mapping, path, *options, "--out", out).exit_code == 0
    with open_events(out) as source:
        assert source.read().process_counts() == {"tt": 4, "dy": 2}
        assert set(source.sum_of_weights) == {"tt", "dy"}


def test_data_have_no_weights(tmp_path: Path) -> None:
    path, out = write_nano(tmp_path / "data.root", genWeight=None), tmp_path / "data.h5"
    result = invoke("convert", "--mapping", "nanoaod", path, "--data", "--out", out)
    assert result.exit_code == 0
    with open_events(out) as source:
        assert not source.weighted


@pytest.mark.parametrize(("given", "expected"), [("1e6", 1e6), ("events", 450.0)])
def test_the_sum_of_weights_can_be_given(tmp_path: Path, given: str, expected: float) -> None:
    weights = np.where(np.arange(500) < 100, -1.0, 1.375).astype(np.float32)  # sum 450
    path = write_root(tmp_path / "a.root", {"Events": nano_branches(500) | {"genWeight": weights}})
    out = tmp_path / "a.h5"
    options = ("--mapping", "nanoaod", "--process", "tt", "--sum-of-weights", given)
    assert invoke("convert", *options, path, "--out", out).exit_code == 0
    with open_events(out) as source:
        assert source.sum_of_weights == {"tt": expected}


def test_describe_lists_branches_and_the_mapping_that_fits(tmp_path: Path) -> None:
    path = write_nano(tmp_path / "a.root", 50)
    shown = invoke("convert", "--describe", path).stdout
    assert f"{path}: tree 'Events' with 50 events and 20 branches" in shown
    assert f"{path}: tree 'Runs' with 2 events and 1 branches" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["Jet_pt", "float[]"] in lines
    assert ["genWeight", "float"] in lines
    assert f"  covad convert --mapping nanoaod {path} --out events.h5\n" in shown


def test_describe_writes_what_is_left_of_a_mapping(tmp_path: Path) -> None:
    branches = {key: column for key, column in nano_branches(50).items() if key.startswith("Muon")}
    path = write_root(tmp_path / "muons.root", {"Events": branches})
    shown = invoke("convert", "--describe", path).stdout
    head, _, text = shown.partition("the mapping that fits best is nanoaod without ")
    assert "Muon_pt" in head
    assert text.startswith("met, electron, jet, weight; as a mapping file:")
    left = tmp_path / "left.yaml"
    left.write_text(text.split("\n\n", 1)[1])
    assert invoke("convert", left, path, "--out", tmp_path / "a.h5").exit_code == 0
    other = write_root(tmp_path / "other.root", {"t": {"x": np.ones(3)}})
    assert "no ready mapping (nanoaod, " in invoke("convert", "--describe", other).stdout


@pytest.mark.parametrize("name", READY)
def test_ready_mappings_are_printed_as_they_are(name: str) -> None:
    shown = invoke("convert", "--mapping", name, "--print").stdout
    assert parse_mapping(yaml.safe_load(shown), name) == ready_mapping(name)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path: Path) -> None:
    write_nano(path, 0)


def nan_weight(path: Path) -> None:
    weights = nano_branches(50)["genWeight"]
    weights[3] = np.nan
    write_nano(path, 50, genWeight=weights)


def zero_weights(path: Path) -> None:
    write_nano(path, 50, genWeight=np.zeros(50, dtype=np.float32))


def nan_pt(path: Path) -> None:
    write_nano(path, 50, MET_pt=np.where(np.arange(50) == 7, np.nan, 10).astype(np.float32))


def no_weight(path: Path) -> None:
    write_nano(path, 50, genWeight=None)


def no_jets(path: Path) -> None:
    write_nano(path, 50, 2, Jet_pt=None)


def scalar_jets(path: Path) -> None:
    write_nano(path, 50, 2, Jet_pt=np.ones(50, dtype=np.float32))


def nan_sum(path: Path) -> None:
    write_root(path, {"Events": nano_branches(50), "Runs": sums(np.nan)})


def text_file(path: Path) -> None:
    path.write_text("hello")


def nothing(path: Path) -> None:
    del path


Ready = ("--mapping", "nanoaod", "--process", "tt")

BAD: list[tuple[str, Callable[[Path], None], tuple[str, ...], str]] = [
    (
        "cut off in the middle",
        cut_off,
        (*Ready, "a.root"),
        "a.root: cannot be read, it is damaged or was not",
    ),
    ("0 events", empty, (*Ready, "a.root"), "a.root: has 0 events, nothing to convert"),
    ("NaN weight", nan_weight, (*Ready, "a.root"), "a.root: weight: 'genWeight' is nan in event 3"),
    ("all weights zero", zero_weights, (*Ready, "a.root"), "'weight' is zero in all events"),
    ("NaN pt", nan_pt, (*Ready, "a.root"), "a.root: pt of met is not finite in event 7"),
    (
        "no weight",
        no_weight,
        (*Ready, "a.root"),
        "needed by weight; are these data, without weights? say --data",
    ),
    ("no text", text_file, (*Ready, "a.root"), "a.root: is neither a ROOT nor a Parquet file"),
    (
        "other branches",
        no_jets,
        (*Ready, "good.root", "a.root"),
        "a.root: tree 'Events' has no branch 'Jet_pt'",
    ),
    (
        "another kind",
        scalar_jets,
        (*Ready, "good.root", "a.root"),
        "is Jet_pt (number), but in good.root it is",
    ),
    ("NaN sum", nan_sum, (*Ready, "a.root"), "the sum of generator weights, 'genEventSumw', is nan"),
    ("one file twice", nothing, (*Ready, "good.root", "./good.root"), "holds the same events as good.root"),
    ("unknown branch", nothing, ("typo.yaml", "good.root"), "has no branch 'Jet_pd'; is 'Jet_p"),
    ("list as number", nothing, ("list.yaml", "good.root"), "where one number is needed: write an index"),
    (
        "import",
        nothing,
        ("import.yaml", "good.root"),
        "import.yaml: select: '__import__('os')': there is no function",
    ),
    (
        "reads a file",
        nothing,
        ("open.yaml", "good.root"),
        "open.yaml: weight: 'open('/etc/passwd')': there is no",
    ),
    ("attribute", nothing, ("class.yaml", "good.root"), "has no branch 'Jet_pt.__class__'"),
    ("nothing passes", nothing, ("none.yaml", "good.root"), "none of 50 events passes `select`"),
    ("unknown mapping", nothing, ("--mapping", "nano", "good.root"), "there is no ready mapping 'nano'"),
    ("no mapping", nothing, ("good.root",), "the first argument is the mapping, and good.root is none"),
    ("no files", nothing, ("m.yaml",), "FILES are missing"),
    (
        "no such file",
        nothing,
        (*Ready, "no.root"),
        "no.root: cannot be read (no such file: is the name right?)",
    ),
    ("not a number", nothing, (*Ready, "--sum-of-weights", "many", "good.root"), "sum_of_weights"),
    (
        "data with sum",
        nothing,
        (*Ready, "--data", "--sum-of-weights", "3", "good.root"),
        "exclude each other",
    ),
    ("process", nothing, ("--mapping", "nanoaod", "--process", "t t", "good.root"), "process"),
]


@pytest.mark.parametrize(("name", "make", "arguments", "sentence"), BAD, ids=[bad[0] for bad in BAD])
def test_a_bad_input_is_one_sentence_and_nothing_is_written(
    name: str,
    make: Callable[[Path], None],
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_nano(Path("good.root"), 50)
    write_nano(Path("a.root"), 2000, 3)
    make(Path("a.root"))
    write_mapping(Path("m.yaml"))
    write_mapping(Path("typo.yaml"), derived={"x": "Jet_pd"}, select="any(x > 3)")
    write_mapping(Path("list.yaml"), weight="Jet_pt")
    write_mapping(Path("import.yaml"), select="__import__('os')")
    write_mapping(Path("open.yaml"), weight="open('/etc/passwd')")
    write_mapping(Path("class.yaml"), weight="Jet_pt.__class__")
    write_mapping(Path("none.yaml"), select="MET_pt < 0")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(sys, "argv", ["covad", "convert", *arguments, "--out", "out.h5", "--quiet"])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code, shown.out) == (2, "")
    assert shown.err.startswith("covad: ")
    assert shown.err.count("\n") == 1, shown.err
    assert sentence in shown.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_the_extra_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_nano(tmp_path / "a.root", 5)
    monkeypatch.setitem(sys.modules, "uproot", None)
    result = invoke("convert", "--mapping", "nanoaod", path, "--out", tmp_path / "a.h5")
    assert "ROOT files need the extra 'root': `pip install -e '.[root]'" in str(result.exception)


def test_the_output_must_be_named(tmp_path: Path) -> None:
    result = invoke("convert", "--mapping", "nanoaod", write_nano(tmp_path / "a.root", 5))
    assert result.exit_code == 2
    assert "Missing option '--out'" in result.output
