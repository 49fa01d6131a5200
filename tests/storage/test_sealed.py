import json
from contextlib import suppress
from pathlib import Path

import pytest

from covad.errors import CovadError, DamagedFileError
from covad.storage.sealed import read_json, read_sealed, write_sealed

CONTENT = {"b": [1, 2.5, float("inf")], "a": {"c": None, "d": "é"}}


def test_content_comes_back_without_its_seal(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.json"
    write_sealed(path, CONTENT | {"pair": (1, 2)})
    assert read_sealed(path) == CONTENT | {"pair": [1, 2]}
    assert read_sealed(tmp_path / "none.json") is None


def test_no_flip_changes_the_content(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(path, CONTENT)
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with suppress(CovadError):
                assert read_sealed(path) == CONTENT


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "", "\x00", '{"a": ' * 100_000])
def test_what_is_not_json_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(DamagedFileError, match=r"file\.json: cannot be read"):
        read_json(path)


def test_edits_by_hand_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(path, CONTENT)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"a": 1}))
    with pytest.raises(DamagedFileError, match="changed by hand"):
        read_sealed(path)
