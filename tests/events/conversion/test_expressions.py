"""The language of mappings: right on lists of any length, and no more than arithmetic."""

import math

import numpy as np
import pytest

from covad.errors import MappingError
from covad.events.conversion.columns import Column, of_fixed_length
from covad.events.conversion.expressions import FUNCTIONS, parse

JETS = [[50.0, 20.0], [], [30.0], [10.0, 5.0, 1.0]]
ETAS = [[0.5, -2.0], [], [1.0], [-3.0, 0.0, 2.0]]
ISOLATED = [[True], [], [False, True], []]
MET = [5.0, 40.0, -3.0, 0.0]
RUN = [1, 2, 3, 4]


def of_lists(lists: list[list], dtype: type) -> Column:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    return Column(np.array([x for one in lists for x in one], dtype=dtype), offsets)


COLUMNS = {
    "Jet_pt": of_lists(JETS, np.float32),
    "Jet_eta": of_lists(ETAS, np.float32),
    "Jet_id": of_lists([[6, 2], [], [0], [6, 4, 6]], np.uint8),
    "Muon_iso": of_lists(ISOLATED, np.bool_),
    "Jet.PT": of_lists(JETS, np.float32),
    "MET": Column(np.array(MET, dtype=np.float32)),
    "run": Column(np.array(RUN, dtype=np.uint32)),
    "flag": Column(np.array([1, 0, 2, 0], dtype=np.int8)),
    "fired": Column(np.array([True, True, False, False])),
    "scales": of_fixed_length(np.arange(12).reshape(4, 3)),
}


def evaluate(text: str) -> list:
    column = parse(text).evaluate(COLUMNS.__getitem__)
    if column.offsets is None:
        return column.values.tolist()
    return [column.values[a:b].tolist() for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MET + 2 * run - 1", [6.0, 43.0, 2.0, 7.0]),
        ("-MET / 2", [-2.5, -20.0, 1.5, 0.0]),
        ("run // 2 + run % 2", [1, 1, 2, 2]),
        ("2 ** run", [2.0, 4.0, 8.0, 16.0]),
        ("Jet_pt / 10", [[x / 10 for x in one] for one in JETS]),
        ("Jet_pt * run", [[x * r for x in one] for one, r in zip(JETS, RUN, strict=True)]),
        ("Jet_pt > 15 and abs(Jet_eta) < 1.5", [[True, False], [], [True], [False] * 3]),
        ("(Jet_pt > 15) & (Jet_eta < 1)", [[True, True], [], [False], [False] * 3]),
        ("Jet_id & 4", [[4, 0], [], [0], [4, 4, 4]]),
        ("(Jet_id & 4) > 0 or Jet_pt > 25", [[True, False], [], [True], [True] * 3]),
        ("0 <= MET < 10", [True, False, False, True]),
        ("not fired", [False, False, True, True]),
        ("~fired | (run == 1)", [True, False, True, True]),
        ("flag and fired", [True, False, False, False]),
        ("sum(Jet_pt)", [70.0, 0.0, 30.0, 16.0]),
        ("sum(Jet_pt > 15)", [2, 0, 1, 0]),
        ("count(Jet_pt)", [2, 0, 1, 3]),
        ("any(Jet_pt > 25)", [True, False, True, False]),
        ("all(Jet_pt > 25)", [False, True, True, False]),
        ("any(Muon_iso)", [True, False, True, False]),
        ("where(count(Jet_pt) > 0, max(Jet_pt), 0)", [50.0, 0.0, 30.0, 10.0]),
        ("max(MET, 0, run)", [5.0, 40.0, 3.0, 4.0]),
        ("min(Jet_pt, 20)", [[20.0, 20.0], [], [20.0], [10.0, 5.0, 1.0]]),
        ("at(Jet_pt, 0, -1)", [50.0, -1.0, 30.0, 10.0]),
        ("at(Jet_pt, -1, MET)", [20.0, 40.0, 30.0, 1.0]),
        ("at(Jet_pt, 1, 0)", [20.0, 0.0, 0.0, 5.0]),
        ("scales[1]", [1, 4, 7, 10]),
        ("scales[-1] + scales[0]", [2, 8, 14, 20]),
        ("sum(Jet.PT)", [70.0, 0.0, 30.0, 16.0]),
        ("isfinite(log(MET))", [True, True, False, False]),
        ("delta_phi(3, -3) * run / run", [6 - 2 * math.pi] * 4),
        ("fired + fired", [2, 2, 0, 0]),
        ("True * run", [1, 2, 3, 4]),
        ("run * pi", [math.pi * r for r in RUN]),
        ("hypot(3, 4) * run", [5.0, 10.0, 15.0, 20.0]),
    ],
)
def test_expressions_say_what_python_would_for_every_event(text: str, expected: list) -> None:
    found = evaluate(text)
    if found and isinstance(found[0], list):
        for one, right in zip(found, expected, strict=True):
            assert one == pytest.approx(right)
    else:
        assert found == pytest.approx(expected)


def test_the_largest_of_nothing_passes_no_cut() -> None:
    assert evaluate("max(Jet_pt) > 0") == [True, False, True, True]
    assert evaluate("min(Jet_pt) < 1e9") == [True, False, True, True]


def test_small_types_do_not_overflow() -> None:
    column = {
        "x": Column(np.array([200, 100], dtype=np.uint8)),
        "y": Column(np.array([1e30], dtype=np.float32)),
    }
    assert parse("x + x").evaluate(column.__getitem__).values.tolist() == [400, 200]
    assert parse("x - 201").evaluate(column.__getitem__).values.tolist() == [-1, -101]
    assert parse("y * y").evaluate(column.__getitem__).values[0] == pytest.approx(1e60)


def test_single_precision_is_compared_in_double() -> None:
    column = Column(np.array([0.1], dtype=np.float32))  # 0.100000001490116
    assert parse("x > 0.1").evaluate(lambda _: column).values.tolist() == [True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("__import__('os')", "there is no function '__import__'"),
        ("open('/etc/passwd')", "there is no function 'open'"),
        ("eval('1')", "there is no function 'eval'"),
        ("os.system('ls')", "there is no function 'os.system'"),
        ("Jet_pt.tofile('x')", "there is no function 'Jet_pt.tofile'"),
        ("(1).__class__", "a dot stands only in the name of a branch"),
        ("''.join", "a dot stands only in the name of a branch"),
        ("'text'", "''text'' is not part of the language"),
        ("lambda: 1", "is not part of the language"),
        ("[x for x in Jet_pt]", "is not part of the language"),
        ("(x := 3)", "is not part of the language"),
        ("{}", "is not part of the language"),
        ("MET if run else 2", "write where(condition, yes, no)"),
        ("import os", "is not an expression"),
        ("MET +", "is not an expression"),
        ("", "is not an expression"),
        ("MET is run", "is not part of the language"),
        ("MET in run", "is not part of the language"),
        ("sum(Jet_pt, axis=1)", "without names or stars"),
        ("sum(*Jet_pt)", "without names or stars"),
        ("sqrt(1, 2)", "sqrt takes 1 argument, not 2"),
        ("where(1)", "where takes 3 arguments, not 1"),
        ("Jet_pt[run]", "an index is one whole number"),
        ("Jet_pt[0:2]", "an index is one whole number"),
        ("at(Jet_pt, run, 0)", "an index is one whole number"),
        ("1" * 30, "a number is too large"),
        ("1e999", "a number is too large"),
        ("-" * 80 + "1", "nested too deeply"),
        ("(" * 3000 + "1" + ")" * 3000, "is not an expression (too many nested parentheses)"),
        ("x" * 20_000, "characters, more than"),
        ("MET > 10 & run < 2", "bind more tightly than comparisons"),
        ("MET > 10 | fired", "bind more tightly than comparisons"),
        ("1j * MET", "is not part of the language"),
    ],
)
def test_what_is_not_arithmetic_is_refused_unread(text: str, sentence: str) -> None:
    with pytest.raises(MappingError) as failure:
        parse(text)
    assert sentence in str(failure.value)
    assert len(str(failure.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Jet_pt + Muon_iso", "lists of different lengths are combined"),
        ("sum(MET)", "a list of numbers per event is needed"),
        ("MET[0]", "a list of numbers per event is needed"),
        ("Jet_pt[0]", "entry [0] is asked for, but a list has only 0"),
        ("Jet_pt[1]", "at(x, 1, 0) puts a number of yours there"),
        ("MET and fired", "write a comparison"),
        ("not MET", "write a comparison"),
        ("~run", "'~' needs a comparison"),
        ("MET & fired", "need comparisons or whole numbers on both sides"),
        ("run & fired", "need comparisons or whole numbers on both sides"),
        ("at(Jet_pt, 0, Jet_pt)", "needs one number per event"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_text(text: str, sentence: str) -> None:
    with pytest.raises(MappingError) as failure:
        evaluate(text)
    assert sentence in str(failure.value)
    assert f"'{text}': " in str(failure.value)


def test_a_list_is_no_number_per_event() -> None:
    with pytest.raises(MappingError, match=r"has a list of numbers per event where one number is needed"):
        parse("Jet_pt").per_event(COLUMNS.__getitem__, 4)
    assert parse("2").per_event(COLUMNS.__getitem__, 4).tolist() == [2, 2, 2, 2]


def test_names_are_those_of_columns() -> None:
    assert parse("sum(Jet.PT * (run > 2)) / pi").names == {"Jet.PT", "run"}
    assert set(FUNCTIONS) >= {"abs", "sqrt", "where", "sum", "count", "any", "all", "min", "max", "at"}


@pytest.mark.parametrize("name", ["__builtins__", "self", "np", "lookup", "os.environ"])
def test_a_name_can_only_be_looked_up(name: str) -> None:
    """Whatever a name is in Python, here it is the name of a branch, which a file has or not."""
    asked = []

    def lookup(wanted: str) -> Column:
        asked.append(wanted)
        return COLUMNS["run"]

    parse(f"{name} + 1").evaluate(lookup)
    assert asked == [name]
