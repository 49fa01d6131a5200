"""Which products of rows make the gradient and the curvature of a network, and where they belong in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

#: Sums are taken for this many left and right rows at once: ten accumulators fill the vector registers.
LEFT, RIGHT = 2, 5


class RowMap(NamedTuple):
    """First row of every quantity, indexed by layer [l] or by pair of layers [l, m]; -1 where it has none."""

    widths: Integers
    weights: Integers  # [l]: first parameter of W^l
    inputs: Integers  # [l]: a^l and the 1
    columns: int  # derivatives of f by the nuisances
    n_columns: int
    slope: Integers  # [l]: sigma'(u^l)
    bend: Integers  # [l]: (1 - 2 a^l) dh/da^l, so that sigma''(u^l) dh/da^l = bend slope
    delta: Integers  # [l]
    score: Integers  # [l]: c delta^l
    weighted: Integers  # [l]: q delta^l
    jacobian: Integers  # [l, m]: T^{lm}, l > m
    second: Integers  # [l, m]: S^{lm}, l >= m
    left: Integers  # [l, m]: K^{lm}, packed for l = m
    right: Integers  # [l, m]: a^{l-1} a^{m-1}, packed for l = m
    cross: Integers  # [l, m]: -c delta^l_j T^{l-1,m}_in, L > l > m; only i = n where m = l - 1
    output: Integers  # [m]: q a^{L-1}_i delta^m_n - c T^{L-1,m}_in, all of l = L
    shared: Integers  # [m]: nuisance column times q delta^m
    n_rows: int


def count_parameters(widths: tuple[int, ...]) -> int:
    """Return the number of weights and biases: 45 for 4-4-4-1."""
    return sum(n * (m + 1) for m, n in pairwise(widths))


def packed(j: int, n: int) -> int:
    """Return the place of (j, n), j >= n, in a packed lower triangle."""
    return j * (j + 1) // 2 + n


class _Counter:
    """Hands out rows."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self.n_rows = 0
        self.depth = len(widths) - 1

    def take(self, count: int) -> int:
        self.n_rows += count
        return self.n_rows - count

    def layers(self, layers: range, count: Callable[[int], int]) -> Integers:
        first = np.full(self.depth + 1, -1, dtype=np.int64)
        for layer in layers:
            first[layer] = self.take(count(layer))
        return first

    def pairs(self, count: Callable[[int, int], int]) -> Integers:
        """Give rows to the pairs of hidden layers, the higher one first."""
        first = np.full((self.depth + 1, self.depth + 1), -1, dtype=np.int64)
        for high in range(1, self.depth):
            for low in range(1, high + 1):
                first[high, low] = self.take(count(high, low))
        return first


def lay_out(widths: tuple[int, ...], n_columns: int) -> RowMap:
    """Give every quantity its rows, for a network with a number of nuisance columns."""
    d = np.array(widths, dtype=np.int64)
    depth = len(widths) - 1
    hidden, every = range(1, depth), range(1, depth + 1)
    rows = _Counter(widths)

    def square(high: int, low: int) -> int:
        return widths[high] * widths[low]

    def triangle(high: int, low: int) -> int:
        return packed(widths[low], 0) if high == low else square(high, low)

    def monomials(high: int, low: int) -> int:
        n, m = widths[high - 1] + 1, widths[low - 1] + 1
        return packed(n, 0) if high == low else n * m

    def crossed(high: int, low: int) -> int:
        return 0 if high == low else square(high, low) * (1 if low == high - 1 else widths[high - 1])

    first_weight = np.cumsum([0, 0, *(d[1:] * (d[:-1] + 1))])
    result = RowMap(
        widths=d,
        weights=first_weight.astype(np.int64),
        inputs=rows.layers(range(depth), lambda layer: widths[layer] + 1),
        columns=rows.take(n_columns),
        n_columns=n_columns,
        slope=rows.layers(hidden, lambda layer: widths[layer]),
        bend=rows.layers(hidden, lambda layer: widths[layer]),
        delta=rows.layers(hidden, lambda layer: widths[layer]),
        score=rows.layers(every, lambda layer: widths[layer]),
        weighted=rows.layers(every, lambda layer: widths[layer]),
        jacobian=rows.pairs(square),
        second=rows.pairs(square),
        left=rows.pairs(triangle),
        right=rows.pairs(monomials),
        cross=rows.pairs(crossed),
        output=rows.layers(every, lambda layer: (widths[depth - 1] + 1) * widths[layer]),
        shared=rows.layers(every, lambda layer: n_columns * widths[layer]),
        n_rows=0,
    )
    rows.take(LEFT + RIGHT)  # sums beyond the end of a quantity are taken, and not used
    return result._replace(n_rows=rows.n_rows)


Pair = tuple[int, int]


@dataclass
class ProductTable:
    """Sums over events of left row times right row, and where they belong in a vector or a matrix."""

    tiles: list[Pair] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)

    def add(self, left: int, right: int, targets: dict[Pair, list[int]]) -> None:
        """Add rows from `left` on times rows from `right` on; targets[i, k] are the places of a product."""
        n_left = 1 + max(i for i, _ in targets)
        n_right = 1 + max(k for _, k in targets)
        for k0, i0 in product(range(0, n_right, RIGHT), range(0, n_left, LEFT)):
            base = len(self.tiles) * LEFT * RIGHT
            self.tiles.append((left + i0, right + k0))
            for i, k in product(range(LEFT), range(RIGHT)):
                places = targets.get((i0 + i, k0 + k), [])
                self.sources += [base + i * RIGHT + k] * len(places)
                self.targets += places

    def frozen(self, size: int) -> RowProducts:
        return RowProducts(
            np.array(self.tiles, dtype=np.int64).reshape(-1, 2),
            np.array(self.sources, dtype=np.int64),
            np.array(self.targets, dtype=np.int64),
            size,
        )


@dataclass(frozen=True)
class RowProducts:
    """A finished product table."""

    tiles: Integers  # (tiles, 2): first left row, first right row
    sources: Integers
    targets: Integers
    size: int

    def collect(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vector (or flattened matrix) that the sums make."""
        return np.asarray(
            np.bincount(self.targets, sums.ravel()[self.sources], minlength=self.size), np.float64
        )


@dataclass(frozen=True)
class Architecture:
    """A network of given widths with a number of nuisance columns: its rows and its products."""

    widths: tuple[int, ...]
    n_columns: int
    rows: RowMap
    gradient: RowProducts
    curvature: RowProducts

    @property
    def tiles(self) -> Integers:
        """Return the tiles of the gradient, then those of the curvature."""
        return np.concatenate([self.gradient.tiles, self.curvature.tiles])

    @property
    def n_parameters(self) -> int:
        return count_parameters(self.widths)

    @property
    def n_variables(self) -> int:
        return self.n_parameters + self.n_columns


@lru_cache(maxsize=64)
def architecture(widths: tuple[int, ...], n_columns: int) -> Architecture:
    """Lay out the rows and the products of a network."""
    rows = lay_out(widths, n_columns)
    size = count_parameters(widths) + n_columns
    gradient = _gradient_products(rows, n_columns).frozen(size)
    curvature = _curvature_products(rows, n_columns).frozen(size * size)
    return Architecture(widths, n_columns, rows, gradient, curvature)


class _Places:
    """Places of parameters and nuisances in the gradient, and of pairs of them in the curvature."""

    def __init__(self, rows: RowMap, n_columns: int) -> None:
        self.rows = rows
        self.size = int(rows.weights[-1]) + n_columns

    def weight(self, layer: int, unit: int, i: int) -> int:
        return int(self.rows.weights[layer] + unit * (self.rows.widths[layer - 1] + 1) + i)

    def nuisance(self, column: int) -> int:
        return int(self.rows.weights[-1]) + column

    def both(self, *pairs: Pair) -> list[int]:
        """Return the places of each pair and of its mirror image, once."""
        mirrored = {*pairs, *((b, a) for a, b in pairs)}
        return sorted(a * self.size + b for a, b in mirrored)


def _gradient_products(rows: RowMap, n_columns: int) -> ProductTable:
    """List the products of the gradient: c delta^l_n a^{l-1}_k of weights, c times a column of nuisances."""
    table, places = ProductTable(), _Places(rows, n_columns)
    depth = len(rows.widths) - 1
    for low in range(1, depth + 1):
        inputs = range(rows.widths[low - 1] + 1)
        units = range(rows.widths[low])
        table.add(
            rows.score[low],
            rows.inputs[low - 1],
            {(n, k): [places.weight(low, n, k)] for n, k in product(units, inputs)},
        )
    if n_columns:
        table.add(rows.score[depth], rows.columns, {(0, k): [places.nuisance(k)] for k in range(n_columns)})
    return table


def _curvature_products(rows: RowMap, n_columns: int) -> ProductTable:
    """List the products of the curvature, by pairs of layers: weight (j, i) of `high`, (n, k) of `low`."""
    table, places = ProductTable(), _Places(rows, n_columns)
    d, depth = rows.widths, len(rows.widths) - 1
    weight, both = places.weight, places.both
    for high in range(1, depth):
        # two weights of one hidden layer; rows of the pairs (j, n) and (i, k) are packed triangles
        units, inputs = range(d[high]), range(d[high - 1] + 1)
        within = {
            (packed(j, n), packed(i, k)): both(
                (weight(high, j, i), weight(high, n, k)), (weight(high, j, k), weight(high, n, i))
            )
            for j, n in product(units, repeat=2)
            for i, k in product(inputs, repeat=2)
            if j >= n and i >= k
        }
        table.add(rows.left[high, high], rows.right[high, high], within)
        for low in range(1, high):
            # weights of two hidden layers: K^{lm} a^{l-1} a^{m-1}
            low_units, low_inputs = range(d[low]), range(d[low - 1] + 1)
            between = {
                (j * d[low] + n, i * (d[low - 1] + 1) + k): both((weight(high, j, i), weight(low, n, k)))
                for j, n, i, k in product(units, low_units, inputs, low_inputs)
            }
            table.add(rows.left[high, low], rows.right[high, low], between)
            # the input of the upper weight depends on the lower one: only i = n in neighbouring layers
            if low == high - 1:
                crossed = {
                    (j * d[low] + n, k): both((weight(high, j, n), weight(low, n, k)))
                    for j, n, k in product(units, low_units, low_inputs)
                }
            else:
                crossed = {
                    ((j * d[high - 1] + i) * d[low] + n, k): both((weight(high, j, i), weight(low, n, k)))
                    for j, i, n, k in product(units, range(d[high - 1]), low_units, low_inputs)
                }
            table.add(rows.cross[high, low], rows.inputs[low - 1], crossed)
    for low in range(1, depth + 1):
        # a weight of the output, or a nuisance, and any weight
        low_units, low_inputs = range(d[low]), range(d[low - 1] + 1)
        with_output = {}
        for i, n, k in product(range(d[depth - 1] + 1), low_units, low_inputs):
            pair = (weight(depth, 0, i), weight(low, n, k))
            with_output[i * d[low] + n, k] = [pair[0] * places.size + pair[1]] if low == depth else both(pair)
        table.add(rows.output[low], rows.inputs[low - 1], with_output)
        if n_columns:
            with_nuisances = {
                (r * d[low] + n, k): both((places.nuisance(r), weight(low, n, k)))
                for r, n, k in product(range(n_columns), low_units, low_inputs)
            }
            table.add(rows.shared[low], rows.inputs[low - 1], with_nuisances)
    if n_columns:
        among = {
            (r, s): [places.nuisance(r) * places.size + places.nuisance(s)]
            for r, s in product(range(n_columns), repeat=2)
        }
        table.add(rows.shared[depth], rows.columns, among)
    return table
