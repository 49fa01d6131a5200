"""e^x that the compiler can vectorise: numba's own calls the C library event by event.

In float32 it is written out: x = n ln2 + r, e^r by a polynomial, 2^n by its bits. Every step is exact or a
fused multiply-add, so that the compiler's licence to reorder sums does not touch it. In float64 it is the
C library's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
