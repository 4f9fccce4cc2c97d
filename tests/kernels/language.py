"""Twins about the language of kernels: Python that runs here and that the compiler refuses."""

import functools
from types import ModuleType

import numpy as np

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, source_twin, twin
from tiles import stored

try:
    import neuronxcc.nki.language as old_nl
except ImportError:
    old_nl = ModuleType("neuronxcc.nki.language")
    old_nl.exp = nl.exp

# -- definitions and statements --------------------------------------------------------------------


@source_twin(f32(64, 32))
def bad_L001(a):
    def doubled(tile):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        return tile

    return stored(doubled(nl.load(a)))


def doubled(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return tile


def good_L001(a):
    return stored(doubled(nl.load(a)))


@source_twin(f32(64, 32))
def bad_L002(a):
    tile = nl.load(a)
    width = lambda t: t.shape[1]  # here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / width(tile))
    return stored(tile)


def good_L002(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / tile.shape[1])
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L003(a):
    class Scale(nl.NKIObject):  # here
        factor: float

    tile = nl.load(a)
    factor = Scale(factor=2.0).factor
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile)


class Scale(nl.NKIObject):
    factor: float


def good_L003(a):
    tile = nl.load(a)
    factor = Scale(factor=2.0).factor
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile)


@source_twin(f32(64, 128))
def bad_L006(a):
    tile = nl.load(a)
    quarters = [tile[:, 32 * i : 32 * i + 32] for i in range(4)]  # here
    for quarter in quarters:
        nisa.activation(dst=quarter, op=nl.exp, data=quarter)
    return stored(tile)


def good_L006(a):
    tile = nl.load(a)
    quarters = []
    for i in range(4):
        quarters.append(tile[:, 32 * i : 32 * i + 32])
    for quarter in quarters:
        nisa.activation(dst=quarter, op=nl.exp, data=quarter)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L007(a):
    if a.shape[0] > 128:
        raise ValueError("too many rows")  # here
    return stored(nl.load(a))


def good_L007(a):
    assert a.shape[0] <= 128, "too many rows"
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def bad_L007_try(a):
    try:  # here
        rows, cols = a.shape
    except ValueError:
        rows, cols = a.shape[0], 1
    return stored(nl.load(a[0:rows, 0:cols]))


def good_L007_try(a):
    rows = a.shape[0]
    cols = a.shape[1] if len(a.shape) == 2 else 1
    return stored(nl.load(a[0:rows, 0:cols]))


@source_twin(f32(64, 32))
def bad_L008(a):
    import math  # here

    rows = math.ceil(a.shape[0] / 2)
    return stored(nl.load(a[0:rows]))


def good_L008(a):
    rows = (a.shape[0] + 1) // 2
    return stored(nl.load(a[0:rows]))


_CALLS = 0


@source_twin(f32(64, 32))
def bad_L009(a):
    global _CALLS  # here
    _CALLS = 1
    return stored(nl.load(a))


def good_L009(a):
    return stored(nl.load(a))


def halves(tile):
    middle = tile.shape[1] // 2
    yield tile[:, 0:middle]  # here
    yield tile[:, middle : 2 * middle]  # here


@source_twin(f32(64, 32), parts=(halves,))
def bad_L010(a):
    tile = nl.load(a)
    for half in halves(tile):
        nisa.activation(dst=half, op=nl.exp, data=half)
    return stored(tile)


def both_halves(tile):
    middle = tile.shape[1] // 2
    return tile[:, 0:middle], tile[:, middle : 2 * middle]


def good_L010(a):
    tile = nl.load(a)
    for half in both_halves(tile):
        nisa.activation(dst=half, op=nl.exp, data=half)
    return stored(tile)


@source_twin(f32(64, 32), "tanh")
def bad_L011(a, name):
    tile = nl.load(a)
    match name:  # here
        case "exp":
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        case "tanh":
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_L011(a, name):
    tile = nl.load(a)
    if name == "exp":
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    elif name == "tanh":
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L012(a):
    tile = nl.load(a)
    result = nl.exp(tile)
    del tile  # here
    return stored(result)


def good_L012(a):
    tile = nl.load(a)
    result = nl.exp(tile)
    return stored(result)


@source_twin(f32(64, 32))
def bad_L013(a):
    tile = nl.load(a)
    if (cols := a.shape[1]) > 16:  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / cols)
    return stored(tile)


def good_L013(a):
    tile = nl.load(a)
    cols = a.shape[1]
    if cols > 16:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / cols)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L014(a):
    with np.errstate(all="ignore"):  # here
        tile = nl.exp(nl.load(a))
    return stored(tile)


def good_L014(a):
    with nl.no_reorder():
        tile = nl.exp(nl.load(a))
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L014_as(a):
    with nl.no_reorder() as region:  # here
        tile = nl.exp(nl.load(a))
    return stored(tile)


def good_L014_as(a):
    with nl.no_reorder():
        tile = nl.exp(nl.load(a))
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L015(a):
    tile = nl.load(a)
    for width in (8, 32):  # here
        if width == tile.shape[1]:
            break
    else:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


def good_L015(a):
    tile = nl.load(a)
    known = False
    for width in (8, 32):
        if width == tile.shape[1]:
            known = True
    if not known:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L016(a):
    tile = nl.load(a)
    for start, stop in ((0, 8), (8, 32)):  # here
        nisa.activation(dst=tile[:, start:stop], op=nl.exp, data=tile[:, start:stop])
    return stored(tile)


def good_L016(a):
    tile = nl.load(a)
    for part in ((0, 8), (8, 32)):
        start, stop = part
        nisa.activation(dst=tile[:, start:stop], op=nl.exp, data=tile[:, start:stop])
    return stored(tile)


def total(*tiles):  # here
    for i in range(1, len(tiles)):
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[i], op=nl.add)
    return tiles[0]


@source_twin(f32(64, 32), f32(64, 32), parts=(total,))
def bad_L023(a, b):
    return stored(total(nl.load(a), nl.load(b)))


def total_of(tiles):
    for i in range(1, len(tiles)):
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[i], op=nl.add)
    return tiles[0]


def good_L023(a, b):
    return stored(total_of((nl.load(a), nl.load(b))))


def scaled(tile, **settings):  # here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=settings["factor"])
    return tile


@source_twin(f32(64, 32), parts=(scaled,))
def bad_L024(a):
    return stored(scaled(nl.load(a), factor=2.0))


def scaled_by(tile, factor=1.0):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return tile


def good_L024(a):
    return stored(scaled_by(nl.load(a), factor=2.0))


# -- expressions -----------------------------------------------------------------------------------


@source_twin(f32(64, 32))
def bad_L025(a):
    out = nl.ndarray((1, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)  # here
    nisa.dma_copy(dst=out[0], src=nl.load(a))
    return out


def good_L025(a):
    out = nl.ndarray((1, a.shape[0], a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0], src=nl.load(a))
    return out


@source_twin(f32(64, 32))
def bad_L025_keywords(a):
    tile = nl.load(a)
    settings = {"op0": nl.multiply, "operand0": 2.0}
    nisa.tensor_scalar(dst=tile, data=tile, **settings)  # here
    return stored(tile)


def good_L025_keywords(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L043(a):
    ops = {0: nl.exp, 1: nl.tanh}  # here
    tile = nl.load(a)
    nisa.activation(dst=tile, op=ops[1], data=tile)
    return stored(tile)


def good_L043(a):
    ops = [nl.exp, nl.tanh]
    tile = nl.load(a)
    nisa.activation(dst=tile, op=ops[1], data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L044(a):
    assert a.shape[0] in {32, 64, 128}  # here
    return stored(nl.load(a))


def good_L044(a):
    assert a.shape[0] in (32, 64, 128)
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def bad_L045(a):
    ratio = a.shape[0] / a.shape[1]
    assert ratio < 4, f"too narrow: {ratio:.2f}"  # here
    return stored(nl.load(a))


def good_L045(a):
    ratio = a.shape[0] / a.shape[1]
    assert ratio < 4, f"too narrow: {ratio}"
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def bad_L045_percent(a):
    assert a.shape[0] <= 128, "too many rows: %d" % a.shape[0]  # here
    return stored(nl.load(a))


def good_L045_percent(a):
    assert a.shape[0] <= 128, f"too many rows: {a.shape[0]}"
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def bad_L046(a):
    tiles = [nl.load(a), nl.exp(nl.load(a))]
    tiles[0], tiles[1] = tiles[1], tiles[0]  # here
    return stored(tiles[0])


def good_L046(a):
    tiles = [nl.load(a), nl.exp(nl.load(a))]
    first = tiles[0]
    tiles[0] = tiles[1]
    tiles[1] = first
    return stored(tiles[0])


def checked_rows(rows):
    assert rows <= 128, "too many rows"
    return rows


@source_twin(f32(64, 32))
def bad_L054(a):
    tile = nl.load(a)
    if 16 < a.shape[1] <= checked_rows(a.shape[0]):  # here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


def good_L054(a):
    tile = nl.load(a)
    rows = checked_rows(a.shape[0])
    if 16 < a.shape[1] <= rows:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L056(a):
    bias = ...  # here
    tile = nl.load(a)
    assert bias != 0
    return stored(tile[...])


def good_L056(a):
    bias = None
    tile = nl.load(a)
    assert bias != 0
    return stored(tile[...])


@source_twin(f32(64, 32))
def bad_A017(a):
    tile = nl.load(a)
    if a.dtype is nl.float32:  # here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


def good_A017(a):
    tile = nl.load(a)
    if a.dtype == nl.float32:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


# -- calls and loops -------------------------------------------------------------------------------


@source_twin(f32(64, 32))
def bad_L017(a):
    tile = nl.load(a)
    widths = [8, 32]
    for i in reversed(widths):  # here
        nisa.activation(dst=tile[:, 0:i], op=nl.exp, data=tile[:, 0:i])
    return stored(tile)


def good_L017(a):
    tile = nl.load(a)
    widths = [8, 32]
    for i in range(2):
        width = widths[1 - i]
        nisa.activation(dst=tile[:, 0:width], op=nl.exp, data=tile[:, 0:width])
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L018(a):
    tile = nl.load(a)
    starts = range(0, 32, 8)  # here
    for c in starts:
        nisa.activation(dst=tile[:, c : c + 8], op=nl.exp, data=tile[:, c : c + 8])
    return stored(tile)


def good_L018(a):
    tile = nl.load(a)
    for c in range(0, 32, 8):
        nisa.activation(dst=tile[:, c : c + 8], op=nl.exp, data=tile[:, c : c + 8])
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L020(a):
    tile = nl.load(a)
    widths = [8, 16, 8]
    assert sum(widths) == tile.shape[1]  # here
    return stored(tile)


def good_L020(a):
    tile = nl.load(a)
    widths = [8, 16, 8]
    whole = 0
    for width in widths:
        whole += width
    assert whole == tile.shape[1]
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L021(a):
    tile = nl.load(a)
    scale = float(np.sqrt(a.shape[1]))  # here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return stored(tile)


def good_L021(a):
    tile = nl.load(a)
    scale = a.shape[1] ** 0.5
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L022(a):
    rows = min(128, a.shape[0], a.shape[1])  # here
    return stored(nl.load(a[0:rows]))


def good_L022(a):
    rows = min(128, min(a.shape[0], a.shape[1]))
    return stored(nl.load(a[0:rows]))


@nkisim.jit
def exponential(a):
    return stored(nl.exp(nl.load(a)))


@source_twin(f32(64, 32))
def bad_L062(a):
    return exponential[1](a)  # here


def good_L062(a):
    return exponential(a)


@source_twin(f32(64, 32))
def bad_L061(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=old_nl.exp, data=tile)  # here
    return stored(tile)


def good_L061(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


bad_L065 = lambda a: stored(nl.load(a))  # here
bad_L065.__name__ = "bad_L065"
source_twin(f32(64, 32))(bad_L065)


def good_L065(a):
    return stored(nl.load(a))


# -- tensors, registers and loops on the device ----------------------------------------------------


@source_twin(f32(64, 32), 1)
def bad_L029(a, steps):
    total = nl.load(a)
    for _ in range(1, steps):
        total += nl.load(a)  # here
    return stored(total)


def good_L029(a, steps):
    total = nl.load(a)
    for _ in range(1, steps):
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a), op=nl.add)
    return stored(total)


@source_twin(f32(64, 32))
def bad_L031(a):
    tile = nl.load(a)
    for i in nl.dynamic_range(4):
        if i == 0:  # here
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_L031(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    for _ in nl.dynamic_range(4):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), 2)
def bad_L032(a, steps):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        if steps < 4:
            break  # here
    return stored(tile)


def good_L032(a, steps):
    tile = nl.load(a)
    for _ in nl.dynamic_range(min(steps, 4)):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(256, 32))
def bad_L033(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(4):
        tile = nl.load(a[64 * i : 64 * i + 64])  # here
        nl.store(out[nl.ds(64 * i, 64)], tile)  # here
    return out


def good_L033(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tile = nl.load(a[64 * i : 64 * i + 64])
        nl.store(out[nl.ds(64 * i, 64)], tile)
    return out


@source_twin(f32(64, 32))
def bad_L035(a):
    tile = nl.load(a)
    for i in nl.dynamic_range(4):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        i = 0  # here
    return stored(tile)


def good_L035(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L037(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):
        tile = nl.tanh(tile)
    return stored(tile)  # here


def good_L037(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L037_nested(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in nl.dynamic_range(2):
        for _ in nl.dynamic_range(count):  # here
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_L037_nested(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in range(2):
        for _ in nl.dynamic_range(count):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), False)
def bad_L067(a, debug):
    tile = nl.load(a)
    if debug:
        print("loaded", tile)  # here
    return stored(tile)


def good_L067(a, debug):
    tile = nl.load(a)
    if debug:
        nl.device_print("loaded", tile)
    return stored(tile)


# -- names from outside ----------------------------------------------------------------------------


class Settings:
    def __init__(self, factor):
        self.factor = factor


class Scaled(Settings):  # here
    pass


@source_twin(f32(64, 32), parts=(Scaled,))
def bad_L004(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=Scaled(2.0).factor)
    return stored(tile)


class Factor(nl.NKIObject):
    factor: float


def good_L004(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=Factor(factor=2.0).factor)
    return stored(tile)


@functools.cache  # here
def part_width(cols):
    return cols // 2


@source_twin(f32(64, 32), parts=(part_width,))
def bad_L005(a):
    return stored(nl.load(a[:, 0 : part_width(a.shape[1])]))


def width_of_part(cols):
    return cols // 2


def good_L005(a):
    return stored(nl.load(a[:, 0 : width_of_part(a.shape[1])]))


@source_twin(f32(64, 32), 65)
def bad_L038(a, rows):
    tile = nl.load(a)
    if rows < 64:
        while True:  # here
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_L038(a, rows):
    tile = nl.load(a)
    if rows < 64:
        for _ in range(rows):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def squashed_for_ever(tile, times):
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return squashed_once_more(tile, times - 1)


def squashed_once_more(tile, times):
    return squashed_for_ever(tile, times)  # here


@source_twin(f32(64, 32), 65, parts=(squashed_for_ever, squashed_once_more))
def bad_L038_through_another(a, rows):
    tile = nl.load(a)
    if rows < 64:
        squashed_for_ever(tile, rows)
    return stored(tile)


def good_L038_through_another(a, rows):
    tile = nl.load(a)
    if rows < 64:
        for _ in range(rows):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


class SquashForEver(nl.NKIObject):
    times: int = 2

    def apply(self, tile):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        return self.apply(tile)  # here


class Squash(nl.NKIObject):
    times: int = 2

    def apply(self, tile):
        for _ in range(self.times):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
        return tile


@source_twin(f32(64, 32), 65, parts=(SquashForEver,))
def bad_L038_method(a, rows):
    tile = nl.load(a)
    if rows < 64:
        SquashForEver().apply(tile)
    return stored(tile)


def good_L038_method(a, rows):
    tile = nl.load(a)
    if rows < 64:
        Squash().apply(tile)
    return stored(tile)


def squashed_upwards(tile, times):
    if times == 0:
        return tile
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return squashed_upwards(tile, times + 1)  # here


def squashed(tile, times):
    if times == 0:
        return tile
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return squashed(tile, times - 1)


@twin(f32(64, 32), parts=(squashed_upwards,))
def bad_L038_never_ends(a):
    return stored(squashed_upwards(nl.load(a), 2))


def good_L038_never_ends(a):
    return stored(squashed(nl.load(a), 2))


def scaled_by_a_constant(factor):
    @source_twin(f32(64, 32))
    def bad_L040(a):
        tile = nl.load(a)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)  # here
        return stored(tile)

    return bad_L040


bad_L040 = scaled_by_a_constant(2.0)


def good_L040(a, factor=2.0):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile)


WIDTHS = [8, 24]
FIXED_WIDTHS = (8, 24)


@source_twin(f32(64, 32))
def bad_L041(a):
    return stored(nl.load(a[:, 0 : WIDTHS[0]]))  # here


def good_L041(a):
    return stored(nl.load(a[:, 0 : FIXED_WIDTHS[0]]))


TRACED = {"rows": 0}


@source_twin(f32(64, 32))
def bad_L042(a):
    TRACED["rows"] = a.shape[0]  # here
    return stored(nl.load(a))


def good_L042(a):
    return stored(nl.load(a))


class Window(nl.NKIObject):
    start: int
    stop: int

    @property  # here
    def width(self):
        return self.stop - self.start


@source_twin(f32(64, 32), parts=(Window,))
def bad_L058(a):
    window = Window(start=8, stop=24)
    return stored(nl.load(a[:, 0 : window.width]))


class Extent(nl.NKIObject):
    start: int
    stop: int

    def width(self):
        return self.stop - self.start


def good_L058(a):
    window = Extent(start=8, stop=24)
    return stored(nl.load(a[:, 0 : window.width()]))


# -- numbers, lists and dictionaries ---------------------------------------------------------------


@source_twin(f32(64, 32))
def bad_L047(a):
    tiles = [nl.load(a)]
    tiles.insert(0, nl.exp(tiles[0]))  # here
    return stored(tiles[0])


def good_L047(a):
    tile = nl.load(a)
    tiles = [nl.exp(tile), tile]
    return stored(tiles[0])


@source_twin(f32(64, 32))
def bad_L048(a):
    tile = nl.load(a)
    steps = ["exp", "tanh", "exp"]
    for _ in range(steps.count("exp")):  # here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_L048(a):
    tile = nl.load(a)
    steps = ["exp", "tanh", "exp"]
    for step in steps:
        if step == "exp":
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L049(a):
    sizes = {"rows": 64}
    sizes.update({"cols": 32})  # here
    return stored(nl.load(a[0 : sizes["rows"], 0 : sizes["cols"]]))


def good_L049(a):
    sizes = {"rows": 64}
    sizes["cols"] = 32
    return stored(nl.load(a[0 : sizes["rows"], 0 : sizes["cols"]]))


@source_twin(f32(64, 32))
def bad_L050(a):
    limit = 2**40  # here
    assert a.shape[0] * a.shape[1] < limit
    return stored(nl.load(a))


def good_L050(a):
    limit = 2**30
    assert a.shape[0] * a.shape[1] < limit
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def bad_L051(a):
    rows = -(a.shape[0] // -3)  # here
    return stored(nl.load(a[0:rows]))


def good_L051(a):
    rows = (a.shape[0] + 2) // 3
    return stored(nl.load(a[0:rows]))


@source_twin(f32(64, 32))
def bad_L052(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2**-5)  # here
    return stored(tile)


def good_L052(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / 2**5)
    return stored(tile)


@source_twin(f32(64, 32), True)
def bad_L053(a, fixed):
    tile = nl.load(a)
    if fixed or nisa.get_nc_version() >= nisa.nc_version.gen3:  # here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


def good_L053(a, fixed):
    tile = nl.load(a)
    version = nisa.get_nc_version()
    if fixed or version == nisa.nc_version.gen3 or version == nisa.nc_version.gen4:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def bad_L055(a):
    starts = (0, 8, 16)
    tile = nl.load(a)
    for start in starts[0:4]:  # here
        nisa.activation(dst=tile[:, start:], op=nl.tanh, data=tile[:, start:])
    return stored(tile)


def good_L055(a):
    starts = (0, 8, 16)
    tile = nl.load(a)
    for start in starts[0:3]:
        nisa.activation(dst=tile[:, start:], op=nl.tanh, data=tile[:, start:])
    return stored(tile)


# -- what is known at another time ---------------------------------------------------------------

GENERATION = nisa.get_nc_version()
SBUF = nl.tile_size.total_available_sbuf_size


@source_twin(f32(64, 32))
def bad_A039(a):
    tile = nl.load(a)
    assert GENERATION == nisa.nc_version.gen3 or tile.shape[1] <= 512  # here
    return stored(tile)


def good_A039(a):
    tile = nl.load(a)
    assert nisa.get_nc_version() == nisa.nc_version.gen3 or tile.shape[1] <= 512
    return stored(tile)


@source_twin(f32(64, 32))
def bad_A039_size(a):
    tile = nl.load(a)
    assert tile.shape[1] * 4 <= SBUF  # here
    return stored(tile)


def good_A039_size(a):
    tile = nl.load(a)
    assert tile.shape[1] * 4 <= nl.tile_size.total_available_sbuf_size
    return stored(tile)


@source_twin(f32(64, 32))
def bad_A040(a):
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, a, nisa.oob_mode.error)  # here
    return stored(tile)


def good_A040(a):
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, a, oob_mode=nisa.oob_mode.error)
    return stored(tile)


@source_twin(f32(2, 64, 32))
def bad_C033(a):
    rank = ncc.rank_id()
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[rank])  # here
    return stored(tile)


def good_C033(a):
    rank = ncc.rank_id()
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    block = a.ap([[32, 64], [1, 32]], scalar_offset=rank, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=block)
    return stored(tile)
