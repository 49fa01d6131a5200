"""Files reach their place whole or not at all."""

import stat
from pathlib import Path

import pytest

from covad.errors import FileWriteError
from covad.storage.atomic import replacing, writing


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent, "a rename is atomic within one file system only"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def interrupt(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_an_interrupted_file_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path / "result.json")
    assert list(tmp_path.iterdir()) == []


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "result.json") as temporary:
        temporary.touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_forgetting_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileWriteError, match="No such file"), replacing(tmp_path / "result.json"):
        pass


def test_one_sentence_with_the_path_and_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "result.json"
    said = rf"^{path}: cannot be written \(No such file or directory\): make its folder first$"
    with pytest.raises(FileWriteError, match=said), writing(path):
        path.write_text("")
