"""`covad yields`: the table on stdout, nothing else."""

import json

import h5py
import pytest
import yaml
from click.testing import CliRunner
from weighted_files import RAW, YIELDS, weighted_study, write_processes

from covad.cli.main import commands
from covad.errors import EventContentError, StudyError

KEYS = {name: {"yield": value} for name, value in YIELDS.items()}


def write_study(path, files, processes=None):
    """A study file, without what covad fills in."""
    content = weighted_study(files, processes).plain()
    content["source"].pop("folder")
    if processes is not None:
        del content["sizes"]["expected"]
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return write_study(folder / "study.yaml", write_processes(folder), KEYS)


def invoke(*arguments):
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def test_the_table_is_shown_and_nothing_is_written(study):
    before = sorted(study.parent.iterdir())
    found = invoke("yields", study)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].split() == [
        *("process", "events", "selected", "effective", "negative", "efficiency", "yield", "share")
    ]
    assert [line.split()[0] for line in lines[1:]] == ["w", "qcd", "z", "ttbar", "total"]
    assert lines[1].split()[6:9] == ["118", "+-", "1.9"]
    assert sorted(study.parent.iterdir()) == before


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_weights_whose_squares_are_no_numbers_are_refused(tmp_path, size):
    files = write_processes(tmp_path)
    with h5py.File(files[1], "r+") as file:
        file["weight"][4:] = size
    with pytest.raises(
        EventContentError,
        match=r"qcd\.h5: the weight is 1e[-+]200 in event 4, not 0 or 1e-100 to 1e\+100 in size",
    ):
        raise invoke("yields", write_study(tmp_path / "study.yaml", files)).exception


def test_all_numbers_are_there_as_json(study):
    found = json.loads(invoke("yields", study, "--json").stdout)
    assert {line["process"]: line["events"] for line in found["processes"]} == RAW
    assert found["sizes_expected"] == sum(YIELDS.values())
    assert found["processes"][0]["share"] == pytest.approx(118 / 214)
    assert found["warnings"] == []


def test_a_study_without_a_table_is_refused(tmp_path):
    files = write_processes(tmp_path, size=None)
    with pytest.raises(
        StudyError, match=r"its files have no weights, and there are no processes: every event"
    ):
        raise invoke("yields", write_study(tmp_path / "study.yaml", files)).exception
