"""Records return from JSON as they were, and whatever is not theirs is refused in one sentence."""

import json
import math
from dataclasses import dataclass
from enum import StrEnum

import pytest

from covad.errors import FileFormatError
from covad.storage.records import Record, plain, restore, write_record


class Kind(StrEnum):
    FIRST = "the first"


@dataclass(frozen=True)
class Part(Record):
    low: float | None


@dataclass(frozen=True)
class Whole(Record):
    number: float
    parts: tuple[Part, ...]
    kind: Kind


@dataclass(frozen=True)
class Larger(Whole):
    nu: tuple[float, ...]


LARGER = Larger(math.inf, (Part(None), Part(-0.1)), Kind.FIRST, (0.5, 1.0))


def test_a_record_returns_from_its_file(tmp_path):
    path = tmp_path / "folder" / "a.json"
    write_record(path, LARGER)
    content = json.loads(path.read_text())
    assert content == {
        "number": math.inf,
        "parts": [{"low": None}, {"low": -0.1}],
        "kind": "the first",
        "nu": [0.5, 1.0],
    }
    assert restore(Larger, content, "a.json") == LARGER
    assert restore(dict[str, Larger], {"x": content}, "a.json") == {"x": LARGER}


def test_nan_is_a_number_like_any_other():
    assert math.isnan(restore(Part, json.loads(json.dumps(plain(Part(math.nan)))), "here").low)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"more": 1}, "a.json: cannot be read, it has an unknown key 'more'"),
        ({"parts": [{}]}, "a.json: cannot be read, the key 'parts.0.low' is missing"),
        ({"parts": [{"low": 1, "height": 2}]}, "it has an unknown key 'parts.0.height'"),
        ({"parts": [3]}, "parts.0: a JSON object was expected"),
        ({"kind": "the last"}, "kind: it should be 'the first'"),
        ({"number": "many"}, "number: it should be a valid number"),
        ({"nu": None}, "nu: it should be a valid tuple"),
    ],
)
def test_what_does_not_belong_there_is_named(change, said):
    with pytest.raises(FileFormatError) as refused:
        restore(Larger, plain(LARGER) | change, "a.json")
    assert said in str(refused.value)


@pytest.mark.parametrize("content", [None, [], 3, "text"])
def test_anything_but_an_object_is_refused(content):
    with pytest.raises(FileFormatError, match=r"a\.json: cannot be read, a JSON object was expected"):
        restore(Larger, content, "a.json")
