"""Functions x output dtypes x faults: what is right passes every case, what is wrong fails in one.

``python -m tests.nkisim.comparison.test_compared_functions`` prints the table.

A fault applies to a function and an output dtype where it changes the float64 result, in some case,
by more than four roundings of that dtype, or a result of integers at all.
"""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from nkisim.dtypes import DTYPES
from nkisim.judging.cases import cases_of
from nkisim.trials.arguments import Arguments
from nkisim.trials.comparison import Expected
from nkisim.trials.references import Reference

from . import numpy_functions

torch_functions = pytest.importorskip(
    f"{__package__}.torch_functions", reason="torch is optional for nkisim"
)

FUNCTIONS = {
    **torch_functions.ELEMENTWISE,
    **torch_functions.ORDER,
    **torch_functions.SUMS,
    **torch_functions.INTEGERS,
    **numpy_functions.ELEMENTWISE,
    **numpy_functions.SUMS,
}
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "float32", "bfloat16")
"""Dtypes of results that are integers, where they hold them."""


class Case:
    """One case of a function, evaluated in float64 and in float32."""

    def __init__(self, function, arguments):
        self.arguments = arguments
        self.reference = Reference(function)
        self.expected = Expected(self.reference, arguments)
        self.single = self.reference(arguments, np.float32)[0].astype(np.float64)
        self.x, self.y = (a.astype(np.float64) for a in arguments.args)

    @property
    def right(self):
        return self.expected.results[0].astype(np.float64)

    def narrow(self):
        """The result for inputs in bfloat16, in bfloat16."""
        inputs = Arguments(tuple(a.astype(ml_dtypes.bfloat16) for a in self.arguments.args), {})
        found = self.reference(inputs, np.float32)[0]
        return found.astype(ml_dtypes.bfloat16).astype(np.float64)

    def passes(self, values, dtype):
        """Whether these values pass as an output of a dtype."""
        kind = np.dtype(bool) if dtype == "bool" else DTYPES[dtype].numpy
        with np.errstate(all="ignore"):
            got = np.rint(values).astype(kind) if kind.kind in "biu" else values.astype(kind)
        out_dtype = None if kind.kind in "biu" else dtype
        return self.expected.compared([got], out_dtype=out_dtype).passed


@cache
def cases(name):
    rng = np.random.default_rng(7)
    scales = 2.0 ** np.arange(8)[:, None] / 16, np.where(np.arange(40) == 39, 30.0, 1.0)
    given = tuple((s * rng.uniform(0.5, 1.5, (8, 40))).astype(np.float32) for s in scales)
    made = cases_of(Arguments(given, {}), 5, [], hostile=True, nonfinite=False)
    return [Case(FUNCTIONS[name], case.arguments) for case in made]


def swapped(case):
    found = case.right.copy()
    if len(found) > 1:
        found[[0, 1]] = found[[1, 0]]
    return found


def shortened(name, case):
    """The result with one term less in its sums; without a sum, with its last element missing."""
    if name in numpy_functions.DEFINITIONS:
        return numpy_functions.DEFINITIONS[name](case.x, case.y, numpy_functions.one_less)
    found = case.right.copy()
    found.flat[-1] = 0.0
    return found


def halved(name, case):
    if name not in numpy_functions.DEFINITIONS:
        return case.right
    return numpy_functions.DEFINITIONS[name](case.x, case.y, numpy_functions.half)


FAULTS = {
    "zeros": lambda name, case: 0.0 * case.right,
    "half of a sum": halved,
    "one element less": shortened,
    "bfloat16 inside": lambda name, case: case.narrow(),
    "factor 1.01": lambda name, case: 1.01 * case.right,
    "rows swapped": lambda name, case: swapped(case),
}


def changes(case, values, dtype):
    """Whether a fault changes the float64 result by more than four roundings of a dtype."""
    kind, right = DTYPES[dtype].numpy, case.right
    if kind.kind in "iu" or case.expected.results[0].dtype.kind in "biu":
        return bool((np.rint(values) != right).any())
    limits = ml_dtypes.finfo(kind)
    most, unit = float(limits.max), float(limits.eps) / 2
    with np.errstate(all="ignore"):
        moved = np.abs(np.clip(values, -most, most) - np.clip(right, -most, most))
    least = np.maximum(4 * unit * np.abs(right), float(limits.smallest_normal))
    return bool((np.isfinite(right) & (moved > least)).any())


def applied(name, dtype, fault):
    """Yield the cases in which a fault changes the result, each with the wrong result."""
    wider = dtype in ("float32", "float16") or name in torch_functions.INTEGERS
    if fault == "bfloat16 inside" and not wider:
        return
    for case in cases(name):
        with np.errstate(all="ignore"):
            values = FAULTS[fault](name, case)
        if changes(case, values, dtype):
            yield case, values


def outcome(name, dtype, fault):
    """``"-"`` if a fault does not apply, ``"found"`` if it fails in a case, else ``"MISSED"``."""
    found = "-"
    for case, values in applied(name, dtype, fault):
        if not case.passes(values, dtype):
            return "found"
        found = "MISSED"
    return found


def dtypes_of(name):
    if name not in torch_functions.INTEGERS:
        return FLOATS
    bools = () if name == "greater" else ("bool",)
    unsigned = ("uint8", "uint16", "uint32") if name == "quantised" else ()
    return [dtype for dtype in WHOLE if dtype not in (*bools, *unsigned)]


def row(name, dtype):
    """The outcomes of the function in float32, and of all faults."""
    right = all(case.passes(case.single, dtype) for case in cases(name))
    faults = [outcome(name, dtype, fault) for fault in FAULTS]
    return ["passes" if right else "FAILS", *faults]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_in_float32_passes_and_faults_do_not(name):
    rows = {dtype: row(name, dtype) for dtype in dtypes_of(name)}
    assert {right for right, *_ in rows.values()} == {"passes"}, rows
    assert not any("MISSED" in faults for _, *faults in rows.values()), rows


@pytest.mark.parametrize("name", numpy_functions.DEFINITIONS)
def test_definitions_are_those_of_the_functions(name):
    case = cases(name)[1]
    again = numpy_functions.DEFINITIONS[name](case.x, case.y, numpy_functions.np_total)
    np.testing.assert_allclose(again, case.right, rtol=1e-9, atol=1e-12)


def test_at_least_two_thirds_of_the_faults_apply():
    triples = [(n, d, f) for n in FUNCTIONS for d in dtypes_of(n) for f in FAULTS]
    without = [triple for triple in triples if next(applied(*triple), None) is None]
    print(f"{len(FUNCTIONS)} functions; no fault in {len(without)} of {len(triples)} pairs")
    assert len(FUNCTIONS) >= 60
    assert len(without) <= len(triples) / 3


def table():
    print(f"{'function':<24}{'dtype':<15}{'float32':<9}" + "".join(f"{f:<18}" for f in FAULTS))
    for name in FUNCTIONS:
        for dtype in dtypes_of(name):
            right, *faults = row(name, dtype)
            print(f"{name:<24}{dtype:<15}{right:<9}" + "".join(f"{f:<18}" for f in faults))
    test_at_least_two_thirds_of_the_faults_apply()


if __name__ == "__main__":
    table()
