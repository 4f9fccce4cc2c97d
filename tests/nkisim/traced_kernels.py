"""Forty legal kernels of NKI 0.7.0 that use Python as it is; see ``test_traced_language.py``."""

import contextlib
import functools
import itertools
import math
import operator
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum

import nkisim.isa as nisa
import nkisim.language as nl

KERNELS = {}


def kernel(function):
    KERNELS[function.__name__] = function
    return function


def tile_like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)


def loaded(x):
    tile = tile_like(x)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def scaled(tile, factor):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)


@kernel
def nested_function(x):
    def twice(tile):
        scaled(tile, 2.0)

    tile = loaded(x)
    twice(tile)
    return stored(tile)


@kernel
def closure(x):
    tile, factor = loaded(x), 3.0

    def apply():
        scaled(tile, factor)

    apply()
    return stored(tile)


@kernel
def counter_by_nonlocal(x):
    tile, calls = loaded(x), 0

    def apply():
        nonlocal calls
        calls += 1
        scaled(tile, float(calls))

    apply()
    apply()
    return stored(tile)


@kernel
def a_lambda(x):
    tile = loaded(x)
    factor = (lambda n: n + 0.5)(1)
    scaled(tile, factor)
    return stored(tile)


@kernel
def default_arguments(x):
    def apply(tile, factor=2.0, *, more=1.0):
        scaled(tile, factor * more)

    tile = loaded(x)
    apply(tile, more=2.0)
    return stored(tile)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def apply(self, tile):
        scaled(tile, self.factor)


class DoubleScale(Scale):
    def apply(self, tile):
        super().apply(tile)
        super().apply(tile)


class Named:
    def label(self):
        return type(self).__name__.lower()


class NamedScale(DoubleScale, Named):
    @property
    def half(self):
        return self.factor / 2


@kernel
def inheritance(x):
    tile = loaded(x)
    DoubleScale(2.0).apply(tile)
    return stored(tile)


@kernel
def several_bases(x):
    tile, scale = loaded(x), NamedScale(2.0)
    if scale.label() == "namedscale":
        scale.apply(tile)
    return stored(tile)


@kernel
def a_property(x):
    tile = loaded(x)
    scaled(tile, NamedScale(4.0).half)
    return stored(tile)


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


@kernel
def slots(x):
    tile = loaded(x)
    scaled(tile, Slotted(1.5).factor)
    return stored(tile)


@kernel
def class_in_a_kernel(x):
    class Local:
        factor = 1.25

    tile = loaded(x)
    scaled(tile, Local.factor)
    return stored(tile)


@dataclass(frozen=True)
class Settings:
    factor: float = 2.0
    steps: list = field(default_factory=lambda: [1, 2])

    @classmethod
    def of(cls, factor):
        return cls(factor=factor)


@kernel
def dataclasses_with_classmethods(x):
    tile, settings = loaded(x), Settings.of(0.5)
    for step in settings.steps:
        scaled(tile, settings.factor * step)
    return stored(tile)


class Mode(Enum):
    PLAIN = 1
    DOUBLE = 2


@kernel
def enums_and_match(x, mode=Mode.DOUBLE):
    tile = loaded(x)
    match mode:
        case Mode.DOUBLE:
            scaled(tile, 2.0)
        case _:
            scaled(tile, 1.0)
    return stored(tile)


@kernel
def match_on_a_shape(x):
    tile = loaded(x)
    match x.shape:
        case (rows, columns) if rows <= columns:
            scaled(tile, float(columns))
        case _:
            scaled(tile, 0.5)
    return stored(tile)


def columns_of(x, width):
    for start in range(0, x.shape[1], width):
        yield slice(start, min(start + width, x.shape[1]))


@kernel
def generator(x):
    tile = loaded(x)
    for part in columns_of(x, 24):
        scaled(tile[:, part], 2.0)
    return stored(tile)


def nested_parts(x):
    yield from columns_of(x, 16)


@kernel
def generator_of_a_generator(x):
    tile = loaded(x)
    for part in nested_parts(x):
        scaled(tile[:, part], 3.0)
    return stored(tile)


@kernel
def list_comprehension(x):
    tile = loaded(x)
    for part in [tile[:, i : i + 8] for i in range(0, x.shape[1], 8)]:
        scaled(part, 2.0)
    return stored(tile)


@kernel
def dict_and_set_comprehensions(x):
    tile = loaded(x)
    factors = {i: float(i + 1) for i in range(3)}
    for i in sorted({1, 2} | set(factors)):
        scaled(tile, factors[i])
    return stored(tile)


@kernel
def generator_expression(x):
    tile = loaded(x)
    scaled(tile, float(sum(i * i for i in range(3))))
    return stored(tile)


@kernel
def enumerate_and_zip(x):
    tile = loaded(x)
    for i, (start, factor) in enumerate(zip((0, 8), (2.0, 3.0), strict=True)):
        scaled(tile[:, start : start + 8], factor + i)
    return stored(tile)


@kernel
def itertools_product(x):
    tile = loaded(x)
    for a, b in itertools.product((1.0, 2.0), repeat=2):
        scaled(tile, a / b)
    return stored(tile)


@kernel
def functools_reduce_and_partial(x):
    tile = loaded(x)
    factor = functools.reduce(operator.mul, (1.0, 2.0, 3.0))
    functools.partial(scaled, tile)(factor)
    return stored(tile)


def halves(depth, start, stop):
    if depth == 0:
        return [(start, stop)]
    middle = (start + stop) // 2
    return halves(depth - 1, start, middle) + halves(depth - 1, middle, stop)


@kernel
def recursion_of_static_depth(x):
    tile = loaded(x)
    for start, stop in halves(2, 0, x.shape[1]):
        scaled(tile[:, start:stop], 2.0)
    return stored(tile)


@contextlib.contextmanager
def temporary(x):
    tile = tile_like(x)
    nisa.memset(tile, 1.0)
    yield tile


@kernel
def context_manager(x):
    tile = loaded(x)
    with temporary(x) as ones:
        nisa.tensor_tensor(dst=tile, data1=tile, data2=ones, op=nl.add)
    return stored(tile)


class Scope:
    def __enter__(self):
        return 2.0

    def __exit__(self, *error):
        return None


@kernel
def manager_class(x):
    tile = loaded(x)
    with Scope() as factor:
        scaled(tile, factor)
    return stored(tile)


def logged(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


@logged
def decorated_helper(tile, factor):
    scaled(tile, factor)


@kernel
def decorated_function(x):
    tile = loaded(x)
    decorated_helper(tile, factor=2.0)
    return stored(tile)


def apply_all(tile, *factors, **named):
    for factor in (*factors, *named.values()):
        scaled(tile, factor)


@kernel
def variable_arguments_in_a_helper(x):
    tile = loaded(x)
    factors, named = (2.0, 3.0), {"last": 0.5}
    apply_all(tile, *factors, **named)
    return stored(tile)


@kernel
def try_and_raise(x):
    tile = loaded(x)
    try:
        raise KeyError("no such factor")
    except KeyError:
        scaled(tile, 2.0)
    finally:
        scaled(tile, 0.5)
    return stored(tile)


@kernel
def walrus_and_chained_comparison(x):
    tile = loaded(x)
    if 0 < (columns := x.shape[1]) <= math.floor(512.5):
        scaled(tile, 1.0 / columns)
    return stored(tile)


@kernel
def loop_with_else(x):
    tile = loaded(x)
    for i in range(3):
        if i == 5:
            break
    else:
        scaled(tile, 2.0)
    return stored(tile)


@kernel
def stored_range_and_reversed(x):
    tile, steps = loaded(x), range(1, 4)
    for step in reversed(steps):
        scaled(tile, float(step))
    return stored(tile)


@kernel
def unpacking(x):
    tile = loaded(x)
    first, *others = (2.0, 3.0, 4.0)
    factors = [first, *others]
    factors[0], factors[1] = factors[1], factors[0]
    scaled(tile, factors[0] * max(*others, 1.0, key=abs))
    return stored(tile)


@kernel
def text_methods(x):
    tile = loaded(x)
    name = f"scale:{2}".split(":")[1].strip()
    scaled(tile, float(f"{int(name):d}"))
    return stored(tile)


@kernel
def list_and_dict_methods(x):
    tile, factors = loaded(x), [3.0, 1.0, 2.0]
    factors.sort(key=lambda n: -n)
    table = dict(zip("abc", factors, strict=True)) | {"d": 4.0}
    table.setdefault("e", 5.0)
    scaled(tile, table.pop("a") + factors.index(1.0))
    del table["b"]
    return stored(tile)


@kernel
def negative_division_and_large_integers(x):
    tile = loaded(x)
    large = 2**40
    scaled(tile, float(-7 // -2 + -7 % 3 + large // 2**39))
    return stored(tile)


@kernel
def identity_and_import(x):
    import math as numbers

    tile, marker = loaded(x), object()
    same = marker
    if same is marker:
        scaled(tile, numbers.hypot(3.0, 4.0))
    return stored(tile)


@kernel
def keyword_only(x, *, factor=2.0):
    tile = loaded(x)
    scaled(tile, factor)
    return stored(tile)


Pair = namedtuple("Pair", "first second")


@kernel
def named_tuples_and_tuple_keys(x):
    tile, pair = loaded(x), Pair(2.0, 3.0)
    table = {(0, 0): pair.first, (0, 1): pair.second}
    for factor in table.values():
        scaled(tile, factor)
    return stored(tile)


@kernel
def compiled_loop(x):
    tile = loaded(x)

    def body(i):
        scaled(tile, 2.0)

    nl.fori_loop(0, 3, body)
    return stored(tile)


@kernel
def compiled_loop_over_rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = [[x.shape[1], 1], [1, x.shape[1]]]

    def body(i):
        tile = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap(row, scalar_offset=i * 2 - i))
        nisa.dma_copy(dst=out.ap(row, scalar_offset=i), src=tile)

    nl.fori_loop(0, x.shape[0], body)
    return out


@kernel
def tiles_of_a_grid(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    source, target = (nl.tiles(t, tile_shape=(16, 20)) for t in (x, out))
    cells = itertools.product(*map(range, source.shape))
    for i, j in cells:
        tile = nl.ndarray(source[i, j].element_shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[i, j].data)
        nisa.dma_copy(dst=target[i, j].data, src=tile)
    return out
