"""What cuFFT is asked for, seen without a device: a library that computes what it is called with.

Tensors on the CPU stand for those on a device. What cuFFT itself gives is for ``test_cuda_plans``.
"""

from __future__ import annotations

import ctypes
import gc
import math
import threading
import weakref

import numpy as np
import pytest
import torch

from trnfft import _device_plans, _eager, _kept
from trnfft._device_plans import AREA, AREAS, planned_for
from trnfft._kept import CALLS, KEPT, LARGEST, LONGEST
from trnsci.core import shortcuts
from trnsci.core.testing import random_tensor

LIBRARY = _device_plans._library.__wrapped__
REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
ELEMENTS = (np.float32, np.float64, None, None, np.complex64, np.complex128)
AUTO, MADE, STREAM, AREA_AT = "auto", "made", "stream", "area"
DIRECTIONS = {-1: True, 1: False}


class Library:
    """cuFFT by its documentation: plans that are made once, in order, and then executed."""

    def __init__(self):
        self.plans, self.destroyed, self.executed = {}, [], []
        self.codes, self.area, self.changed = {}, 0, 0

    def __getattr__(self, name):
        def call(*args):
            return self.codes.get(name, 0) or getattr(self, f"_{name.removeprefix('cufft')}")(*args)

        return call

    def _Create(self, handle):
        handle._obj.value = len(self.plans) + 7
        self.plans[handle._obj.value] = {}
        return 0

    def _SetAutoAllocation(self, handle, allocated):
        self.plans[handle.value][AUTO] = allocated
        return 0

    def _XtMakePlanMany(
        self, handle, rank, n, inembed, istride, idist, given, onembed, ostride, odist, result,
        batch, size, computed,
    ):  # fmt: skip
        assert self.plans[handle.value] == {AUTO: 0}
        points = tuple(n)
        assert len(points) == rank <= 3
        ends = [ELEMENTS[given], ELEMENTS[result]]
        assert ELEMENTS[computed] is next(end for end in ends if np.dtype(end).kind == "c")
        sides = []
        for end, embed, stride, distance in (
            (0, inembed, istride, idist),
            (1, onembed, ostride, odist),
        ):
            lengths = points
            if np.dtype(ends[end]).kind == "c" != np.dtype(ends[1 - end]).kind:
                lengths = (*points[:-1], points[-1] // 2 + 1)
            if embed is None:
                assert stride.value == distance.value == 1
                layout = lengths, 1, math.prod(lengths)
            else:
                layout = tuple(embed), stride.value, distance.value
            sides.append((lengths, *layout))
        self.plans[handle.value][MADE] = points, batch.value, ends, sides
        size._obj.value = self.area
        return 0

    def _SetStream(self, handle, stream):
        self.plans[handle.value][STREAM] = stream.value
        return 0

    def _SetWorkArea(self, handle, address):
        self.plans[handle.value][AREA_AT] = address.value
        return 0

    def _XtExec(self, handle, source, target, direction):
        plan = self.plans[handle.value]
        assert handle.value not in self.destroyed
        assert STREAM in plan
        assert (AREA_AT in plan) is (self.area > 0)
        points, batch, ends, sides = plan[MADE]
        x, out = (
            seen(address, end, batch, *side)
            for address, end, side in zip((source, target), ends, sides, strict=True)
        )
        axes = tuple(range(-len(points), 0))
        forward = DIRECTIONS[direction.value]
        norm = "backward" if forward else "forward"
        x = torch.from_numpy(x.copy())
        if np.dtype(ends[0]).kind == "f":
            assert forward
            result = torch.fft.rfftn(x, points, axes, norm)
        elif np.dtype(ends[1]).kind == "f":
            assert not forward
            result = torch.fft.irfftn(x, points, axes, norm)
            seen(source, ends[0], batch, *sides[0])[...] = np.nan  # as it may
        else:
            result = (torch.fft.fftn if forward else torch.fft.ifftn)(x, points, axes, norm)
        out[...] = result.numpy()
        out.flat[-1] += self.changed
        self.executed.append(handle.value)
        return 0

    def _Destroy(self, handle):
        self.destroyed.append(handle.value)
        return 0


def seen(address, element, batch, lengths, embed, stride, distance):
    """The signals at an address, as a view of memory: batch first."""
    steps = [stride]
    for length in reversed(embed[1:]):
        steps.insert(0, steps[0] * length)
    last = (batch - 1) * distance + sum(
        (n - 1) * step for n, step in zip(lengths, steps, strict=True)
    )
    size = np.dtype(element).itemsize
    memory = np.frombuffer((ctypes.c_byte * ((last + 1) * size)).from_address(address), element)
    return np.lib.stride_tricks.as_strided(
        memory, (batch, *lengths), [step * size for step in (distance, *steps)]
    )


@pytest.fixture(autouse=True)
def library(monkeypatch):
    made = Library()
    monkeypatch.setattr(_device_plans, "_library", lambda: made)
    monkeypatch.setattr(_device_plans, "_on", lambda device: torch.device("cpu"))
    monkeypatch.setattr(_device_plans, "_new", shortcuts.new_on("cpu"))
    monkeypatch.setattr(_device_plans, "_several_devices", lambda: False)
    monkeypatch.setattr(_device_plans, "_current_stream", lambda device: 0)
    monkeypatch.setattr(_device_plans, "_captured", None)  # not to be asked of the default stream
    monkeypatch.setattr(_device_plans, "_waiting_is_watched", lambda: 0)
    _eager.forget()
    yield made
    _eager.forget()


@pytest.fixture
def untried(monkeypatch):
    """Plans are used whatever bits they give: torch's on a CPU are others."""
    monkeypatch.setattr(_kept, "_agrees", lambda *args: True)


def on_device(name):
    return _eager._transform(name, getattr(torch.fft, name), True)


def known(name, x, *args):
    """The result of the first call by a plan."""
    function = on_device(name)
    for _ in range(CALLS):
        function(x, *args)
    return function(x, *args)


def entry(name, x, place=(0, 0)):
    """What is known of a transform by defaults."""
    return planned_for(_eager._FORMS[name], x.dtype, x.shape, (*place, threading.get_ident()))


def drawn(name, shape, dtype=torch.complex64):
    return random_tensor(*shape, dtype=REALS[dtype] if name.startswith("r") else dtype)


ONE = ((1,), (7,), (8,), (1, 6), (3, 1), (2, 3, 5))
TWO = ((4, 6), (1, 5), (3, 4, 6), (2, 3, 4, 5))
THREE = ((2, 3, 4), (3, 4, 5), (2, 3, 4, 6))
CASES = [
    *((name, shape, ()) for name in ("fft", "ifft", "rfft") for shape in ONE),
    *(("irfft", shape, ()) for shape in ((5,), (3, 4), (2, 1, 6))),
    ("irfft", (3, 4), (7,)),  # of an odd length
    *((name, shape, ()) for name in ("fft2", "ifft2", "rfft2") for shape in TWO),
    *((name, s, (None, (-3, -2, -1))) for name in ("fftn", "ifftn", "rfftn") for s in THREE),
    *(("irfft2", shape, ()) for shape in TWO),
    *(("irfftn", shape, (None, (-3, -2, -1))) for shape in THREE),
    *(
        (name, (2, 3, 4), (None, dim, norm))
        for name, dim in (("fft", -1), ("ifft", -1), ("rfft", -1), ("irfft", -1), ("rfft2", (1, 2)))
        for norm in ("ortho", "forward")
    ),
    ("rfft2", (3, 4), (None, (0, 1), "ortho")),
    ("rfftn", (2, 3, 4), (None, (0, 1, 2), "forward")),
]


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize(("name", "shape", "args"), CASES)
def test_plans_compute_the_transform(name, shape, args, dtype, library, untried):
    x = drawn(name, shape, dtype)
    before = x.clone()
    got = known(name, x, *args)
    assert torch.equal(x, before)
    alone = "rfft" in name and len(shape) == {"2": 2, "n": 3}.get(name[-1])
    assert len(library.executed) == len(library.plans) == (2 if alone else 1)
    wide = torch.complex128 if x.is_complex() else torch.float64
    want = getattr(torch.fft, name)(x.to(wide), *args)
    assert got.dtype is (REALS[dtype] if name.startswith("irfft") else dtype)
    assert got.shape == want.shape
    # The numbers are near one, the sums of at most 60 of them.
    assert (got - want).abs().max() <= 64 * torch.finfo(dtype).eps * (want.abs().max() + 1)
    if (
        alone and name[0] == "r"
    ):  # the last dimension is the outermost one in memory, as torch has it
        assert got.permute(-1, *range(len(shape) - 1)).is_contiguous()
    else:
        assert got.is_contiguous()


def test_an_exact_trial_goes_before(library):
    x = random_tensor(4, 8, dtype=torch.complex64)
    function = on_device("fft")
    for _ in range(CALLS - 1):
        function(x)
    assert not library.plans
    function(x)
    assert len(library.executed) == 1
    assert torch.equal(function(x), torch.fft.fft(x))
    assert len(library.executed) == 2


class TestPlaces:
    """A device, a stream and a thread have plans of their own."""

    x = random_tensor(4, 8, dtype=torch.complex64)

    def test_streams(self, library, monkeypatch):
        for stream in (0, 640, 1 << 40):
            monkeypatch.setattr(_device_plans, "_current_stream", lambda device, s=stream: s)
            monkeypatch.setattr(_device_plans, "_captured", lambda: False)
            known("fft", self.x)
        assert [plan[STREAM] or 0 for plan in library.plans.values()] == [0, 640, 1 << 40]

    def test_threads(self, library):
        known("fft", self.x)
        other = threading.Thread(target=known, args=("fft", self.x))
        other.start()
        other.join()
        assert len(library.plans) == 2

    def test_other_devices_are_left_to_torch(self, library, monkeypatch):
        monkeypatch.setattr(_device_plans, "_several_devices", lambda: True)
        monkeypatch.setattr(_device_plans, "_current_device", lambda: 1)
        assert torch.equal(known("fft", self.x), torch.fft.fft(self.x))
        assert planned_for.cache_info().currsize == 0
        monkeypatch.setattr(_device_plans, "_current_device", lambda: self.x.get_device())
        known("fft", self.x)
        assert library.executed

    def test_what_a_graph_captures_is_left_to_torch(self, library, monkeypatch):
        monkeypatch.setattr(_device_plans, "_current_stream", lambda device: 640)
        monkeypatch.setattr(_device_plans, "_captured", lambda: True)
        assert torch.equal(known("fft", self.x), torch.fft.fft(self.x))
        assert planned_for.cache_info().currsize == 0  # nothing is dropped for it either
        monkeypatch.setattr(_device_plans, "_captured", lambda: False)
        known("fft", self.x)
        count = len(library.executed)
        monkeypatch.setattr(_device_plans, "_captured", lambda: True)
        known("fft", self.x)
        assert len(library.executed) == count == 2


class TestWorkAreas:
    """They are torch's memory, one for all plans of a place."""

    def test_they_are_shared(self, library, untried, monkeypatch):
        library.area = AREA
        a, b = random_tensor(4, 8), random_tensor(3, 8)
        known("rfft", a)
        known("rfft", b)
        first, second = (plan[AREA_AT] for plan in library.plans.values())
        assert first == second
        area = weakref.ref(entry("rfft", a).prepared._area)
        assert area().data_ptr() == first
        assert area().nbytes == AREA
        monkeypatch.setattr(_device_plans, "_current_stream", lambda device: 640)
        monkeypatch.setattr(_device_plans, "_captured", lambda: False)
        known("rfft", a)
        assert library.plans[9][AREA_AT] != first
        _eager.forget()
        gc.collect()
        assert area() is None

    def test_there_are_few(self, library, monkeypatch):
        library.area = 64
        x = random_tensor(4, 8, dtype=torch.complex64)
        monkeypatch.setattr(_device_plans, "_captured", lambda: False)
        for stream in range(1, AREAS + 3):
            monkeypatch.setattr(_device_plans, "_current_stream", lambda device, s=stream: s)
            assert torch.equal(known("fft", x), torch.fft.fft(x))
            assert (entry("fft", x, (0, stream)).prepared is not None) is (stream <= AREAS)
        assert len(_device_plans._AREAS) == AREAS
        assert library.destroyed == [*library.plans][AREAS:]

    def test_large_ones_are_left_to_torch(self, library):
        library.area = AREA + 1
        x = random_tensor(4, 8, dtype=torch.complex64)
        assert torch.equal(known("fft", x), torch.fft.fft(x))
        assert not library.executed
        assert library.destroyed == [*library.plans] == [7]
        assert not _device_plans._AREAS


class TestWhereAnythingDiffers:
    """A plan that does not agree with torch is not used, and is freed."""

    x = random_tensor(4, 8, dtype=torch.complex64)

    def check(self, library):
        for _ in range(2):
            assert torch.equal(known("fft", self.x), torch.fft.fft(self.x))
        kept = entry("fft", self.x)
        assert kept.prepared is None
        assert not kept.open
        assert library.destroyed == [*library.plans]

    def test_in_its_results(self, library):
        library.changed = 1e-3
        self.check(library)
        assert len(library.executed) == 1

    @pytest.mark.parametrize(
        "function", ["Create", "SetAutoAllocation", "XtMakePlanMany", "SetStream", "XtExec"]
    )
    def test_because_cufft_refuses(self, function, library):
        library.codes[f"cufft{function}"] = 5
        self.check(library)

    def test_because_cufft_refuses_a_work_area(self, library):
        library.area, library.codes["cufftSetWorkArea"] = 64, 5
        self.check(library)

    def test_because_the_user_watches_for_who_waits(self, library, monkeypatch):
        monkeypatch.setattr(_device_plans, "_waiting_is_watched", lambda: 1)
        self.check(library)
        assert not library.plans

    def test_in_a_later_call(self, library):
        known("fft", self.x)
        library.codes["cufftXtExec"] = 6
        assert torch.equal(on_device("fft")(self.x), torch.fft.fft(self.x))

    def test_in_the_second_of_two_plans(self, library, untried):
        x = random_tensor(4, 8)
        known("rfft2", x)
        compute = entry("rfft2", x).prepared._second
        compute.compute = lambda *args: 6
        assert torch.equal(on_device("rfft2")(x), torch.fft.rfft2(x))

    def test_and_where_there_is_no_library(self, library, monkeypatch):
        monkeypatch.setattr(_device_plans, "_library", lambda: None)
        self.check(library)


def test_the_least_recently_used_plan_is_freed(library):
    x = random_tensor(3, 8, dtype=torch.complex64)
    function = on_device("fft")
    for _ in range(CALLS + 1):
        function(x)
    for batch in range(4, 4 + KEPT):
        function(random_tensor(batch, 8, dtype=torch.complex64))
    assert not library.destroyed  # as the one of the last call
    executed = len(library.executed)
    assert torch.equal(function(x), torch.fft.fft(x))
    assert len(library.executed) == executed + 1
    for _ in range(CALLS + 1):
        function(x[:2])
    assert library.destroyed == [7]


def test_a_forked_process_frees_nothing(library, monkeypatch):
    known("fft", random_tensor(3, 8, dtype=torch.complex64))
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    _eager.forget()
    gc.collect()
    assert not library.destroyed


def test_reals_that_begin_between_pairs_are_left_to_torch(library, untried):
    memory = random_tensor(40)
    known("rfft", memory[:32].view(4, 8))
    library.executed.clear()
    for offset in range(4):
        x = memory[offset : offset + 32].view(4, 8)
        torch.testing.assert_close(on_device("rfft")(x), torch.fft.rfft(x))
    assert len(library.executed) == 2


def test_what_is_left_to_torch(library):
    z = random_tensor(4, 8, dtype=torch.complex64)
    known("fft", z)
    library.executed.clear()
    for other in (
        z.conj(),
        random_tensor(8, 4, dtype=torch.complex64).mT,
        z[:1].expand(4, 8),
        z.clone().requires_grad_(),
        torch._efficientzerotensor((4, 8), dtype=torch.complex64),
    ):
        torch.testing.assert_close(known("fft", other), torch.fft.fft(other))
    torch.testing.assert_close(torch.func.vmap(on_device("fft"))(z[None])[0], torch.fft.fft(z))
    assert not library.executed


@pytest.mark.parametrize(
    ("name", "x", "args"),
    [
        ("fftn", torch.zeros(2, 2, 2, 2, dtype=torch.complex64), ()),
        ("rfft", torch.zeros(4, 8, dtype=torch.int64), ()),
        ("fft", torch.zeros(4, 8), ()),
        ("fft", torch.zeros(4, 8, dtype=torch.complex64), (6,)),
        ("fft", torch.zeros(4, 8, dtype=torch.complex64), (None, 0)),
    ],
)
def test_transforms_that_have_no_plan(name, x, args, library):
    assert torch.equal(known(name, x, *args), getattr(torch.fft, name)(x, *args))
    assert not library.plans


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex32, torch.int64])
@pytest.mark.parametrize("name", ["rfft", "fft"])
def test_other_dtypes_have_no_plan(name, dtype):
    form, place = _eager._FORMS[name], (0, 0, threading.get_ident())
    assert not planned_for(form, dtype, torch.Size((4, 8)), place).open


def test_sizes():
    for x, is_open in (
        (torch.empty(LARGEST // 8, 8, device="meta"), True),
        (torch.empty(LARGEST // 8 + 1, 8, device="meta"), False),
        (torch.empty(LONGEST, device="meta"), True),
        (torch.empty(LONGEST + 1, device="meta"), False),
        (torch.empty(0, 8, device="meta"), False),
    ):
        assert entry("rfft", x).open is is_open


def test_the_library_is_the_one_of_torch(monkeypatch):
    found = LIBRARY
    opened = []

    class Exec:
        argtypes = None

    class Opened(dict):
        cufftXtExec = Exec()

        def __missing__(self, name):
            if name in missing:
                raise AttributeError(name)
            return name

    missing = set()
    monkeypatch.setattr(ctypes, "CDLL", lambda path: opened.append(path) or Opened())
    assert found() is not None
    assert Opened.cufftXtExec.argtypes[1:3] == (ctypes.c_void_p,) * 2
    assert opened[0].endswith("libtorch_cuda.so")
    for name in ("Create", "Destroy", "SetAutoAllocation", "SetStream", "XtMakePlanMany"):
        missing.add(f"cufft{name}")
        assert found() is None
        missing.clear()

    def no_file(path):
        raise OSError(path)

    monkeypatch.setattr(ctypes, "CDLL", no_file)
    assert found() is None


@pytest.mark.skipif(_device_plans.MAY_PLAN, reason="this torch has CUDA")
def test_without_cuda_there_is_nothing_to_ask():
    assert _eager.device_transform("fft", torch.fft.fft) is torch.fft.fft
