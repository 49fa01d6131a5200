"""Compiled sums over events: value, gradient and curvature of log L for a fully connected network.

Events are packed in tiles, coordinates first: a tile and the rows that are computed from it (see
`architecture.py`) stay in the cache, and the innermost loops run over the events of a tile, which the
compiler turns into vectors.
Sums run in the events' own precision inside a tile and in float64 from tile to tile. Fits run in float32;
the same code in float64 checks it. Only `sum_tiles` is cached on disk: a function whose parts were cached on
their own may be compiled differently from a fresh one, and then differs in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from covad.nplm.network.architecture import RIGHT

#: Arguments beyond this are clipped: e^88.7 is the end of float32.
RANGE = 87.0
#: e^r = 1 + r + r^2 P(r) for |r| <= ln2/2, with P of the least maximal relative error, 3e-9.
_POLYNOMIAL = (0.499999935, 0.166665207, 0.0416683874, 0.00836870984, 0.00138146130)
_BITS = ir.IntType(32)
_FLOAT = ir.FloatType()


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_FLOAT, float(np.float32(value)))


def _call(builder: Any, name: str, *values: Any) -> Any:
    function = builder.module.declare_intrinsic(name, [values[0].type])
    return builder.call(function, values)


def _written_out(builder: Any, x: Any) -> Any:
    """The float32 exponential, instruction by instruction."""
    for comparison, limit in ((">", RANGE), ("<", -RANGE)):
        beyond = builder.fcmp_ordered(comparison, x, _constant(limit))
        x = builder.select(beyond, _constant(limit), x)
    n = _call(builder, "llvm.rint", builder.fmul(x, _constant(1.0 / math.log(2.0))))
    r = builder.fma(n, _constant(-math.log(2.0)), x)
    p = _constant(_POLYNOMIAL[-1])
    for coefficient in (*_POLYNOMIAL[-2::-1], 1.0, 1.0):
        p = builder.fma(p, r, _constant(coefficient))
    exponent = builder.add(builder.fptosi(n, _BITS), ir.Constant(_BITS, 127))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(_BITS, 23)), _FLOAT)
    return builder.fmul(p, power)


def _exponential(_context: Any, x: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        if x == types.float32:
            return _written_out(builder, args[0])
        return _call(builder, "llvm.exp", args[0])

    return x(x), generate


#: e^x in the precision of x, for use in compiled functions.
exponential = cast(Callable[[Any], Any], intrinsic(_exponential))

#: Events of a tile: long enough for the sums, short enough for the cache.
TILE = 320
#: Sums may be reordered into vectors, and products fused into them; nothing else is relaxed.
_RELAXED = {"reassoc", "contract", "nsz"}
_F = TypeVar("_F", bound=Callable[..., Any])


def _part(function: _F) -> _F:
    """Compile a part of a kernel."""
    return cast(_F, njit(fastmath=_RELAXED, error_model="numpy")(function))


def _kernel(function: _F) -> _F:
    """Compile a kernel, all parts included, and keep it on disk."""
    return cast(_F, njit(fastmath=_RELAXED, error_model="numpy", cache=True)(function))


@_part
def _multiply(rows: Any, out: int, a: int, b: int) -> None:
    for e in range(TILE):
        rows[out, e] = rows[a, e] * rows[b, e]


@_part
def _add_product(rows: Any, out: int, a: int, b: int) -> None:
    for e in range(TILE):
        rows[out, e] += rows[a, e] * rows[b, e]


@_part
def _scale(rows: Any, out: int, factor: Any, a: int) -> None:
    for e in range(TILE):
        rows[out, e] = factor * rows[a, e]


@_part
def _add_scaled(rows: Any, out: int, factor: Any, a: int) -> None:
    for e in range(TILE):
        rows[out, e] += factor * rows[a, e]


@_part
def _combine(
    rows: Any, out: int, theta: Any, first: int, step: int, source: int, stride: int, count: int
) -> None:
    """rows[out] = sum_r theta[first + r step] rows[source + r stride], the first four terms at once."""
    r = 1
    if count < 4:
        _scale(rows, out, theta[first], source)
    else:
        r = 4
        w0, w1, w2, w3 = theta[first], theta[first + step], theta[first + 2 * step], theta[first + 3 * step]
        a1, a2, a3 = source + stride, source + 2 * stride, source + 3 * stride
        for e in range(TILE):
            rows[out, e] = (w0 * rows[source, e] + w1 * rows[a1, e]) + (w2 * rows[a2, e] + w3 * rows[a3, e])
    while r < count:
        _add_scaled(rows, out, theta[first + r * step], source + r * stride)
        r += 1


@_part
def _forward(rows: Any, theta: Any, at: Any, one: Any) -> None:
    """Activations of every layer; h goes to the row of the output's score."""
    depth = at.widths.size - 1
    for layer in range(1, depth + 1):
        n_weights = at.widths[layer - 1] + 1
        for unit in range(at.widths[layer]):
            out = at.inputs[layer] + unit if layer < depth else at.score[depth]
            first = at.weights[layer] + unit * n_weights
            _combine(rows, out, theta, first, 1, at.inputs[layer - 1], 1, n_weights)
            if layer < depth:
                for e in range(TILE):
                    rows[out, e] = one / (one + exponential(-rows[out, e]))


@_part
def _likelihood(rows: Any, counts: Any, theta: Any, at: Any, one: Any) -> Any:
    """log L of a tile; leaves its slope c = n - w e^f and curvature q = w e^f in f. counts: n, w, shift."""
    depth = at.widths.size - 1
    c, q = at.score[depth], at.weighted[depth]
    for r in range(at.n_columns):
        _add_scaled(rows, c, theta[at.weights[-1] + r], at.columns + r)
    total = one - one
    for e in range(TILE):
        f = rows[c, e] + counts[2, e]
        growth = exponential(f)
        total += counts[0, e] * f - counts[1, e] * (growth - one)
        rows[q, e] = counts[1, e] * growth
        rows[c, e] = counts[0, e] - counts[1, e] * growth
    return total


@_part
def _backward(rows: Any, theta: Any, at: Any, one: Any) -> None:
    """slope, bend, delta and score = c delta of the hidden layers."""
    depth = at.widths.size - 1
    for layer in range(depth - 1, 0, -1):
        width = at.widths[layer]
        for i in range(width):
            unit, slope, bend = at.inputs[layer] + i, at.slope[layer] + i, at.bend[layer] + i
            delta, first = at.delta[layer] + i, at.weights[layer + 1] + i
            if layer == depth - 1:
                _scale(rows, bend, theta[first], at.inputs[0] + at.widths[0])
            else:
                _combine(rows, bend, theta, first, width + 1, at.delta[layer + 1], 1, at.widths[layer + 1])
            for e in range(TILE):
                a = rows[unit, e]
                rows[slope, e] = a * (one - a)
                rows[delta, e] = a * (one - a) * rows[bend, e]
                rows[bend, e] *= one - (a + a)
            _multiply(rows, at.score[layer] + i, at.score[depth], delta)


@_part
def _jacobians(rows: Any, theta: Any, at: Any) -> None:
    """T^{lm} = d a^l / du^m for hidden l > m; T^{mm} is diagonal, and is `slope`."""
    for high in range(2, at.widths.size - 1):
        n_inputs = at.widths[high - 1]
        for low in range(1, high):
            width = at.widths[low]
            for i in range(at.widths[high]):
                first, slope = at.weights[high] + i * (n_inputs + 1), at.slope[high] + i
                for n in range(width):
                    out = at.jacobian[high, low] + i * width + n
                    if low == high - 1:
                        weight, below = theta[first + n], at.slope[low] + n
                        for e in range(TILE):
                            rows[out, e] = weight * rows[below, e] * rows[slope, e]
                    else:
                        _combine(rows, out, theta, first, 1, at.jacobian[high - 1, low] + n, width, n_inputs)
                        _multiply(rows, out, out, slope)


@_part
def _seconds(rows: Any, theta: Any, at: Any) -> None:
    """S^{lm} = d delta^l / du^m for hidden l >= m, from S^{Lm} = 0 down; S^{ll} below its diagonal only.

    In the last hidden layer S^{ll} is diagonal, and nothing else of it is written.
    """
    depth = at.widths.size - 1
    for high in range(depth - 1, 0, -1):
        width, above = at.widths[high], at.widths[high + 1]
        for low in range(1, high + 1):
            for i in range(width):
                first, slope, bend = at.weights[high + 1] + i, at.slope[high] + i, at.bend[high] + i
                for n in range(i + 1 if low == high else at.widths[low]):
                    out = at.second[high, low] + i * at.widths[low] + n
                    jacobian = slope if low == high else at.jacobian[high, low] + i * at.widths[low] + n
                    if high == depth - 1:
                        if low < high or i == n:
                            _multiply(rows, out, bend, jacobian)
                        continue
                    source = at.second[high + 1, low] + n
                    _combine(rows, out, theta, first, width + 1, source, at.widths[low], above)
                    _multiply(rows, out, out, slope)
                    if low < high or i == n:
                        _add_product(rows, out, bend, jacobian)


@_part
def _hidden_rows(rows: Any, at: Any) -> None:
    """Left and right rows of pairs of hidden layers."""
    depth = at.widths.size - 1
    c = at.score[depth]
    for high in range(1, depth):
        for low in range(1, high + 1):
            left, right = at.left[high, low], at.right[high, low]
            for j in range(at.widths[high]):
                for n in range(j + 1 if low == high else at.widths[low]):
                    weighted, delta = at.weighted[high] + j, at.delta[low] + n
                    second = at.second[high, low] + j * at.widths[low] + n
                    if low == depth - 1 and j != n:
                        _multiply(rows, left, weighted, delta)
                    else:
                        for e in range(TILE):
                            rows[left, e] = rows[weighted, e] * rows[delta, e] - rows[c, e] * rows[second, e]
                    left += 1
            for i in range(at.widths[high - 1] + 1):
                for k in range(i + 1 if low == high else at.widths[low - 1] + 1):
                    _multiply(rows, right, at.inputs[high - 1] + i, at.inputs[low - 1] + k)
                    right += 1


@_part
def _cross_rows(rows: Any, at: Any) -> None:
    """-c delta^l_j T^{l-1,m}_in for hidden l > m."""
    for high in range(2, at.widths.size - 1):
        for low in range(1, high):
            out = at.cross[high, low]
            for j in range(at.widths[high]):
                score = at.score[high] + j
                first = at.slope[low] if low == high - 1 else at.jacobian[high - 1, low]
                count = at.widths[low] * (1 if low == high - 1 else at.widths[high - 1])
                for i in range(count):
                    for e in range(TILE):
                        rows[out, e] = -rows[score, e] * rows[first + i, e]
                    out += 1


@_part
def _output_rows(rows: Any, at: Any) -> None:
    """q a^{L-1}_i delta^m_n - c T^{L-1,m}_in, and nuisance column times q delta^m."""
    depth = at.widths.size - 1
    top = depth - 1
    c = at.score[depth]
    for low in range(1, depth + 1):
        out = at.output[low]
        width = at.widths[low]
        for i in range(at.widths[top] + 1):
            for n in range(width):
                a, b = at.inputs[top] + i, at.weighted[low] + n
                if i < at.widths[top] and low < depth and (low < top or i == n):
                    jacobian = at.slope[top] + i if low == top else at.jacobian[top, low] + i * width + n
                    for e in range(TILE):
                        rows[out, e] = rows[a, e] * rows[b, e] - rows[c, e] * rows[jacobian, e]
                else:
                    _multiply(rows, out, a, b)
                out += 1
        for r in range(at.n_columns):
            for n in range(width):
                _multiply(rows, at.shared[low] + r * width + n, at.columns + r, at.weighted[low] + n)


@_part
def _second_order(rows: Any, theta: Any, at: Any) -> None:
    """All rows that only the curvature needs."""
    depth = at.widths.size - 1
    for layer in range(1, depth):
        for i in range(at.widths[layer]):
            _multiply(rows, at.weighted[layer] + i, at.weighted[depth], at.delta[layer] + i)
    _jacobians(rows, theta, at)
    _seconds(rows, theta, at)
    _hidden_rows(rows, at)
    _cross_rows(rows, at)
    _output_rows(rows, at)


@_part
def _add_products(rows: Any, products: Any, sums: Any, zero: Any) -> None:
    """Add the sums over events of two left rows times five right rows, for every entry of the table."""
    for t in range(products.shape[0]):
        i, k = products[t]
        s0 = s1 = s2 = s3 = s4 = zero
        t0 = t1 = t2 = t3 = t4 = zero
        for e in range(TILE):
            x, y = rows[i, e], rows[i + 1, e]
            s0 += x * rows[k, e]
            t0 += y * rows[k, e]
            s1 += x * rows[k + 1, e]
            t1 += y * rows[k + 1, e]
            s2 += x * rows[k + 2, e]
            t2 += y * rows[k + 2, e]
            s3 += x * rows[k + 3, e]
            t3 += y * rows[k + 3, e]
            s4 += x * rows[k + 4, e]
            t4 += y * rows[k + 4, e]
        for column, (s, u) in enumerate(((s0, t0), (s1, t1), (s2, t2), (s3, t3), (s4, t4))):
            sums[t, column] += s
            sums[t, RIGHT + column] += u


@_kernel
def sum_tiles(
    tiles: Any, counts: Any, theta: Any, at: Any, products: Any, order: int, rows: Any, sums: Any, scores: Any
) -> float:
    """log L without auxiliary terms; `sums` gets the products of `products`, which are of the given order.

    tiles: coordinates and nuisance columns (tiles, rows, TILE); counts: n, w, a shift of f (tiles, 3, TILE).
    order: 0 value, 1 gradient, 2 curvature. `scores` gets the slope c of each event.
    """
    one = rows.dtype.type(1)
    value = 0.0
    n_dimensions = at.widths[0]
    c = at.score[at.widths.size - 1]
    sums[:] = 0.0
    for t in range(tiles.shape[0]):
        rows[:n_dimensions] = tiles[t, :n_dimensions]
        rows[at.columns : at.columns + tiles.shape[1] - n_dimensions] = tiles[t, n_dimensions:]
        _forward(rows, theta, at, one)
        value += _likelihood(rows, counts[t], theta, at, one)
        scores[t] = rows[c]
        if order > 0:
            _backward(rows, theta, at, one)
        if order > 1:
            _second_order(rows, theta, at)
        _add_products(rows, products, sums, one - one)
    return value
