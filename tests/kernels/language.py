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
def L001(a):
    def doubled(tile):  # bad here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        return tile

    return stored(doubled(nl.load(a)))  # bad
    return stored(doubled(nl.load(a)))  # good


def doubled(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return tile


@source_twin(f32(64, 32))
def L002(a):
    tile = nl.load(a)
    width = lambda t: t.shape[1]  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / width(tile))  # bad
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / tile.shape[1])  # good
    return stored(tile)


@source_twin(f32(64, 32))
def L003(a):
    class Scale(nl.NKIObject):  # bad here
        factor: float

    tile = nl.load(a)  # bad
    tile = nl.load(a)  # good
    factor = Scale(factor=2.0).factor
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile)


class Scale(nl.NKIObject):
    factor: float


@source_twin(f32(64, 128))
def L006(a):
    tile = nl.load(a)
    quarters = [tile[:, 32 * i : 32 * i + 32] for i in range(4)]  # bad here
    quarters = []  # good
    for i in range(4):  # good
        quarters.append(tile[:, 32 * i : 32 * i + 32])
    for quarter in quarters:
        nisa.activation(dst=quarter, op=nl.exp, data=quarter)
    return stored(tile)


@source_twin(f32(64, 32))
def L007(a):
    if a.shape[0] > 128:  # bad
        raise ValueError("too many rows")  # here
    assert a.shape[0] <= 128, "too many rows"  # good
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def L007_try(a):
    try:  # bad here
        rows, cols = a.shape
    except ValueError:
        rows, cols = a.shape[0], 1
    rows = a.shape[0]  # good
    cols = a.shape[1] if len(a.shape) == 2 else 1  # good
    return stored(nl.load(a[0:rows, 0:cols]))


@source_twin(f32(64, 32))
def L008(a):
    import math  # bad here

    rows = math.ceil(a.shape[0] / 2)  # bad
    rows = (a.shape[0] + 1) // 2  # good
    return stored(nl.load(a[0:rows]))


_CALLS = 0


@source_twin(f32(64, 32))
def L009(a):
    global _CALLS  # bad here
    _CALLS = 1  # bad
    return stored(nl.load(a))


def halves(tile):
    middle = tile.shape[1] // 2
    yield tile[:, 0:middle]  # here
    yield tile[:, middle : 2 * middle]  # here


@source_twin(f32(64, 32), parts=(halves,))
def L010(a):
    tile = nl.load(a)
    for half in halves(tile):  # bad
        nisa.activation(dst=half, op=nl.exp, data=half)
    for half in both_halves(tile):  # good
        nisa.activation(dst=half, op=nl.exp, data=half)
    return stored(tile)


def both_halves(tile):
    middle = tile.shape[1] // 2
    return tile[:, 0:middle], tile[:, middle : 2 * middle]


@source_twin(f32(64, 32), "tanh")
def L011(a, name):
    tile = nl.load(a)
    match name:  # bad here
        case "exp":
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        case "tanh":
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    if name == "exp":  # good
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    elif name == "tanh":
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L012(a):
    tile = nl.load(a)
    result = nl.exp(tile)
    del tile  # bad here
    return stored(result)


@source_twin(f32(64, 32))
def L013(a):
    tile = nl.load(a)
    if (cols := a.shape[1]) > 16:  # bad here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / cols)
    cols = a.shape[1]  # good
    if cols > 16:  # good
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / cols)
    return stored(tile)


@source_twin(f32(64, 32))
def L014(a):
    with np.errstate(all="ignore"):  # bad here
        tile = nl.exp(nl.load(a))
    with nl.no_reorder():  # good
        tile = nl.exp(nl.load(a))
    return stored(tile)


@source_twin(f32(64, 32))
def L014_as(a):
    with nl.no_reorder() as region:  # bad here
        tile = nl.exp(nl.load(a))
    with nl.no_reorder():  # good
        tile = nl.exp(nl.load(a))
    return stored(tile)


@source_twin(f32(64, 32))
def L015(a):
    tile = nl.load(a)
    for width in (8, 32):  # bad here
        if width == tile.shape[1]:
            break
    else:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    known = False  # good
    for width in (8, 32):  # good
        if width == tile.shape[1]:
            known = True
    if not known:  # good
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L016(a):
    tile = nl.load(a)
    for start, stop in ((0, 8), (8, 32)):  # bad here
        nisa.activation(dst=tile[:, start:stop], op=nl.exp, data=tile[:, start:stop])
    for part in ((0, 8), (8, 32)):  # good
        start, stop = part
        nisa.activation(dst=tile[:, start:stop], op=nl.exp, data=tile[:, start:stop])
    return stored(tile)


def total(*tiles):  # here
    for i in range(1, len(tiles)):
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[i], op=nl.add)
    return tiles[0]


@source_twin(f32(64, 32), f32(64, 32), parts=(total,))
def L023(a, b):
    return stored(total(nl.load(a), nl.load(b)))  # bad
    return stored(total_of((nl.load(a), nl.load(b))))  # good


def total_of(tiles):
    for i in range(1, len(tiles)):
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[i], op=nl.add)
    return tiles[0]


def scaled(tile, **settings):  # here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=settings["factor"])
    return tile


@source_twin(f32(64, 32), parts=(scaled,))
def L024(a):
    return stored(scaled(nl.load(a), factor=2.0))  # bad
    return stored(scaled_by(nl.load(a), factor=2.0))  # good


def scaled_by(tile, factor=1.0):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return tile


# -- expressions -----------------------------------------------------------------------------------


@source_twin(f32(64, 32))
def L025(a):
    out = nl.ndarray((1, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)  # bad here
    out = nl.ndarray((1, a.shape[0], a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out[0], src=nl.load(a))
    return out


@source_twin(f32(64, 32))
def L025_keywords(a):
    tile = nl.load(a)
    settings = {"op0": nl.multiply, "operand0": 2.0}  # bad
    nisa.tensor_scalar(dst=tile, data=tile, **settings)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)  # good
    return stored(tile)


@source_twin(f32(64, 32))
def L043(a):
    ops = {0: nl.exp, 1: nl.tanh}  # bad here
    ops = [nl.exp, nl.tanh]  # good
    tile = nl.load(a)
    nisa.activation(dst=tile, op=ops[1], data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L044(a):
    assert a.shape[0] in {32, 64, 128}  # bad here
    assert a.shape[0] in (32, 64, 128)  # good
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def L045(a):
    ratio = a.shape[0] / a.shape[1]
    assert ratio < 4, f"too narrow: {ratio:.2f}"  # bad here
    assert ratio < 4, f"too narrow: {ratio}"  # good
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def L045_percent(a):
    assert a.shape[0] <= 128, "too many rows: %d" % a.shape[0]  # bad here
    assert a.shape[0] <= 128, f"too many rows: {a.shape[0]}"  # good
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def L046(a):
    tiles = [nl.load(a), nl.exp(nl.load(a))]
    tiles[0], tiles[1] = tiles[1], tiles[0]  # bad here
    first = tiles[0]  # good
    tiles[0] = tiles[1]  # good
    tiles[1] = first  # good
    return stored(tiles[0])


def checked_rows(rows):
    assert rows <= 128, "too many rows"
    return rows


@source_twin(f32(64, 32))
def L054(a):
    tile = nl.load(a)
    if 16 < a.shape[1] <= checked_rows(a.shape[0]):  # bad here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    rows = checked_rows(a.shape[0])  # good
    if 16 < a.shape[1] <= rows:  # good
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L056(a):
    bias = ...  # bad here
    bias = None  # good
    tile = nl.load(a)
    assert bias != 0
    return stored(tile[...])


@source_twin(f32(64, 32))
def A017(a):
    tile = nl.load(a)
    if a.dtype is nl.float32:  # bad here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    if a.dtype == nl.float32:  # good
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


# -- calls and loops -------------------------------------------------------------------------------


@source_twin(f32(64, 32))
def L017(a):
    tile = nl.load(a)
    widths = [8, 32]
    for i in reversed(widths):  # bad here
        nisa.activation(dst=tile[:, 0:i], op=nl.exp, data=tile[:, 0:i])
    for i in range(2):  # good
        width = widths[1 - i]
        nisa.activation(dst=tile[:, 0:width], op=nl.exp, data=tile[:, 0:width])
    return stored(tile)


@source_twin(f32(64, 32))
def L018(a):
    tile = nl.load(a)
    starts = range(0, 32, 8)  # bad here
    for c in starts:  # bad
        nisa.activation(dst=tile[:, c : c + 8], op=nl.exp, data=tile[:, c : c + 8])
    for c in range(0, 32, 8):  # good
        nisa.activation(dst=tile[:, c : c + 8], op=nl.exp, data=tile[:, c : c + 8])
    return stored(tile)


@source_twin(f32(64, 32))
def L020(a):
    tile = nl.load(a)
    widths = [8, 16, 8]
    assert sum(widths) == tile.shape[1]  # bad here
    whole = 0  # good
    for width in widths:  # good
        whole += width
    assert whole == tile.shape[1]  # good
    return stored(tile)


@source_twin(f32(64, 32))
def L021(a):
    tile = nl.load(a)
    scale = float(np.sqrt(a.shape[1]))  # bad here
    scale = a.shape[1] ** 0.5  # good
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return stored(tile)


@source_twin(f32(64, 32))
def L022(a):
    rows = min(128, a.shape[0], a.shape[1])  # bad here
    rows = min(128, min(a.shape[0], a.shape[1]))  # good
    return stored(nl.load(a[0:rows]))


@nkisim.jit
def exponential(a):
    return stored(nl.exp(nl.load(a)))


@source_twin(f32(64, 32))
def L062(a):
    return exponential[1](a)  # bad here
    return exponential(a)  # good


@source_twin(f32(64, 32))
def L061(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=old_nl.exp, data=tile)  # bad here
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # good
    return stored(tile)


bad_L065 = lambda a: stored(nl.load(a))  # here
bad_L065.__name__ = "bad_L065"
source_twin(f32(64, 32))(bad_L065)


def good_L065(a):
    return stored(nl.load(a))


# -- tensors, registers and loops on the device ----------------------------------------------------


@source_twin(f32(64, 32), 1)
def L029(a, steps):
    total = nl.load(a)
    for _ in range(1, steps):
        total += nl.load(a)  # bad here
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a), op=nl.add)  # good
    return stored(total)


@source_twin(f32(64, 32))
def L031(a):
    tile = nl.load(a)
    for i in nl.dynamic_range(4):  # bad
        if i == 0:  # here
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # good
    for _ in nl.dynamic_range(4):  # good
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), 2)
def L032(a, steps):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):  # bad
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        if steps < 4:
            break  # here
    for _ in nl.dynamic_range(min(steps, 4)):  # good
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(256, 32))
def L033(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(4):  # bad
        tile = nl.load(a[64 * i : 64 * i + 64])  # here
        nl.store(out[nl.ds(64 * i, 64)], tile)  # here
    for i in range(4):  # good
        tile = nl.load(a[64 * i : 64 * i + 64])
        nl.store(out[nl.ds(64 * i, 64)], tile)
    return out


@source_twin(f32(64, 32))
def L035(a):
    tile = nl.load(a)
    for i in nl.dynamic_range(4):  # bad
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        i = 0  # here
    for _ in nl.dynamic_range(4):  # good
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L037(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(4):
        tile = nl.tanh(tile)  # bad
        nisa.activation(dst=tile, op=nl.tanh, data=tile)  # good
    return stored(tile)  # here


@source_twin(f32(64, 32))
def L037_nested(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in nl.dynamic_range(2):  # bad
        for _ in nl.dynamic_range(count):  # here
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    for _ in range(2):  # good
        for _ in nl.dynamic_range(count):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), False)
def L067(a, debug):
    tile = nl.load(a)
    if debug:
        print("loaded", tile)  # bad here
        nl.device_print("loaded", tile)  # good
    return stored(tile)


# -- names from outside ----------------------------------------------------------------------------


class Settings:
    def __init__(self, factor):
        self.factor = factor


class Scaled(Settings):  # here
    pass


@source_twin(f32(64, 32), parts=(Scaled,))
def L004(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=Scaled(2.0).factor)  # bad
    nisa.tensor_scalar(  # good
        dst=tile, data=tile, op0=nl.multiply, operand0=Factor(factor=2.0).factor
    )
    return stored(tile)


class Factor(nl.NKIObject):
    factor: float


@functools.cache  # here
def part_width(cols):
    return cols // 2


@source_twin(f32(64, 32), parts=(part_width,))
def L005(a):
    return stored(nl.load(a[:, 0 : part_width(a.shape[1])]))  # bad
    return stored(nl.load(a[:, 0 : width_of_part(a.shape[1])]))  # good


def width_of_part(cols):
    return cols // 2


@source_twin(f32(64, 32), 65)
def L038(a, rows):
    tile = nl.load(a)
    if rows < 64:
        while True:  # bad here
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
        for _ in range(rows):  # good
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def squashed_for_ever(tile, times):
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return squashed_once_more(tile, times - 1)


def squashed_once_more(tile, times):
    return squashed_for_ever(tile, times)  # here


@source_twin(f32(64, 32), 65, parts=(squashed_for_ever, squashed_once_more))
def L038_through_another(a, rows):
    tile = nl.load(a)
    if rows < 64:
        squashed_for_ever(tile, rows)  # bad
        for _ in range(rows):  # good
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
def L038_method(a, rows):
    tile = nl.load(a)
    if rows < 64:
        SquashForEver().apply(tile)  # bad
        Squash().apply(tile)  # good
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
def L038_never_ends(a):
    return stored(squashed_upwards(nl.load(a), 2))  # bad
    return stored(squashed(nl.load(a), 2))  # good


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
def L041(a):
    return stored(nl.load(a[:, 0 : WIDTHS[0]]))  # bad here
    return stored(nl.load(a[:, 0 : FIXED_WIDTHS[0]]))  # good


TRACED = {"rows": 0}


@source_twin(f32(64, 32))
def L042(a):
    TRACED["rows"] = a.shape[0]  # bad here
    return stored(nl.load(a))


class Window(nl.NKIObject):
    start: int
    stop: int

    @property  # here
    def width(self):
        return self.stop - self.start


@source_twin(f32(64, 32), parts=(Window,))
def L058(a):
    window = Window(start=8, stop=24)  # bad
    return stored(nl.load(a[:, 0 : window.width]))  # bad
    window = Extent(start=8, stop=24)  # good
    return stored(nl.load(a[:, 0 : window.width()]))  # good


class Extent(nl.NKIObject):
    start: int
    stop: int

    def width(self):
        return self.stop - self.start


# -- numbers, lists and dictionaries ---------------------------------------------------------------


@source_twin(f32(64, 32))
def L047(a):
    tiles = [nl.load(a)]  # bad
    tiles.insert(0, nl.exp(tiles[0]))  # bad here
    tile = nl.load(a)  # good
    tiles = [nl.exp(tile), tile]  # good
    return stored(tiles[0])


@source_twin(f32(64, 32))
def L048(a):
    tile = nl.load(a)
    steps = ["exp", "tanh", "exp"]
    for _ in range(steps.count("exp")):  # bad here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    for step in steps:  # good
        if step == "exp":
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L049(a):
    sizes = {"rows": 64}
    sizes.update({"cols": 32})  # bad here
    sizes["cols"] = 32  # good
    return stored(nl.load(a[0 : sizes["rows"], 0 : sizes["cols"]]))


@source_twin(f32(64, 32))
def L050(a):
    limit = 2**40  # bad here
    limit = 2**30  # good
    assert a.shape[0] * a.shape[1] < limit
    return stored(nl.load(a))


@source_twin(f32(64, 32))
def L051(a):
    rows = -(a.shape[0] // -3)  # bad here
    rows = (a.shape[0] + 2) // 3  # good
    return stored(nl.load(a[0:rows]))


@source_twin(f32(64, 32))
def L052(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2**-5)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / 2**5)  # good
    return stored(tile)


@source_twin(f32(64, 32), True)
def L053(a, fixed):
    tile = nl.load(a)
    if fixed or nisa.get_nc_version() >= nisa.nc_version.gen3:  # bad here
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    version = nisa.get_nc_version()  # good
    if fixed or version == nisa.nc_version.gen3 or version == nisa.nc_version.gen4:  # good
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@source_twin(f32(64, 32))
def L055(a):
    starts = (0, 8, 16)
    tile = nl.load(a)
    for start in starts[0:4]:  # bad here
        nisa.activation(dst=tile[:, start:], op=nl.tanh, data=tile[:, start:])
    for start in starts[0:3]:  # good
        nisa.activation(dst=tile[:, start:], op=nl.tanh, data=tile[:, start:])
    return stored(tile)


# -- what is known at another time ---------------------------------------------------------------

GENERATION = nisa.get_nc_version()
SBUF = nl.tile_size.total_available_sbuf_size


@source_twin(f32(64, 32))
def A039(a):
    tile = nl.load(a)
    assert GENERATION == nisa.nc_version.gen3 or tile.shape[1] <= 512  # bad here
    assert nisa.get_nc_version() == nisa.nc_version.gen3 or tile.shape[1] <= 512  # good
    return stored(tile)


@source_twin(f32(64, 32))
def A039_size(a):
    tile = nl.load(a)
    assert tile.shape[1] * 4 <= SBUF  # bad here
    assert tile.shape[1] * 4 <= nl.tile_size.total_available_sbuf_size  # good
    return stored(tile)


@source_twin(f32(64, 32))
def A040(a):
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, a, nisa.oob_mode.error)  # bad here
    nisa.dma_copy(tile, a, oob_mode=nisa.oob_mode.error)  # good
    return stored(tile)


@source_twin(f32(2, 64, 32))
def C033(a):
    rank = ncc.rank_id()
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[rank])  # bad here
    block = a.ap([[32, 64], [1, 32]], scalar_offset=rank, indirect_dim=0)  # good
    nisa.dma_copy(dst=tile, src=block)  # good
    return stored(tile)
