"""What a kept plan of cuFFT computes has torch's bits, wherever and by whomever it is called."""

from __future__ import annotations

import gc
from itertools import product

import pytest
import torch
from torch.autograd import forward_ad

import trnfft
from trnfft import ComplexTensor, _device_plans, _eager, torch_fft
from trnfft._device_plans import AREA, Plan, TwoPlans
from trnfft._kept import CALLS, KEPT, LONGEST
from trnsci.core.testing import random_tensor

from .keeping import known, native, repeated, same, wrong_in_threads

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("nothing_is_kept"),
]

OF_COMPLEX = ("fft", "ifft", "irfft", "fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn")
OF_REAL = ("rfft", "rfft2", "rfftn")
REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
VECTORS = ((1,), (2,), (7,), (64,), (83,), (997,), (1000,), (4096,), (65536,))
BATCHES = ((1, 1), (5, 2), (3, 7), (2, 3, 8), (6, 15), (4, 1, 64), (3, 101), (64, 997), (9, 1024))
IMAGES = ((2, 2), (1, 5), (5, 1), (7, 3), (3, 4, 6), (2, 1, 5, 8), (16, 17), (64, 64), (2, 31, 64))
VOLUMES = ((2, 2, 2), (3, 4, 5), (2, 3, 4, 6), (1, 7, 11), (16, 16, 16))


@pytest.fixture
def computed(noting):
    """The shapes that plans computed."""
    return noting(Plan, TwoPlans)


def drawn(name, shape, dtype=torch.complex64, seed=0):
    dtype = REALS[dtype] if name in OF_REAL else dtype
    return random_tensor(*shape, dtype=dtype, seed=seed).cuda()


def plans():
    """The plans that are kept."""
    return [plan for plan in gc.get_objects() if type(plan) is Plan]


def shapes_of(name):
    shapes = {"2": IMAGES, "n": VOLUMES}.get(name[-1], VECTORS + BATCHES)
    if not name.startswith("irfft"):
        return shapes
    return [shape for shape in shapes if 1 < shape[-1] <= LONGEST // 2 + 1]


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("name", [*OF_COMPLEX, *OF_REAL])
def test_bits_are_torchs(name, dtype, computed):
    left = []
    for shape in shapes_of(name):
        args = (None, (-3, -2, -1)) if name.endswith("n") else ()
        x = drawn(name, shape, dtype)
        before = x.clone()
        got = known(name, x, *args)
        assert same(got, getattr(torch.fft, name)(x, *args)), (name, shape)
        assert torch.equal(x, before)
        if not computed:
            left.append(shape)
        computed.clear()
    # What torch does in another order or with more memory may stay there, and little else.
    assert set(left) <= {(1,), (1, 1), (5, 1), (1, 5), (2, 1, 5, 8)}, (name, dtype, left)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", [*OF_COMPLEX, *OF_REAL])
def test_bits_are_torchs_by_any_norm(name, norm, computed):
    dim = {"n": (-3, -2, -1), "2": (-2, -1)}.get(name[-1], -1)
    for shape in ((3, 4, 6), (2, 3, 5, 8)):
        x = drawn(name, shape)
        assert same(known(name, x, None, dim, norm), getattr(torch.fft, name)(x, None, dim, norm))
        assert computed
        computed.clear()


@pytest.mark.parametrize("name", ["fft", "rfft", "rfft2"])
def test_batches_of_nothing(name, computed):
    # Of which torch's functions raise an error of cuFFT.
    bins = 8 if name == "fft" else 5
    assert known(name, drawn(name, (0, 4, 8))).shape == (0, 4, bins)
    assert not computed


class TestPlaces:
    """Streams, threads, graphs and devices."""

    def test_streams(self, computed):
        streams = [torch.cuda.Stream() for _ in range(4)]
        inputs = [drawn("fft", (64, 1024), seed=seed) for seed in range(4)]
        wanted = [torch.fft.ifft(torch.fft.fft(x)) for x in inputs]
        torch.cuda.synchronize()
        results = []
        for _ in range(2 * CALLS):
            results.clear()
            for stream, x in zip(streams, inputs, strict=True):
                with torch.cuda.stream(stream):
                    results.append(trnfft.ifft(trnfft.fft(x)))
        torch.cuda.synchronize()
        assert all(map(same, results, wanted))
        assert len(computed) >= 4 * 2 * CALLS
        assert len(plans()) == 4 * 2

    def test_a_stream_waits_for_what_went_before_in_it(self, computed):
        x = drawn("fft", (256, 1024))
        want = torch.fft.fft(x) * 2
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            known("fft", x)
            computed.clear()
            torch.cuda._sleep(20_000_000)
            doubled = x * 2
            got = trnfft.fft(doubled)
            del doubled
        side.synchronize()
        assert computed
        torch.testing.assert_close(got, want)

    def test_threads(self, computed):
        inputs = [drawn("fft2", (16, 64), seed=seed) for seed in range(4)]
        wanted = [torch.fft.fft2(x) for x in inputs]
        assert not wrong_in_threads(trnfft.fft2, inputs, wanted)
        assert len(computed) >= 4 * 40

    def test_graphs(self, computed):
        x = drawn("fft", (16, 256))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            known("fft", x)
            torch.fft.rfft(x.real.contiguous())
        torch.cuda.current_stream().wait_stream(side)
        assert computed
        computed.clear()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(CALLS + 2):
                got = trnfft.fft(x)
                halved = native(trnfft.rfft(x.real.contiguous()))
        assert not computed
        # Plans come and go, and the graph needs none of them.
        for batch in range(1, KEPT + 2):
            known("fft", drawn("fft", (batch, 256)))
        x.copy_(drawn("fft", (16, 256), seed=1))
        graph.replay()
        torch.cuda.synchronize()
        assert same(got, torch.fft.fft(x))
        assert same(halved, torch.fft.rfft(x.real.contiguous()))

    @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
    def test_devices(self, computed):
        x = drawn("fft", (16, 256)).to("cuda:1")
        assert same(known("fft", x), torch.fft.fft(x))
        assert not computed
        with torch.cuda.device(1):
            assert same(known("fft", x), torch.fft.fft(x))
        assert computed

    @pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
    def test_waiting_that_is_watched(self, computed):
        x = drawn("fft", (16, 256))
        torch.cuda.synchronize()
        try:
            torch.cuda.set_sync_debug_mode("error")
            got = known("fft", x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert same(got, torch.fft.fft(x))
        assert not computed


def test_work_areas_are_torchs(computed):
    x = drawn("rfft", (64, 997))
    before = torch.cuda.memory_allocated()
    assert same(known("rfft", x), torch.fft.rfft(x))
    assert computed
    # Of a work area and of what results are like.
    assert torch.cuda.memory_allocated() - before <= AREA + 512
    _eager.forget()
    gc.collect()
    assert torch.cuda.memory_allocated() == before
    assert not _device_plans._AREAS


def test_plans_are_freed(computed):
    for batch in range(1, 2 * KEPT):
        x = drawn("fft", (batch, 64))
        assert same(known("fft", x), torch.fft.fft(x))
    gc.collect()
    assert len(plans()) in (KEPT, KEPT + 1)


class TestWhatIsLeftToTorch:
    """Each input comes often enough to be known."""

    @pytest.fixture(autouse=True)
    def known_to_a_plan(self, nothing_is_kept, computed):
        self.x = drawn("fft", (4, 8))
        known("fft", self.x)
        assert computed
        computed.clear()
        yield
        assert not computed

    def check(self, x):
        torch.testing.assert_close(known("fft", x), torch.fft.fft(x))

    def test_strides_and_bits_for_later(self):
        self.check(self.x.mT.contiguous().mT)
        self.check(drawn("fft", (4, 16))[:, ::2])
        self.check(self.x[:1].expand(4, 8))
        self.check(self.x.conj())

    def test_zeros_without_memory(self):
        zeros = torch._efficientzerotensor((4, 8), dtype=torch.complex64, device="cuda")
        assert known("fft", zeros).eq(0).all()

    def test_reals_between_pairs(self, computed):
        memory = drawn("rfft", (40,))
        known("rfft", memory[:32].view(4, 8))
        assert computed
        computed.clear()
        x = memory[1:33].view(4, 8)
        assert same(known("rfft", x), torch.fft.rfft(x))

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
    def test_gradients(self):
        x = self.x.clone().requires_grad_()
        want = self.x.clone().requires_grad_()
        repeated(trnfft.fft, x).abs().sum().backward()
        torch.fft.fft(want).abs().sum().backward()
        torch.testing.assert_close(x.grad, want.grad)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(self.x, self.x)
            tangent = forward_ad.unpack_dual(repeated(trnfft.fft, dual)).tangent
        torch.testing.assert_close(tangent, torch.fft.fft(self.x))

    def test_transforms_of_functions(self):
        got = repeated(torch.func.vmap(trnfft.fft), self.x[None])
        torch.testing.assert_close(got[0], torch.fft.fft(self.x))
        compiled = torch.compile(trnfft.fft, fullgraph=True, backend="eager")
        torch.testing.assert_close(repeated(compiled, self.x), torch.fft.fft(self.x))

    def test_autocast(self):
        with torch.autocast("cuda"):
            self.check(self.x)

    @pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
    def test_half_precision(self):
        x = self.x.real.contiguous().half()
        got, want = repeated(torch_fft.rfft2, x), torch.fft.rfft2(x)
        assert torch.equal(torch.view_as_real(got), torch.view_as_real(want))


class TestWhoTakesThisWay:
    """Everything that torch would compute."""

    def test_complex_tensors(self, computed):
        x = drawn("fft", (4, 8))
        for name in ("fft", "ifft2"):
            assert same(known(name, ComplexTensor(x)), getattr(torch.fft, name)(x))
            assert computed
            computed.clear()

    def test_plans(self, computed):
        for kind, shape in product(("fft", "fft2", "rfft", "irfft"), ((4, 9),)):
            x = drawn(kind, shape)
            plan = trnfft.plan(shape, dtype=x.dtype, kind=kind)
            assert same(native(repeated(plan.execute, x)), getattr(torch.fft, kind)(x)), kind
            assert computed, kind
            computed.clear()

    def test_short_time_transforms(self, computed):
        x, window = drawn("rfft", (2, 640)), torch.hann_window(64, device="cuda")
        bins = repeated(lambda: trnfft.stft(x, 64, 16, window=window, return_complex=True))
        want = torch.stft(x, 64, 16, window=window, return_complex=True)
        torch.testing.assert_close(bins, want)
        assert computed

    def test_the_drop_in(self, computed):
        x = drawn("fft", (4, 8))
        for name in ("fft", "fft2", "ifftn"):
            got = repeated(getattr(torch_fft, name), x)
            assert same(got, getattr(torch.fft, name)(x)), name
            assert computed, name
            computed.clear()

    def test_no_grad_and_inference(self, computed):
        x = drawn("fft", (4, 8)).requires_grad_()
        with torch.no_grad():
            got = known("ifft", x)
        assert not got.requires_grad
        with torch.inference_mode():
            assert known("ifft", x).is_inference()
        assert not trnfft.ifft(x.detach()).is_inference()
        assert len(computed) >= 3


def test_a_trial_draws_no_numbers_of_the_user():
    before, on_device = torch.get_rng_state(), torch.cuda.get_rng_state()
    known("rfft", drawn("rfft", (4, 8)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.cuda.get_rng_state(), on_device)
