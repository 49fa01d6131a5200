"""JSON texts that are none: always one sentence."""

import os
from pathlib import Path

import pytest

from covad.errors import FileFormatError
from covad.storage.json_files import parse_json, read_json, read_json_lines
from covad.storage.text_files import read_text


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "{", "\x00", "1" * 5000, b"\xff\xfe"])
def test_what_is_no_json_is_one_sentence(text: str | bytes) -> None:
    with pytest.raises(FileFormatError, match=r"^here: cannot be read, [^\n]*$"):
        parse_json(text, "here")


def test_lines_are_named(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n{"step": \n')
    with pytest.raises(FileFormatError, match=r"metrics.jsonl, line 2: cannot be read"):
        read_json_lines(file)


def test_a_missing_file_is_nothing(tmp_path: Path) -> None:
    assert read_json(tmp_path / "nothing.json") is None
    assert read_json_lines(tmp_path / "nothing.jsonl") == []


def test_only_regular_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**31)
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for path, reason in (
        (tmp_path / "pipe", "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "folder", "is a directory"),
        (tmp_path / "large", "has 2147483648 bytes"),
        (tmp_path / "latin", "not text in UTF-8"),
    ):
        with pytest.raises(FileFormatError, match=reason):
            read_text(path)
