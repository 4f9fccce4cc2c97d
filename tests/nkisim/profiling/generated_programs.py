"""Random kernels that are legal, what they access, and their schedules.

A kernel draws its instructions while it runs: loads and stores with any origin of descriptors,
instructions of every engine on new tiles and on old ones, sums of products that are copied out of
PSUM, scratch in HBM, barriers between two cores. Dependences are found from the bytes that the
operands of the events cover, apart from the product's own way to find them.
"""

from __future__ import annotations

import functools
import math
import random
import warnings
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim import Profile
from nkisim.arch import resolve_target
from nkisim.profiling.analysis import Prediction, profile_of
from nkisim.profiling.model.program import Capture, Program
from nkisim.profiling.model.spills import SPILL

ROWS, COLUMNS = 256, 8192
TARGETS = ("trn1", "trn2", "trn3")
KINDS = (
    *("free", "ordered", "partly ordered", "large", "large and ordered", "two cores", "cores"),
    "streams",
)
"""``cores`` are two in a ``no_reorder`` region. ``streams`` load, compute and store each tile."""

FUNCTIONS = (nl.exp, nl.tanh, nl.square, nl.sqrt)


def zeros(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)


class Drawn:
    """The state of a kernel that draws its instructions."""

    def __init__(self, rng, x, y, target: str, large: bool, between: bool, cores: int) -> None:
        self.rng, self.sources, self.target = rng, {x.dtype: x, y.dtype: y}, target
        self.large, self.cores = large, cores
        """Whether tiles exceed SBUF together."""
        self.between = between
        """Whether there are transfers from HBM to HBM."""
        self.core = nl.program_id(0) if cores == 2 else 0
        self.out = nl.ndarray((cores * 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        if cores == 2:
            self.shared = nl.ndarray((256, 256), dtype=x.dtype, buffer=nl.shared_hbm)
        self.results = nl.ndarray((ROWS, COLUMNS), dtype=x.dtype, buffer=nl.private_hbm)
        self.scratch = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.private_hbm)
        self.tiles: list = []
        self.load(128, 512)
        self.first = self.tiles[0]
        nisa.dma_copy(dst=self.scratch, src=self.first)
        for _ in range(10 if large else 0):
            self.load(128, 8192)

    def new(self, p, f, dtype=nl.float32):
        tile = nl.ndarray((p, f), dtype=dtype, buffer=nl.sbuf)
        self.tiles.append(tile)
        return tile

    def like(self, tile):
        """Return a new tile of the same shape and type, or an old one."""
        same = [t for t in self.tiles if (t.shape, t.dtype) == (tile.shape, tile.dtype)]
        return (
            self.rng.choice(same) if self.rng.random() < 0.5 else self.new(*tile.shape, tile.dtype)
        )

    def any_tile(self, dtype=None):
        fitting = [tile for tile in self.tiles if dtype in (None, tile.dtype)]
        # Recent ones mostly; old ones too, so that some live long.
        recent = not self.large and self.rng.random() < 0.7
        return self.rng.choice(fitting[-4:] if recent else fitting)

    def origin(self):
        modes = [{}, {}, {"dge_mode": nisa.dge_mode.none}, {"dge_mode": nisa.dge_mode.swdge}]
        if self.target != "trn1":
            hardware = {"dge_mode": nisa.dge_mode.hwdge}
            modes += [hardware, {**hardware, "engine": nisa.engine.scalar}]
        return self.rng.choice(modes)

    def columns(self):
        return self.rng.choice((2048, 4096, 8192) if self.large else (16, 64, 128, 512, 1024))

    def load(self, p=None, f=None):
        p, f = p or self.rng.choice((8, 32, 64, 128)), f or self.columns()
        dtype = (
            nl.float32
            if len(self.tiles) < 2 or self.large
            else self.rng.choice((nl.float32, nl.bfloat16))
        )
        source = next(s for s in self.sources.values() if s.dtype == dtype)
        row = self.rng.randrange(0, ROWS - p + 1, 8)
        column = self.rng.randrange(0, COLUMNS - f + 1, 16)
        tile = self.new(p, f, dtype)
        nisa.dma_copy(dst=tile, src=source[row : row + p, column : column + f], **self.origin())

    def load_again(self):
        tile = self.any_tile(nl.float32)
        p, f = tile.shape
        half = max(f // 2, 16)
        source = next(s for s in self.sources.values() if s.dtype == nl.float32)
        nisa.dma_copy(dst=tile[:, 0:half], src=source[0:p, 0:half], **self.origin())

    def load_scratch(self):
        row, column = self.rng.choice((0, 32, 64)), self.rng.choice((0, 64, 256))
        tile = self.new(32, 128)
        view = self.scratch[row : row + 32, column : column + 128]
        nisa.dma_copy(dst=tile, src=view, **self.origin())

    def store_scratch(self):
        fitting = [t for t in self.tiles if t.dtype == nl.float32 and t.shape[1] >= 64]
        tile = self.rng.choice(fitting)
        row, p = self.rng.choice((0, 16, 32)), min(tile.shape[0], 64)
        step = self.rng.choice((1, 2))
        target = self.scratch[row : row + p, 0 : 64 * step : step]
        nisa.dma_copy(dst=target, src=tile[0:p, 0:64], **self.origin())

    def copy_scratch(self):
        """Move between HBM and HBM."""
        if self.between:
            row = self.rng.choice((0, 64))
            nisa.dma_copy(dst=self.results[row : row + 64, 0:512], src=self.scratch[0:64])

    def store(self):
        tile = self.any_tile(nl.float32)
        p, f = tile.shape
        row = self.rng.randrange(0, ROWS - p + 1, 8)
        column = self.rng.randrange(0, COLUMNS - f + 1, 16)
        target = self.results[row : row + p, column : column + f]
        nisa.dma_copy(dst=target, src=tile, **self.origin())

    def vector(self):
        tile, kind = self.any_tile(), self.rng.randrange(6)
        half = tile.shape[1] // 2
        if kind == 0:
            nisa.tensor_tensor(dst=self.like(tile), data1=tile, data2=tile, op=nl.add)
        elif kind == 1:
            nisa.tensor_scalar(dst=self.like(tile), data=tile, op0=nl.multiply, operand0=2.0)
        elif kind == 2:
            nisa.reciprocal(dst=self.like(tile), data=tile)
        elif kind == 3:  # every second column of a tile
            nisa.memset(dst=tile[:, 0 : 2 * half : 2], value=0.0, engine=nisa.engine.vector)
        elif kind == 4:
            dst = self.new(tile.shape[0], half, tile.dtype)
            nisa.tensor_copy(dst=dst, src=tile[:, 1 : 2 * half : 2], engine=nisa.engine.vector)
        else:  # within a tile
            nisa.tensor_copy(
                dst=tile[:, half : 2 * half], src=tile[:, 0:half], engine=nisa.engine.vector
            )

    def scalar(self):
        tile = self.any_tile()
        nisa.activation(dst=self.like(tile), op=self.rng.choice(FUNCTIONS), data=tile)

    def gpsimd(self):
        tile = self.any_tile()
        dst = self.like(tile)
        if self.rng.random() < 0.5:
            nisa.tensor_copy(dst=dst, src=tile, engine=nisa.engine.gpsimd)
        else:
            nisa.affine_select(
                dst=dst,
                pattern=[[1, tile.shape[1]]],
                channel_multiplier=-1,
                on_true_tile=tile,
                on_false_value=0.0,
                cmp_op=nl.greater_equal,
            )

    def products(self):
        """Sum one to four products and copy the sum out of PSUM."""
        fitting = [t for t in self.tiles if t.shape[0] == 128 and t.shape[1] >= 128]
        if not fitting:
            return
        left = self.rng.choice(fitting)
        right = self.rng.choice([t for t in fitting if t.dtype == left.dtype])
        n = min(right.shape[1], self.rng.choice((128, 512)))
        total = nl.ndarray((128, n), dtype=nl.float32, buffer=nl.psum)
        count = self.rng.randint(1, 4)
        if self.target != "trn1" and self.rng.random() < 0.3:
            for part in range(0, 128, 32):
                nisa.nc_matmul(
                    dst=total[part : part + 32],
                    stationary=left[0:32, part : part + 32],
                    moving=right[0:32, 0:n],
                    tile_position=(0, part),
                    tile_size=(32, 32),
                )
        else:
            for k in range(count):
                nisa.nc_matmul(
                    dst=total,
                    stationary=left[:, 0:128],
                    moving=right[:, 0:n],
                    accumulate=k > 0,
                )
        copies, half = self.new(128, n), n // 2
        if self.target == "trn1" or self.rng.random() < 0.4:
            nisa.tensor_copy(dst=copies, src=total, engine=nisa.engine.vector)
        else:  # by two engines that take turns in the bank
            for engine, part in ((nisa.engine.scalar, (0, half)), (nisa.engine.vector, (half, n))):
                part = slice(*part)
                nisa.tensor_copy(dst=copies[:, part], src=total[:, part], engine=engine)

    def meet(self):
        """Write half of what is shared, meet the other core, and read what it wrote."""
        mine, other = 128 * self.core, 128 * (1 - self.core)
        nisa.dma_copy(dst=self.shared[mine : mine + 128], src=self.first[:, 0:256])
        nisa.core_barrier(data=self.shared, cores=(0, 1))
        nisa.dma_copy(dst=self.new(128, 256), src=self.shared[other : other + 128])
        nisa.core_barrier(data=self.shared, cores=(0, 1))

    def run(self, steps: int) -> None:
        names = ("load", "load", "store", "vector", "vector", "scalar", "gpsimd", "products")
        names += ("load_again", "load_scratch", "store_scratch", "copy_scratch")
        for _ in range(steps):
            getattr(self, self.rng.choice(names))()

    def end(self) -> None:
        if self.cores == 2:
            self.meet()
            self.run(5)
            self.meet()
        first = 128 * self.core
        nisa.dma_copy(dst=self.out[first : first + 128], src=self.first)


def streams_of(seed: int, target: str):
    """Return a kernel that loads, computes and stores, tile by tile.

    Its size, its steps and their engines are drawn, and one step in ten is left out.
    """
    rng = random.Random(f"streams {seed}")
    count, columns = rng.randint(4, 12), rng.choice((64, 256, 512))
    rows, loads = rng.choice((32, 128)), rng.randint(1, 3)
    steps = rng.choices(("double", "exp", "add", "copy"), k=rng.randint(0, 4))
    in_place = rng.random() < 0.5
    hardware = target != "trn1" and rng.random() < 0.25
    origin = {"dge_mode": nisa.dge_mode.hwdge} if hardware else {}
    left_out = {(i, k) for i in range(count) for k in range(len(steps)) if rng.random() < 0.1}

    def streams(x, y):
        out = nl.ndarray((rows, count * columns), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(count):
            part = slice(i * columns, (i + 1) * columns)
            tiles = []
            for _ in range(loads):
                tiles.append(nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf))
                nisa.dma_copy(dst=tiles[-1], src=x[0:rows, part], **origin)
            src = tiles[0]
            for k, step in enumerate(steps):
                if (i, k) in left_out:
                    continue
                dst = src if in_place else nl.ndarray(src.shape, dtype=x.dtype, buffer=nl.sbuf)
                if step == "double":
                    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=2.0)
                elif step == "exp":
                    nisa.activation(dst=dst, op=nl.exp, data=src)
                elif step == "add":
                    nisa.tensor_tensor(dst=dst, data1=src, data2=tiles[-1], op=nl.add)
                else:
                    nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.gpsimd)
                src = dst
            nisa.dma_copy(dst=out[:, part], src=src, **origin)
        return out

    return streams


def kernel_of(kind: str, seed: int, target: str):
    """Return a kernel that draws its instructions."""
    if kind == "streams":
        return streams_of(seed, target)
    cores = 2 if kind in ("two cores", "cores") else 1
    ordered = kind in ("ordered", "large and ordered", "cores")

    def generated(x, y):
        rng = random.Random(f"{kind} {seed}")
        large = kind.startswith("large")
        if ordered:
            with nl.no_reorder():
                drawn = Drawn(rng, x, y, target, large, between=False, cores=cores)
                drawn.run(25)
                drawn.end()
        else:
            drawn = Drawn(rng, x, y, target, large, between=True, cores=cores)
            drawn.run(12)
            if kind == "partly ordered":
                with nl.no_reorder():
                    drawn.run(8)
            drawn.run(12)
            drawn.end()
        return drawn.out

    return generated if cores == 1 else nkisim.jit(generated)[2]


@dataclass
class Generated:
    """A generated kernel.

    Attributes:
        program: Its operations with spills.
        prediction: Its schedules.
        profile: Its profile.
        dependences: Earlier operation, later operation, and ``"read"`` if the later one reads what
            the earlier one wrote, ``"rewrite"`` if it writes that, ``"replace"`` if it writes what
            the earlier one read, or ``"barrier"``.
        regions: Whether an operation accesses SBUF, and the PSUM tiles that it accesses.
        operand_bytes: Bytes of SBUF that the operands of all instructions cover.
    """

    program: Program
    prediction: Prediction
    profile: Profile
    dependences: list[tuple[int, int, str]]
    regions: list[tuple[bool, set[int]]]
    operand_bytes: int


@functools.cache
def generated(kind: str, seed: int, target: str) -> Generated:
    """Return a generated kernel with its schedules."""
    capture, events = Capture(resolve_target(target)), []
    arguments = zeros(ROWS, COLUMNS), zeros(ROWS, COLUMNS, dtype=ml_dtypes.bfloat16)
    kernel = kernel_of(kind, seed, target)
    watchers = (capture, events.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error", nkisim.NkiFindingWarning)
        nkisim.simulate(kernel, target=target, values=False, watchers=watchers)(*arguments)
    prediction = Prediction(capture.program)
    profile = profile_of(prediction, kind, [], "0.3.0")
    program = prediction.program
    numbers = [o.number for o in program.operations if o.name != SPILL]
    assert len(numbers) == len(events)
    dependences = [(numbers[a], numbers[b], kind) for a, b, kind in dependences_of(events)]
    regions = [(False, set())] * len(program.operations)
    operand_bytes = 0
    for number, event in zip(numbers, events, strict=True):
        operands = [tensor for _, tensor in (*event.reads, *event.writes)]
        in_sbuf = [t for t in operands if t.buffer is nl.sbuf]
        operand_bytes += sum(t.size * t.itemsize for t in in_sbuf)
        in_psum = {id(t.storage) for t in operands if t.buffer is nl.psum}
        regions[number] = (bool(in_sbuf), in_psum)
    return Generated(program, prediction, profile, dependences, regions, operand_bytes)


def dependences_of(events) -> list[tuple[int, int, str]]:
    """Return the dependences between events, from the bytes that their operands cover."""
    accesses: dict[object, list] = {}
    places: dict[int, int] = {}
    for number, event in enumerate(events):
        for writes, operands in ((False, event.reads), (True, event.writes)):
            for _, tensor in operands:
                storage = id(tensor.storage)
                if writes and _is_replaced(event, tensor):
                    places[storage] = number
                key = (storage, places.get(storage))
                accesses.setdefault(key, []).append((number, writes, tensor.region))
        if event.instruction == "core_barrier":
            data = event.arguments["data"]
            accesses.setdefault((id(data.storage), None), []).append((number, None, data.region))
    found = []
    for given in accesses.values():
        if any(writes for _, writes, _ in given):
            found += _in_storage(given, [event.core for event in events])
    return sorted(set(found))


def _is_replaced(event, tensor) -> bool:
    """Return whether an instruction overwrites a whole tile on chip that it does not read.

    The compiler gives such a tile a new place.
    """
    life = tensor.life
    whole = tensor.size * tensor.itemsize == math.prod(life.shape) * life.origin.form.itemsize
    read = any(other.storage is tensor.storage for _, other in event.reads)
    adds = event.arguments.get("accumulate", False) is not False
    return tensor.buffer in (nl.sbuf, nl.psum) and whole and not read and not adds


def _in_storage(given, core_of) -> list[tuple[int, int, str]]:
    """Return the dependences of accesses of one storage, in program order."""
    grain = functools.reduce(math.gcd, (_grain(region) for *_, region in given))
    size = max(_end(region) for *_, region in given) // grain
    found, masks = [], []
    for number, writes, region in given:
        mask = np.zeros(size, bool)
        _view(mask, region, grain)[...] = True
        left = mask.copy()
        for other, wrote, theirs in reversed(masks):
            if other == number:
                continue
            if writes is None or wrote is None:
                if core_of[other] == core_of[number]:
                    found.append((other, number, "barrier"))
            elif (left & theirs).any() and (writes or wrote):
                kind = "replace" if not wrote else "rewrite" if writes else "read"
                found.append((other, number, kind))
                if wrote:
                    left &= ~theirs
        masks.append((number, writes, mask))
    return found


def _grain(region) -> int:
    """Return the largest number of bytes of which every run of a view is a multiple."""
    start, shape, strides, itemsize = region
    run, dims = itemsize, list(zip(shape, strides, strict=True))
    while dims and (dims[-1][1] == run or dims[-1][0] == 1):
        run *= dims.pop()[0]
    return math.gcd(start, run, *(stride for extent, stride in dims if extent > 1))


def _end(region) -> int:
    start, shape, strides, itemsize = region
    return start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + itemsize


def _view(mask, region, grain):
    """Return the part of a mask, of one value for every ``grain`` bytes, that a view covers."""
    start, shape, strides, itemsize = region
    run, dims = itemsize, list(zip(shape, strides, strict=True))
    while dims and (dims[-1][1] == run or dims[-1][0] == 1):
        run *= dims.pop()[0]
    extents = (*(n for n, _ in dims), run // grain)
    steps = (*(s // grain for _, s in dims), 1)
    return np.ndarray(extents, bool, mask, start // grain, steps)
