"""The language of mappings: expressions on columns, such as `sum(Jet_pt * (Jet_pt > 30)) > 200`.

Python's parser reads an expression, a whitelist refuses all but arithmetic, comparisons, logic, an index and
the functions below, and what is left is interpreted here. Nothing is ever handed to `eval`, and there are no
objects, attributes or texts: a dotted name such as `Jet.PT` is the name of a branch. `numexpr` would be as
safe, but it knows no lists of different lengths, and `Jet_pt` is one.

Numbers are computed in double precision and whole numbers in 64 bits, whatever the branch is stored in.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import MappingError
from covad.events.conversion.columns import Column, constant, elementwise, entry, reduced

#: Longer texts are no expressions of people.
_LONGEST = 10_000
#: Operations inside operations: more than anybody reads, and fewer than Python's stack has room for.
_DEEPEST = 60

Lookup = Callable[[str], Column]
Values = NDArray[Any]


def _numbers(values: Values) -> Values:
    """Return numbers to compute with: 64 bits, and truths as 0 and 1."""
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)


def _real(values: Values) -> Values:
    return values.astype(np.float64, copy=False)


def _delta_phi(a: Values, b: Values) -> Values:
    difference = _real(a) - _real(b)
    return difference - 2 * np.pi * np.round(difference / (2 * np.pi))


#: Functions of one or more numbers, with the number of their arguments.
_ELEMENTWISE: dict[str, tuple[int, Callable[..., Values]]] = {
    "abs": (1, lambda x: np.abs(_numbers(x))),
    "isfinite": (1, lambda x: np.isfinite(_real(x))),
    **{
        function.__name__: (1, lambda x, function=function: function(_real(x)))
        for function in (
            *(np.sqrt, np.exp, np.log, np.log10, np.floor, np.ceil, np.sin, np.cos, np.tan),
            *(np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh),
        )
    },
    "hypot": (2, lambda x, y: np.hypot(_real(x), _real(y))),
    "arctan2": (2, lambda y, x: np.arctan2(_real(y), _real(x))),
    "delta_phi": (2, _delta_phi),
}
#: Functions of one list per event.
_OF_LISTS = ("sum", "count", "any", "all")
#: Of one list per event, or of two and more numbers.
_EXTREMES = {"min": np.minimum, "max": np.maximum}
FUNCTIONS = tuple(sorted([*_ELEMENTWISE, *_OF_LISTS, *_EXTREMES, "at", "where"]))
_CONSTANTS = {"pi": math.pi}

_ARITHMETIC: dict[type[ast.operator], Callable[[Values, Values], Values]] = {
    ast.Add: lambda a, b: _numbers(a) + _numbers(b),
    ast.Sub: lambda a, b: _numbers(a) - _numbers(b),
    ast.Mult: lambda a, b: _numbers(a) * _numbers(b),
    ast.Div: lambda a, b: _real(a) / _real(b),
    ast.FloorDiv: lambda a, b: _numbers(a) // _numbers(b),
    ast.Mod: lambda a, b: _numbers(a) % _numbers(b),
    ast.Pow: lambda a, b: _real(a) ** _real(b),
}
_BITWISE: dict[type[ast.operator], np.ufunc] = {
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_COMPARISONS: dict[type[ast.cmpop], np.ufunc] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


@dataclass(frozen=True)
class Expression:
    """One expression that has been found harmless, and the names that it uses."""

    text: str
    names: frozenset[str]
    _tree: ast.expr = field(compare=False, repr=False)

    def evaluate(self, lookup: Lookup) -> Column:
        """Return the column that the expression describes; `lookup` returns the column of a name."""
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused where it would be used
                return _evaluate(self._tree, lookup)
        except MappingError as failure:
            raise MappingError(f"'{self.text}': {failure}") from failure

    def per_event(self, lookup: Lookup, n_events: int) -> Values:
        """Return one number per event, or raise MappingError if the expression has a list per event."""
        column = self.evaluate(lookup)
        if column.is_list:
            raise MappingError(
                f"'{self.text}': has a list of numbers per event where one number is needed: write an index, "
                "such as [0], or sum, max, any, count"
            )
        return np.broadcast_to(column.values, n_events)

    def truth(self, lookup: Lookup) -> Column:
        """Return yes or no, per event or per entry of a list."""
        column = self.evaluate(lookup)
        try:
            return column.with_values(_truth(column.values))
        except MappingError as failure:
            raise MappingError(f"'{self.text}': {failure}") from failure


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Read an expression; raise MappingError if it is more than arithmetic on columns."""
    if len(text) > _LONGEST:
        raise MappingError(
            f"an expression has {len(text)} characters, more than {_LONGEST}: write it shorter"
        )
    stripped = text.strip()
    try:
        tree = ast.parse(stripped, mode="eval").body
    except (SyntaxError, ValueError) as failure:
        why = failure.msg if isinstance(failure, SyntaxError) else failure
        raise MappingError(f"'{text}': is not an expression ({why})") from failure
    except (RecursionError, MemoryError) as failure:
        raise MappingError(f"'{stripped[:40]}' and on: is nested too deeply: use `derived`") from failure
    try:
        return Expression(stripped, frozenset(_checked(tree, stripped, 0)), tree)
    except MappingError as failure:
        raise MappingError(f"'{text}': {failure}") from failure


def _checked(node: ast.expr, text: str, depth: int) -> Iterator[str]:
    """Yield the names of columns in a node; raise MappingError at anything that the language has not."""
    if depth > _DEEPEST:
        raise MappingError("is nested too deeply: use `derived` for its parts")
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            if abs(value) == math.inf or (isinstance(value, int) and abs(value) >= 2**63):
                raise MappingError("a number is too large")
        case ast.Name() | ast.Attribute():
            name = _dotted(node)
            if name not in _CONSTANTS:
                yield name
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() | ast.Invert()):
            yield from _checked(node.operand, text, depth + 1)
        case ast.BinOp() if type(node.op) in _ARITHMETIC or type(node.op) in _BITWISE:
            for part in (node.left, node.right):
                yield from _checked(part, text, depth + 1)
        case ast.BoolOp():
            for part in node.values:
                yield from _checked(part, text, depth + 1)
        case ast.Compare() if all(type(op) in _COMPARISONS for op in node.ops):
            for part in (node.left, *node.comparators):
                _refuse_bare_bits(part, text)
                yield from _checked(part, text, depth + 1)
        case ast.Subscript():
            _index(node)
            yield from _checked(node.value, text, depth + 1)
        case ast.Call():
            _check_call(node)
            for part in node.args:
                yield from _checked(part, text, depth + 1)
        case ast.IfExp():
            raise MappingError("'if' is not part of the language: write where(condition, yes, no)")
        case _:
            what = ast.get_source_segment(text, node) or type(node).__name__
            raise MappingError(
                f"'{what}' is not part of the language, which has numbers, names of branches, arithmetic, "
                "comparisons, and, or, not, and functions"
            )


def _dotted(node: ast.expr) -> str:
    """Return the name of a branch, which may have dots."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise MappingError("a dot stands only in the name of a branch, such as Jet.PT")


def _refuse_bare_bits(node: ast.expr, text: str) -> None:
    """Raise MappingError at `a > 1 & b < 2`, which Python reads as `a > (1 & b) < 2`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BITWISE:
        encoded = text.encode()
        lines = encoded.splitlines(keepends=True)
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: (node.end_lineno or 1) - 1])) + (node.end_col_offset or 0)
        if not (encoded[:start].rstrip().endswith(b"(") and encoded[end:].lstrip().startswith(b")")):
            raise MappingError(
                "'&' and '|' bind more tightly than comparisons: write 'and' and 'or', or put each "
                "comparison in parentheses"
            )


def _index(node: ast.Subscript) -> int:
    try:
        index = ast.literal_eval(node.slice)
    except ValueError:
        index = None
    if not isinstance(index, int) or isinstance(index, bool) or abs(index) > 10**6:
        raise MappingError("an index is one whole number, such as [0] for the first or [-1] for the last")
    return index


def _check_call(node: ast.Call) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else None
    if name not in FUNCTIONS:
        called = name or ast.unparse(node.func)
        raise MappingError(f"there is no function '{called}' (there are {', '.join(FUNCTIONS)})")
    if node.keywords or any(isinstance(part, ast.Starred) for part in node.args):
        raise MappingError(f"{name} takes its arguments one after the other, without names or stars")
    given = len(node.args)
    if name in _EXTREMES:
        right, wanted = given >= 1, "a list, or two and more numbers"
    else:
        number = 3 if name in ("at", "where") else 1 if name in _OF_LISTS else _ELEMENTWISE[name][0]
        right, wanted = given == number, f"{number} argument" + "s" * (number > 1)
    if not right:
        raise MappingError(f"{name} takes {wanted}, not {given}")
    if name == "at":
        _index(ast.Subscript(node.args[0], node.args[1]))


def _evaluate(node: ast.expr, lookup: Lookup) -> Column:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return constant(value)
        case ast.Name() | ast.Attribute():
            name = _dotted(node)
            return constant(_CONSTANTS[name]) if name in _CONSTANTS else lookup(name)
        case ast.UnaryOp():
            return _unary(node.op, _evaluate(node.operand, lookup))
        case ast.BinOp():
            left, right = _evaluate(node.left, lookup), _evaluate(node.right, lookup)
            if type(node.op) in _ARITHMETIC:
                return elementwise(_ARITHMETIC[type(node.op)], left, right)
            if not ((left.is_truth and right.is_truth) or (left.is_whole and right.is_whole)):
                raise MappingError(
                    "'&', '|' and '^' need comparisons or whole numbers on both sides: put each comparison "
                    "in parentheses, or write 'and' and 'or'"
                )
            return elementwise(_BITWISE[type(node.op)], left, right)
        case ast.BoolOp():
            operation = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return _joined(operation, [_evaluate(part, lookup) for part in node.values])
        case ast.Compare():
            parts = [_evaluate(part, lookup) for part in (node.left, *node.comparators)]
            links = [
                elementwise(lambda a, b, op=op: _COMPARISONS[type(op)](_numbers(a), _numbers(b)), *pair)
                for op, pair in zip(node.ops, pairwise(parts), strict=True)
            ]
            return _joined(np.logical_and, links)
        case ast.Subscript():
            return entry(_evaluate(node.value, lookup), _index(node))
        case ast.Call(func=ast.Name(id=name)):
            return _call(name, node.args, lookup)
    raise AssertionError(f"{type(node).__name__} was not refused")


def _unary(operation: ast.unaryop, column: Column) -> Column:
    match operation:
        case ast.USub():
            return column.with_values(-_numbers(column.values))
        case ast.UAdd():
            return column.with_values(_numbers(column.values))
        case ast.Invert() if not column.is_truth:
            raise MappingError("'~' needs a comparison: write 'not', or '== 0'")
    return column.with_values(~_truth(column.values))


def _truth(values: Values) -> Values:
    """Return yes or no; whole numbers, such as flags in bytes, are yes unless they are 0."""
    if values.dtype.kind == "f":
        raise MappingError(
            "yes or no is needed, not a number with a fraction: write a comparison, such as > 0"
        )
    return values if values.dtype.kind == "b" else values != 0


def _joined(operation: np.ufunc, columns: list[Column]) -> Column:
    result = columns[0].with_values(_truth(columns[0].values))
    for column in columns[1:]:
        result = elementwise(lambda a, b: operation(a, _truth(b)), result, column)
    return result


def _call(name: str, arguments: list[ast.expr], lookup: Lookup) -> Column:
    if name == "at":
        index = _index(ast.Subscript(arguments[0], arguments[1]))
        return entry(_evaluate(arguments[0], lookup), index, _evaluate(arguments[2], lookup))
    columns = [_evaluate(part, lookup) for part in arguments]
    if name in _ELEMENTWISE:
        return elementwise(_ELEMENTWISE[name][1], *columns)
    if name == "where":
        return elementwise(
            lambda condition, yes, no: np.where(_truth(condition), _numbers(yes), _numbers(no)), *columns
        )
    if name in _EXTREMES and len(columns) > 1:
        result = columns[0]
        for column in columns[1:]:
            result = elementwise(lambda a, b: _EXTREMES[name](_numbers(a), _numbers(b)), result, column)
        return result
    column = columns[0]
    match name:
        case "count":
            return Column(column.counts)
        case "sum":
            values = _numbers(column.values)
            return reduced(column.with_values(values), np.add, values.dtype.type(0))
        case "any" | "all":
            truth = column.with_values(_truth(column.values))
            return reduced(truth, np.logical_or if name == "any" else np.logical_and, name == "all")
    return reduced(column.with_values(_real(column.values)), _EXTREMES[name], np.nan)
