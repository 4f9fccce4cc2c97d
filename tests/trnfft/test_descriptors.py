"""What a kept descriptor computes has torch's bits, and only what nobody watches is computed so."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

import trnfft
from trnfft import ComplexTensor, torch_fft
from trnfft._descriptors import MAY_KEEP, kept_for
from trnfft._kept import CALLS, LARGEST, LONGEST
from trnsci.core.testing import random_tensor

from . import test_direct
from .keeping import (
    OF_COMPLEX,
    OF_REAL,
    WIDTHS,
    assert_kept,
    drawn,
    entry,
    known,
    native,
    repeated,
    same,
    torchs,
    usual,
)

pytestmark = [
    pytest.mark.skipif(not MAY_KEEP, reason="torch computes by MKL on x86-64 Linux only"),
    pytest.mark.usefixtures("nothing_is_kept"),
]

VECTORS = ((2,), (7,), (64,), (83,), (200,))
BATCHES = ((1, 2), (5, 2), (3, 7), (2, 3, 8), (6, 15), (4, 1, 64), (3, 101))
IMAGES = ((2, 2), (1, 5), (7, 3), (3, 4, 6), (2, 1, 5, 8), (16, 17))


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
                assert same(got, torchs(name, moved)), (shape, dtype, offset)
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
