"""``nkisim.outline``: it says of a call what the call itself does."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case

from .traced_kernels import KERNELS

X = np.ones((4, 8), np.float32)


def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def converted(x, dtype=nl.bfloat16):
    out = nl.ndarray((x.shape[0], 3), dtype=dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[:, 0:3]))
    return out


def in_place(x, y):
    nl.store(x, nl.multiply(nl.load(y), 2.0))
    return x


def lost(x, y):
    nl.store(x, nl.load(y))
    return double(y)


def part(x, y):
    nl.store(x, nl.load(y))
    return x[0:2]


def several(x, pair, count):
    nl.store(pair[1], nl.load(x))
    return {"new": double(x), "rest": (pair[1], x)}, count


def repeated(x):
    return x, double(x), x


def both_cores(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    half = x.shape[0] // nl.num_programs(0)
    rows = slice(core * half, (core + 1) * half)
    nl.store(out[rows], nl.load(x[rows]))
    return out


def counted(x, count):
    limit = nisa.register_alloc()
    held = nl.load(count)
    nisa.register_load(limit, held)
    tile = nl.load(x)
    for _ in nl.dynamic_range(limit):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


CALLS = {
    "new": (double, (X,)),
    "bfloat16": (double, (X.astype(ml_dtypes.bfloat16),)),
    "bool": (converted, (X, nl.bool_)),
    "converted": (converted, (X,)),
    "float8": (converted, (X, nl.float8_e4m3)),
    "in place": (in_place, (X.copy(), X)),
    "lost": (lost, (X.copy(), X)),
    "part": (part, (X.copy(), X)),
    "several": (several, (X, [X, X.copy()], 3)),
    "repeated": (repeated, (X,)),
    "two cores": (nkisim.jit(both_cores)[2], (X,)),
    "loop by value": (counted, (X, np.full((1, 1), 3, np.int32))),
}


def leaves(value):
    if isinstance(value, nkisim.Outline):
        value = value.results
    if type(value) is dict:
        value = tuple(value.values())
    if type(value) in (tuple, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


@pytest.mark.filterwarnings("ignore::nkisim.NkiFindingWarning")
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_call(name):
    kernel, args = CALLS[name]
    found = nkisim.outline(kernel)(*args)
    given = [np.array(leaf) for leaf in leaves(args) if isinstance(leaf, np.ndarray)]
    results = leaves(nkisim.simulate(kernel)(*args))
    assert len(leaves(found)) == len(results)
    for spec, result in zip(leaves(found), results, strict=True):
        if isinstance(result, np.ndarray):
            assert spec.shape == result.shape
            assert (spec.dtype == "bool") == (result.dtype == bool)
            assert result.dtype in (bool, spec.dtype.numpy)
        else:
            assert spec == result
    after = [leaf for leaf in leaves(args) if isinstance(leaf, np.ndarray)]
    changed = sum(not np.array_equal(old, new) for old, new in zip(given, after, strict=True))
    assert changed <= len(found.written)


@each_case("name", list(KERNELS))
def test_results_of_any_python(name, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.7")
    x = np.arange(32 * 48, dtype=np.float32).reshape(32, 48)
    specs = leaves(nkisim.outline(KERNELS[name], target="gen3", lnc=1)(x))
    results = leaves(nkisim.simulate(KERNELS[name], target="gen3", lnc=1)(x))
    assert [(s.shape, s.dtype) for s in specs] == [(r.shape, r.dtype) for r in results]


@pytest.mark.parametrize(
    ("name", "written", "not_returned", "arguments"),
    [
        ("new", (), (), [""]),
        ("in place", ("x",), (), ["x"]),
        ("lost", ("x",), ("x",), [""]),
        ("part", ("x",), ("x",), [""]),
        ("several", ("pair[1]",), (), ["", "pair[1]", "x"]),
        ("repeated", (), (), ["x", "", "x"]),
        ("two cores", (), (), [""]),
    ],
)
def test_written_arguments(name, written, not_returned, arguments):
    kernel, args = CALLS[name]
    found = nkisim.outline(kernel)(*args)
    assert (found.written, found.not_returned) == (written, not_returned)
    specs = [leaf for leaf in leaves(found) if hasattr(leaf, "argument")]
    assert [spec.argument for spec in specs] == arguments


def test_nothing_is_computed():
    class Shape:
        shape, dtype = (128, 1 << 20), "float32"

    args = np.broadcast_to(np.float32(np.nan), (4, 8)), X.copy()
    nkisim.outline(lost)(args[1], args[0])
    assert np.array_equal(args[1], X)

    def rows(x):
        out = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[:, 0:1]))
        return out

    assert nkisim.outline(rows)(Shape()).results.shape == (128, 1)


def test_an_outline_is_made_once_per_signature():
    runs = []

    def noted(x, factor=1.0, names=()):
        runs.append((x.shape, str(x.dtype), factor, names))
        return double(x)

    calls = [
        lambda outline: outline(X),
        lambda outline: outline(X[:2]),
        lambda outline: outline(X.astype(np.float16)),
        lambda outline: outline(X, 2.0),
        lambda outline: outline(X, 2),
        lambda outline: outline(X, 0.0),
        lambda outline: outline(X, -0.0),
        lambda outline: outline(X, names=("a",)),
        lambda outline: outline(X, names=("b",)),
        lambda _: nkisim.outline(noted, target="gen2")(X),
        lambda _: nkisim.outline(noted, nki="0.6")(X),
    ]
    for _ in range(2):
        for call in calls:
            call(nkisim.outline(noted))
    assert len(runs) == len(calls)
    first, second = (nkisim.outline(noted)(X.copy()) for _ in range(2))
    assert first is second


def test_arguments_that_may_change_are_run_each_time():
    class Config:
        width = 2

    def wide(x, config):
        out = nl.ndarray((x.shape[0], config.width), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[:, 0 : config.width]))
        return out

    config = Config()
    assert nkisim.outline(wide)(X, config).results.shape == (4, 2)
    config.width = 3
    assert nkisim.outline(wide)(X, config).results.shape == (4, 3)


def test_an_illegal_call_raises_as_the_call_does():
    def tall(x):
        tile = nl.ndarray((256, 8), dtype=x.dtype, buffer=nl.sbuf)
        return tile

    with pytest.raises(nkisim.NkiValidationError) as outlined:
        nkisim.outline(tall)(X)
    with pytest.raises(nkisim.NkiValidationError) as called:
        nkisim.simulate(tall)(X)
    assert outlined.value.finding.rule == called.value.finding.rule
    with pytest.raises(nkisim.NkiValidationError, match=r"argument x.*float64"):
        nkisim.outline(double)(X.astype(np.float64))
    with pytest.raises(TypeError, match="function"):
        nkisim.outline(3)
