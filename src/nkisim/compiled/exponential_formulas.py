"""The formulas by which NumPy finds exp of float32, one for each kind of processor.

With AVX-512 NumPy takes a quotient of two polynomials on the remainder of a division by log 2, in
float32. On Arm it leaves it to the C library; glibc's has float64, a table of roots of two and a
polynomial of third degree. Both are repeated here, operation by operation, so the bits are theirs.
Callers make sure of that before they use them.

Importing this module imports numba.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from llvmlite import ir

from nkisim.compiled.processor import float_lanes
from nkisim.compiled.vectors import FLOAT, call, constant

__all__ = ["LANES", "LEAST", "MOST", "PLAIN_NAN", "VECTOR", "exp_between", "exp_of_nan", "number"]

LANES = float_lanes() or 4  # any processor can do that, only not with NumPy's bits
"""Elements of a vector."""

PLAIN_NAN = LANES == 16
"""Whether exp of NaN is always the same NaN, with nothing in its lower half."""

LEAST, MOST = -103.97208404541015625, 88.72283935546875
"""Up to and from which exp is 0 and infinite."""

VECTOR = ir.VectorType(FLOAT, LANES)

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
_DOUBLE = ir.DoubleType()
_LOG2_E = 1.442695040888963407359924681001892137

_TO_INTEGER = float.fromhex("0x1.8p+23")  # adding and subtracting it rounds to an integer
_TO_INTEGER_64 = float.fromhex("0x1.8p+52")
_LOG_2 = (-6.93145752e-1, -1.42860677e-6)  # negative, in two parts
_NUMERATOR = (
    5.082762527590693718096e-04,
    6.757896990527504603057e-03,
    5.114512081637298353406e-02,
    2.473615434895520810817e-01,
    7.257664613233124478488e-01,
    9.999999999980870924916e-01,
)
_DENOMINATOR = (2.159509375685829852307e-02, -2.742335390411667452936e-01, 1.0)
_CURRENT_ROUNDING = 4

_ROOTS = 32  # steps from one power of two to the next
_CUBIC = tuple(
    float.fromhex(digits) / _ROOTS**power
    for power, digits in (
        (3, "0x1.c6af84b912394p-5"),
        (2, "0x1.ebfce50fac4f3p-3"),
        (1, "0x1.62e42ff0c52d6p-1"),
    )
)


def number(value: float) -> ir.Constant:
    """Return a number in every lane."""
    return constant(FLOAT, LANES, float(np.float32(value)))


def exp_between(builder: Any, x: Any) -> Any:
    """Emit exp of a vector whose elements lie between the bounds."""
    return _quotient(builder, x) if LANES == 16 else _from_table(builder, x)


def exp_of_nan(builder: Any, x: Any) -> Any:
    """Emit what exp of a vector of NaNs is."""
    return number(np.nan) if PLAIN_NAN else builder.fadd(x, x)


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    kind = "f32" if a.type.element == FLOAT else "f64"
    return call(builder, f"llvm.fma.v{a.type.count}{kind}", a.type, a, b, c)


def _polynomial(builder: Any, coefficients: tuple[float, ...], x: Any) -> Any:
    value = number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fused(builder, value, x, number(coefficient))
    return value


def _quotient(builder: Any, x: Any) -> Any:
    power = builder.fmul(x, number(_LOG2_E))
    power = builder.fsub(builder.fadd(power, number(_TO_INTEGER)), number(_TO_INTEGER))
    rest = x
    for part in _LOG_2:
        rest = _fused(builder, power, number(part), rest)
    value = builder.fdiv(
        _polynomial(builder, _NUMERATOR, rest), _polynomial(builder, _DENOMINATOR, rest)
    )
    every = ir.Constant(_I16, -1)
    rounding = ir.Constant(_I32, _CURRENT_ROUNDING)
    name = "llvm.x86.avx512.mask.scalef.ps.512"
    return call(builder, name, VECTOR, value, power, value, every, rounding)


def _roots_of_two() -> list[int]:
    """Return the float64 of all roots, as patterns less what the number of the root adds to them.

    The pattern of a root times a power of two is then a sum: of that, and of the number of the root
    shifted to where the exponent begins, in which whole powers are counted on.
    """
    patterns = []
    for k in range(_ROOTS):
        digits = 1 << k << _ROOTS * 54  # the root times 2**54, to the 32nd power
        for _ in range(_ROOTS.bit_length() - 1):
            digits = isqrt(digits)
        mantissa = (digits + 2) // 4 - (1 << 52)
        patterns.append((1023 << 52) + mantissa - (k << 47))
    return patterns


def _from_table(builder: Any, x: Any) -> Any:
    lanes = ir.VectorType(_DOUBLE, LANES)
    whole = ir.VectorType(_I64, LANES)

    def same(value: float) -> ir.Constant:
        return constant(_DOUBLE, LANES, value)

    scaled = builder.fmul(builder.fpext(x, lanes), same(_LOG2_E * _ROOTS))
    # glibc rounds halves away from zero, this to even: no float32 has an exp that tells.
    shifted = builder.fadd(scaled, same(_TO_INTEGER_64))
    rest = builder.fsub(scaled, builder.fsub(shifted, same(_TO_INTEGER_64)))
    count = builder.bitcast(shifted, whole)  # in its lower bits
    roots = _table(builder)
    power = ir.Constant(lanes, ir.Undefined)
    for lane in range(LANES):  # in the registers of integers, which have nothing else to do
        at = ir.Constant(_I32, lane)
        number_of_root = builder.extract_element(count, at)
        which = builder.and_(number_of_root, ir.Constant(_I64, _ROOTS - 1))
        root = builder.load(builder.gep(roots, [ir.Constant(_I64, 0), which]))
        pattern = builder.add(root, builder.shl(number_of_root, ir.Constant(_I64, 47)))
        power = builder.insert_element(power, builder.bitcast(pattern, _DOUBLE), at)
    third, second, first = (same(c) for c in _CUBIC)
    value = _fused(builder, first, rest, same(1.0))
    upper = _fused(builder, third, rest, second)
    value = _fused(builder, upper, builder.fmul(rest, rest), value)
    return builder.fptrunc(builder.fmul(value, power), VECTOR)


def _table(builder: Any) -> Any:
    """Return the roots as a constant of the module that is being built."""
    name = "roots_of_two"
    if name in builder.module.globals:
        return builder.module.globals[name]
    values = _roots_of_two()
    table = ir.GlobalVariable(builder.module, ir.ArrayType(_I64, len(values)), name)
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(table.value_type, values)
    return table
