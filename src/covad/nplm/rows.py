"""The rows of a fully connected network: numbers per event of which its derivatives are made.

For one event: layer l = 1..L has weights and biases W^l (bias last), inputs a^{l-1} (a 1 appended) and
pre-activations u^l, and h = u^L. With delta^l = dh/du^l, the first derivatives of h are delta^l_j a^{l-1}_i.
With S^{lm} = d delta^l / du^m and T^{lm} = d a^l / du^m, the second ones are, for l >= m,

    d2h / dW^l_ji dW^m_nk = S^{lm}_jn a^{l-1}_i a^{m-1}_k + delta^l_j T^{l-1,m}_in a^{m-1}_k.

log L has the slope c = n - w e^f and the curvature q = w e^f in f; its curvature is the sum over events of

    K^{lm}_jn a^{l-1}_i a^{m-1}_k - c delta^l_j T^{l-1,m}_in a^{m-1}_k,   K = q delta^l delta^m - c S^{lm}:

products of a *left* row (K, or the like) and a *right* row (a, or a product of two), each a number per event.
There are few distinct rows, so that the exact Hessian costs no more than that of Gauss and Newton.
In the code l is `high` and m is `low`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
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
    """Weights and biases: 45 for 4-4-4-1."""
    return sum(n * (m + 1) for m, n in pairwise(widths))


def packed(j: int, n: int) -> int:
    """Place of (j, n), j >= n, in a packed lower triangle."""
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
        """Pairs of hidden layers, the higher one first."""
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
