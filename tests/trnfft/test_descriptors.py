"""What a kept descriptor computes has torch's bits, and only what nobody watches is computed so."""

from __future__ import annotations

import ctypes
import math
import re
import threading
import weakref

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

import trnfft
from trnfft import ComplexTensor, _descriptors, _eager, torch_fft
from trnfft._descriptors import MAY_KEEP, Descriptor, TwoDescriptors, kept_for
from trnfft._kept import CALLS, KEPT, LARGEST, LONGEST, Form
from trnsci.core.testing import random_tensor

from . import test_direct

pytestmark = pytest.mark.skipif(not MAY_KEEP, reason="torch computes by MKL on x86-64 Linux only")

OF_COMPLEX = ("fft", "ifft", "irfft", "fft2", "ifft2", "fftn", "ifftn")
OF_REAL = ("rfft", "rfft2", "rfftn")
REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
WIDTHS = tuple(REALS)
VECTORS = ((2,), (7,), (64,), (83,))  # longer ones can be SciPy's
BATCHES = ((1, 2), (5, 2), (3, 7), (2, 3, 8), (6, 15), (4, 1, 64), (3, 101))
IMAGES = ((2, 2), (1, 5), (7, 3), (3, 4, 6), (2, 1, 5, 8), (16, 17))


@pytest.fixture(autouse=True)
def nothing_is_kept():
    """Transforms as in a fresh process."""
    _eager.forget()
    yield
    _eager.forget()


@pytest.fixture
def computed(monkeypatch):
    """The shapes that descriptors computed."""
    shapes = []

    def noting(of):
        def noted(descriptor, x):
            result = of(descriptor, x)
            if result is not None:
                shapes.append(tuple(x.shape))
            return result

        return noted

    for kind in (Descriptor, TwoDescriptors):
        monkeypatch.setattr(kind, "of", noting(kind.of))
    return shapes


def drawn(name, shape, dtype=torch.complex64, seed=0):
    return random_tensor(*shape, dtype=REALS[dtype] if name in OF_REAL else dtype, seed=seed)


def native(result):
    return result.to_torch_complex() if isinstance(result, ComplexTensor) else result


def known(name, x, *args):
    """The result of a call that is known by the calls before."""
    return native(repeated(getattr(trnfft, name), x, *args))


def repeated(function, *args):
    """The result of the first call of which a descriptor may be used."""
    for _ in range(CALLS):
        function(*args)
    return function(*args)


def entry(name, x):
    """What is known of a transform by defaults."""
    return kept_for(_eager._FORMS[name], x.dtype, x.shape, torch.get_num_threads())


def same(got, want):
    """Whether two results have one dtype, shape, layout and the same bits."""
    form = (got.dtype, got.shape, got.stride(), got.is_conj())
    return form == (want.dtype, want.shape, want.stride(), want.is_conj()) and (
        got.numpy().tobytes() == want.numpy().tobytes()
    )


def assert_kept(computed, name, x, *args):
    got = known(name, x, *args)
    # Once in its trial, and the call after it.
    assert computed == [tuple(x.shape)] * 2, (name, x.shape, args)
    assert same(got, getattr(torch.fft, name)(x, *args)), (name, x.shape, args)
    computed.clear()


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", [*OF_COMPLEX, *OF_REAL])
def test_bits_are_torchs(name, dtype, computed):
    shapes = IMAGES if name[-1] in "2n" else VECTORS + BATCHES
    for shape in shapes:
        assert_kept(computed, name, drawn(name, shape, dtype))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", [*OF_COMPLEX, *OF_REAL])
def test_bits_are_torchs_by_any_norm(name, norm, computed):
    assert_kept(computed, name, drawn(name, (3, 4, 6)), None, *usual(name), norm)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_bits_are_torchs_of_half_a_spectrum_over_several_dimensions(norm, dtype, computed):
    for shape in ((2, 2), (1, 5), (7, 3), (16, 17), (1, 6, 4)):
        assert_kept(computed, "irfft2", drawn("irfft2", shape, dtype), None, (-2, -1), norm)
    kept_for.cache_clear()  # which knows some of these already
    for shape in (*IMAGES, (3, 4, 2, 5)):
        assert_kept(computed, "irfftn", drawn("irfftn", shape, dtype), None, None, norm)
    known("irfft2", drawn("irfft2", (3, 4, 6), dtype))
    assert not computed  # of a batch torch makes copies


def usual(name):
    return {"n": (None,), "2": ((-2, -1),)}.get(name[-1], (-1,))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", (6,)),
        ("ifft", (6, 2)),
        ("rfft", (6, -1, "ortho")),
        ("irfft", (10,)),
        ("irfft", (11,)),  # of an odd length
        ("fft2", ((4, 6),)),
        ("fft2", (None, (1, 2))),
        ("fft2", (None, (0, 1, 2))),
        ("rfft2", ([4, 6], [-2, -1])),
        ("fftn", ((4, 6),)),
        ("fftn", (None, (-2, -1), "forward")),
        ("rfftn", ((6,), (2,))),
        ("irfftn", ((3, 4, 10),)),
        ("irfftn", (None, (0, 1, 2))),
        ("irfftn", ((10,), (-1,))),
    ],
)
def test_arguments_that_say_what_holds_change_nothing(name, args, computed):
    assert_kept(computed, name, drawn(name, (3, 4, 6)), *args)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", (5,)),
        ("fft", (7,)),
        ("fft", (None, 0)),
        ("rfft", (None, 1)),
        ("irfft", (9,)),
        ("irfft", (12,)),
        ("fft2", ((4, 5),)),
        ("fft2", (None, (0, 1))),
        ("fft2", (None, (2, 1))),
        ("fftn", ((-1, 6),)),
        ("irfftn", ((3, 4, 6),)),
        ("irfftn", ((3, 4, 11),)),
        ("fftn", (None, (0, 2))),
        ("fftn", (None, ())),
    ],
)
def test_other_lengths_and_dimensions_are_left_to_torch(name, args, computed):
    x = drawn(name, (3, 4, 6))
    torch.testing.assert_close(known(name, x, *args), getattr(torch.fft, name)(x, *args))
    assert not computed


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", (6.0,)),
        ("fft", (6, 2.0)),
        ("fft", (6, -1, "both")),
        ("fft", (6, -1, ["ortho"])),
        ("fft2", (None, None)),
        ("fft2", ((4.0, 6.0),)),
        ("fft2", (None, (-2.0, -1.0))),
        ("fftn", ((4, 6), (2,))),
        ("fftn", ((1, 3, 4, 6),)),
        ("fftn", (None, (-2, -1), "both")),
    ],
)
def test_what_torch_refuses_is_refused_though_equal_arguments_are_known(name, args):
    x = drawn(name, (3, 4, 6))
    for known_args in ((), (6,) if name == "fft" else ((4, 6),), (None, *usual(name), "ortho")):
        known(name, x, *known_args)
    with pytest.raises((TypeError, RuntimeError)) as refused:
        getattr(torch.fft, name)(x, *args)
    for _ in range(CALLS + 1):
        with pytest.raises(refused.type, match=f"^{re.escape(str(refused.value))}$"):
            getattr(torch_fft, name)(x, *args)


class Watching(TorchFunctionMode):
    """A mode that sees each function, and changes none."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class TestWhatIsLeftToTorch:
    """Each input comes often enough to be known."""

    x = random_tensor(4, 8, dtype=torch.complex64)

    @pytest.fixture(autouse=True)
    def known_to_a_descriptor(self, computed):
        known("fft", self.x)
        assert computed
        computed.clear()
        self.computed = computed
        yield
        assert not computed

    def check(self, x):
        got = known("fft", x)
        torch.testing.assert_close(got, torch.fft.fft(x))

    def test_strides(self):
        self.check(random_tensor(8, 4, dtype=torch.complex64).mT)
        self.check(random_tensor(4, 16, dtype=torch.complex64)[:, ::2])
        self.check(self.x[:1].expand(4, 8))

    def test_a_conjugation_that_is_left_for_later(self):
        self.check(self.x.conj())

    def test_a_negation_that_is_left_for_later(self):
        z = random_tensor(4, 8, dtype=torch.complex64).conj()
        negated = torch.view_as_real(z.resolve_conj())[..., 1].contiguous()
        imaginary = torch._neg_view(negated)
        assert imaginary.is_neg()
        for _ in range(CALLS + 1):
            got = native(trnfft.rfft(imaginary))
        torch.testing.assert_close(got, torch.fft.rfft(-negated))

    def test_zeros_without_memory(self):
        assert known("fft", torch._efficientzerotensor((4, 8), dtype=torch.complex64)).eq(0).all()
        descriptor, given = entry("fft", self.x).prepared, []
        descriptor.compute = lambda *addresses: given.append(addresses) or 0
        assert descriptor.of(torch._efficientzerotensor((4, 8), dtype=torch.complex64)) is None
        assert not given
        self.computed.clear()

    def test_gradients(self):
        x = self.x.clone().requires_grad_()
        for _ in range(CALLS + 1):
            result = trnfft.fft(x)
            assert result.requires_grad
        result.abs().sum().backward()
        assert x.grad is not None

    def test_forward_gradients(self):
        with forward_ad.dual_level():
            self.check(self.x)

    def test_vmap(self):
        for _ in range(CALLS + 1):
            got = torch.func.vmap(trnfft.fft)(self.x[None])
        torch.testing.assert_close(got, torch.fft.fft(self.x[None]))

    def test_autocast(self):
        with torch.autocast("cpu"):
            self.check(self.x)

    def test_modes(self):
        with Watching():
            self.check(self.x)
        with FakeTensorMode() as mode:
            for _ in range(CALLS + 1):
                assert trnfft.fft(mode.from_tensor(self.x)).shape == (4, 8)

    def test_compilation(self):
        compiled = torch.compile(trnfft.fft, fullgraph=True, backend="eager")
        for _ in range(CALLS + 1):
            assert same(compiled(self.x), torch.fft.fft(self.x))

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
    def test_tracing(self):
        traced = torch.jit.trace(lambda x: trnfft.fft(x), self.x, check_trace=False)
        other = random_tensor(4, 8, dtype=torch.complex64, seed=1)
        torch.testing.assert_close(traced(other), torch.fft.fft(other))

    def test_sizes(self):
        assert known("fft", torch.zeros(0, 8, dtype=torch.complex64)).shape == (0, 8)
        long = torch.zeros(2, LONGEST + 1, dtype=torch.complex64)
        assert not entry("fft", long).open
        assert entry("fft", long[:, :-1]).open
        large = torch.zeros(LARGEST // 8 + 1, 8, dtype=torch.complex64)
        assert not entry("fft", large).open
        assert entry("fft", large[:-1]).open
        assert not entry("fft", long[:0, :9]).open
        assert not entry("irfft", long[:, :1]).open
        with pytest.raises(IndexError, match="no dimensions"):
            torch_fft.fft(long[0, 0], 1)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
    def test_dtypes_that_mkl_does_not_have(self, dtype):
        x = torch.ones(4, 8, dtype=dtype)
        assert not entry("rfft2", x).open
        assert not entry("fft2", x).open
        if not dtype.is_floating_point:
            got = repeated(torch_fft.rfft2, x)
            assert same(got, torch.fft.rfft2(x))

    def test_reals_that_become_complex(self):
        for _ in range(CALLS + 1):
            got = native(trnfft.fft(self.x.real.contiguous()))
            points = trnfft.irfft(self.x.real.contiguous())
        torch.testing.assert_close(got, torch.fft.fft(self.x.real))
        torch.testing.assert_close(points, torch.fft.irfft(self.x.real))


class TestWhoTakesThisWay:
    """Everything that torch would compute on a CPU."""

    def test_complex_tensors(self, computed):
        x = random_tensor(4, 8, dtype=torch.complex64)
        for name in ("fft", "ifft2"):
            got = known(name, ComplexTensor(x))
            assert same(got, getattr(torch.fft, name)(x))
        assert computed == [(4, 8)] * 4

    def test_out(self, computed):
        x = random_tensor(4, 8, dtype=torch.complex64)
        out = torch.zeros_like(x)
        for _ in range(CALLS + 1):
            assert trnfft.fft(x, out=out) is out
        assert same(out, torch.fft.fft(x))
        assert computed == [(4, 8)] * 2

    def test_no_grad(self, computed):
        x = random_tensor(4, 8, dtype=torch.complex64).requires_grad_()
        with torch.no_grad():
            got = known("fft", x)
            assert same(got, torch.fft.fft(x))
        assert not got.requires_grad
        assert computed == [(4, 8)] * 2

    def test_inference(self, computed):
        x = random_tensor(4, 8)
        with torch.inference_mode():
            assert known("rfft", x).is_inference()
        assert not native(trnfft.rfft(x)).is_inference()
        assert len(computed) == 3

    def test_plans(self, computed):
        for kind in ("fft", "fft2", "fftn", "rfft", "rfft2", "irfft"):
            x = drawn(kind, (4, 9))
            plan = trnfft.plan((4, 9), dtype=x.dtype, kind=kind)
            for _ in range(CALLS + 1):
                got = plan.execute(x)
            assert same(native(got), getattr(torch.fft, kind)(x)), kind
            assert computed, kind
            computed.clear()

    def test_short_time_transforms(self, computed):
        x, window = random_tensor(2, 64), torch.hann_window(16)
        for _ in range(CALLS + 1):
            bins = trnfft.stft(x, 16, 4, window=window, return_complex=True)
        continued = torch.nn.functional.pad(x, (8, 8), mode="reflect")
        frames = continued.unfold(-1, 16, 4) * window
        assert same(bins.mT, torch.fft.rfft(frames))
        assert computed == [(2, 17, 16)] * 2

    def test_the_drop_in(self, computed):
        x = random_tensor(4, 8, dtype=torch.complex64)
        for name in ("fft", "fft2", "ifftn"):
            for _ in range(CALLS + 1):
                got = getattr(torch_fft, name)(x)
            assert same(got, getattr(torch.fft, name)(x)), name
            assert computed == [(4, 8)] * 2, name
            computed.clear()

    def test_what_begins_anywhere_in_memory(self, computed):
        known("rfft", random_tensor(4, 8))
        for offset in range(1, 8):
            x = random_tensor(40)[offset : offset + 32].view(4, 8)
            assert same(native(trnfft.rfft(x)), torch.fft.rfft(x))
        assert len(computed) == 9


def test_what_seldom_comes_is_not_prepared(computed):
    x = random_tensor(4, 8)
    for _ in range(CALLS - 1):
        trnfft.rfft(x)
    kept = entry("rfft", x)
    assert kept.open
    assert kept.prepared is None
    trnfft.rfft(x)
    assert not kept.open
    assert kept.prepared is not None
    assert len(computed) == 1


def test_a_trial_draws_no_numbers_of_the_user():
    before = torch.get_rng_state()
    known("rfft", random_tensor(4, 8))
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_of_threads_have_descriptors_of_their_own(computed):
    before = torch.get_num_threads()
    x = random_tensor(16, 256)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert_kept(computed, "rfft", x)
    finally:
        torch.set_num_threads(before)
    assert kept_for.cache_info().currsize == 2


def test_threads_share_a_descriptor():
    inputs = [random_tensor(16, 64, dtype=torch.complex64, seed=seed) for seed in range(4)]
    wanted = [torch.fft.fft2(x) for x in inputs]
    start, wrong = threading.Barrier(len(inputs)), []

    def work(x, want):
        start.wait()
        for _ in range(50):
            if not same(trnfft.fft2(x), want):
                wrong.append(x)

    workers = [
        threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


class Transformed(torch.utils.data.Dataset):
    """Transforms that are computed where they are asked for."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        x = random_tensor(4, 8, dtype=torch.complex64, seed=index)
        return x, trnfft.fft(x), entry("fft", x).prepared is not None


def test_a_forked_worker_computes_by_what_its_parent_kept():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as many as a worker has
    try:
        known("fft", random_tensor(4, 8, dtype=torch.complex64))
        loader = DataLoader(
            Transformed(), batch_size=None, num_workers=1, multiprocessing_context="fork"
        )
        for x, result, kept in loader:
            assert kept
            assert torch.equal(result, torch.fft.fft(x))
    finally:
        torch.set_num_threads(before)


class Library:
    """MKL's functions, with some of them in another way."""

    def __init__(self, **others):
        self.others, self.found = others, _descriptors._library()

    def __getattr__(self, name):
        return self.others.get(name) or getattr(self.found, name)

    def __getitem__(self, name):
        return self.others.get(name) or self.found[name]


@pytest.fixture
def library(monkeypatch):
    """What puts functions in place of MKL's."""

    def put(**others):
        changed = Library(**others)
        monkeypatch.setattr(_descriptors, "_library", lambda: changed)
        return changed

    return put


def test_the_least_recently_used_descriptor_is_freed(library, computed):
    freed = []
    free = _descriptors._library().DftiFreeDescriptor

    def noted(reference):
        freed.append(reference)
        return free(reference)

    library(DftiFreeDescriptor=noted)
    first, other = random_tensor(3, 8), random_tensor(4, 8)
    known("rfft", first)
    known("rfft", other)
    held, dropped = entry("rfft", other).prepared, weakref.ref(entry("rfft", first).prepared)
    for batch in range(5, 5 + KEPT):
        trnfft.rfft(random_tensor(batch, 8))
    assert kept_for.cache_info().currsize == KEPT
    assert dropped() is None
    assert len(freed) == 1  # and the one that is in use is not
    assert same(held.of(other), torch.fft.rfft(other))
    del held
    assert len(freed) == 1  # nor is the one of the last call
    known("rfft", random_tensor(2, 8))
    assert len(freed) == 2


class TestWhereAnythingDiffers:
    """A descriptor that does not agree with torch is not used."""

    x = random_tensor(4, 8)

    def check(self):
        assert same(known("rfft", self.x), torch.fft.rfft(self.x))
        kept = entry("rfft", self.x)
        assert kept.prepared is None
        assert not kept.open

    def test_in_its_results(self, monkeypatch):
        monkeypatch.setattr(Form, "scale", lambda form, points: 1.0 + 2.0**-20)
        self.check()

    def test_in_the_last_bit_of_one_of_them(self, library):
        compute = _descriptors._library().DftiComputeForward

        def inexact(handle, source, target):
            status = compute(handle, source, target)
            last = ctypes.cast(target + 8 * 4 * 5 - 4, ctypes.POINTER(ctypes.c_uint32))
            last[0] ^= 1
            return status

        library(DftiComputeForward=inexact)
        self.check()

    def test_in_its_input(self, library):
        compute = _descriptors._library().DftiComputeForward

        def destructive(handle, source, target):
            status = compute(handle, source, target)
            ctypes.memset(source, 0, 4)
            return status

        library(DftiComputeForward=destructive)
        self.check()

    @pytest.mark.parametrize(
        "function",
        ["DftiCreateDescriptor_s_1d", "DftiSetValue", "DftiCommitDescriptor", "DftiComputeForward"],
    )
    def test_because_mkl_refuses(self, function, library):
        library(**{function: lambda *args: 1})
        self.check()

    def test_and_where_there_is_no_library(self, monkeypatch):
        monkeypatch.setattr(_descriptors, "_PATH", "nowhere.so")
        assert _descriptors._library.__wrapped__() is None
        monkeypatch.setattr(_descriptors, "_library", lambda: None)
        self.check()

    def test_and_where_torch_has_no_mkl(self, monkeypatch):
        monkeypatch.setattr(_eager, "MAY_KEEP", False)
        assert _eager.host_transform("rfft", torch.fft.rfft) is torch.fft.rfft

    def test_in_a_second_step(self, library):
        x, calls = random_tensor(4, 5, dtype=torch.complex64), []
        compute = _descriptors._library().DftiComputeBackward

        def second_fails(*args):
            calls.append(args)
            return compute(*args) if len(calls) % 2 else 1

        library(DftiComputeBackward=second_fails)
        assert same(known("irfft2", x), torch.fft.irfft2(x))
        assert len(calls) == 2

    def test_later(self, library):
        """A computation that fails is torch's."""
        known("rfft", self.x)
        entry("rfft", self.x).prepared.compute = lambda *args: 1
        assert same(native(trnfft.rfft(self.x)), torch.fft.rfft(self.x))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OF_COMPLEX, *OF_REAL])
def test_bits_are_torchs_for_any_shape(name, computed):
    generator = torch.Generator().manual_seed(len(name))
    for _ in range(60):
        ndim = int(torch.randint(2, 5, (), generator=generator))
        longest = {2: 200, 3: 40, 4: 14}[ndim]
        shape = torch.randint(2, longest, (ndim,), generator=generator).tolist()
        for dtype in WIDTHS:
            size, x = math.prod(shape), drawn(name, shape, dtype)
            room = torch.zeros(size + 3, dtype=x.dtype)
            for offset in (0, 1, 3):
                moved = room[offset : offset + size].view(shape).copy_(x)
                got = known(name, moved)
                assert same(got, getattr(torch.fft, name)(moved)), (shape, dtype, offset)
            assert computed, shape
            computed.clear()


@pytest.mark.slow
@pytest.mark.parametrize("module", [trnfft, torch_fft])
@pytest.mark.parametrize("name", test_direct.CALLS)
def test_the_last_of_many_calls_is_as_the_first(name, module):
    function = getattr(module, name)
    for kind, x in test_direct.INPUTS.items():
        if module is torch_fft and isinstance(x, ComplexTensor):
            continue  # which torch does not know
        for args in test_direct.CALLS[name]:
            first = test_direct.outcome(function, x, *args)
            for _ in range(CALLS):
                last = test_direct.outcome(function, x, *args)
            assert first == last, (kind, args)
