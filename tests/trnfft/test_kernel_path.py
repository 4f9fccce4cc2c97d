"""The public transforms on the simulator: the kernel runs, once, and gives the right bins."""

from itertools import product

import numpy as np
import pytest
import torch

import trnfft
import trnfft.nki
import trnfft.nn
from each_case import each_case
from oracles import fourier_kernels as oracle
from pairwise import pairwise
from required import requiring
from trnfft import torch_fft
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, strict_simulation

from .agreement import array

# What every kernel promises, in the L2 norm; bfloat16 operands have 8 bits each.
FLOAT32_ERROR, BFLOAT16_ERROR = 2e-6, 2 * 2.0**-8

LENGTHS = [1, 2, 3, 127, 128, 129, 251, 512, 1000, 1031, 4096]
COMPLEX_INPUT = ("fft", "ifft", "irfft", "hfft")
REAL_INPUT = ("fft", "ifft", "rfft", "ihfft")


@pytest.fixture(autouse=True)
def on_simulator():
    """A kernel that fails raises; nothing is computed by torch in its place."""
    with requiring("trnfft"), trnfft.backend("simulator"):
        yield


def relative_error(got, want):
    got = array(got)
    assert got.shape == tuple(want.shape)
    assert np.iscomplexobj(got) == want.is_complex()
    return oracle.relative_error(got, array(want))


def wide(x):
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def operand(kind, n, is_complex, rows=2):
    points = n // 2 + 1 if kind in ("irfft", "hfft") else n
    return random_tensor(rows, points, dtype=torch.complex64 if is_complex else torch.float32)


@each_case("n", LENGTHS)
@each_case(
    ("kind", "is_complex"),
    [*((kind, True) for kind in COMPLEX_INPUT), *((kind, False) for kind in REAL_INPUT)],
)
def test_one_launch_gives_the_transform(kind, is_complex, n):
    x = operand(kind, n, is_complex)
    before = counts()
    got = getattr(trnfft, kind)(x, n)
    since = counts() - before
    assert sum(since.launches.values()) == 1
    assert not since.fallbacks
    want = getattr(torch.fft, kind)(wide(x), n)
    assert relative_error(got, want) <= FLOAT32_ERROR


@each_case(
    ("kind", "norm", "n"),
    pairwise(COMPLEX_INPUT, ["backward", "ortho", "forward"], [30, 1024, 1031]),
)
def test_norms_and_other_lengths(kind, norm, n):
    for points in (n // 2, n + 5):
        x = random_tensor(3, points, dtype=torch.complex64)
        want = getattr(torch.fft, kind)(wide(x), n, norm=norm)
        assert relative_error(getattr(trnfft, kind)(x, n, norm=norm), want) <= FLOAT32_ERROR


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("n", [100, 1024, 1031])
def test_transforms_are_clean_on_every_generation(n, generation):
    x = operand("fft", n, True)
    with strict_simulation(generation):
        assert relative_error(trnfft.fft(x), torch.fft.fft(wide(x))) <= FLOAT32_ERROR
        real = x.real.contiguous()
        assert relative_error(trnfft.rfft(real), torch.fft.rfft(wide(real))) <= FLOAT32_ERROR


@each_case("dim", [0, 1, -1])
def test_any_dimension_and_batch(dim):
    x = random_tensor(6, 10, 14, dtype=torch.complex64)
    assert relative_error(trnfft.fft(x, dim=dim), torch.fft.fft(wide(x), dim=dim)) <= FLOAT32_ERROR


ND = ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn", "hfft2", "hfftn")
ND_REAL = ("rfft2", "rfftn", "ihfft2", "ihfftn")


@each_case("kind", [*ND, *ND_REAL])
def test_several_dimensions(kind):
    dtype = torch.complex64 if kind in ND else torch.float32
    x = random_tensor(3, 10, 12, dtype=dtype)
    with launched():
        got = getattr(trnfft, kind)(x)
    assert relative_error(got, getattr(torch.fft, kind)(wide(x))) <= FLOAT32_ERROR


@pytest.mark.parametrize("kind", ["fftn", "rfft2"])
def test_the_drop_in_reaches_the_kernels_too(kind):
    x = random_tensor(3, 10, 12)
    before = counts()
    got = getattr(torch_fft, kind)(x)
    assert (counts() - before).launches
    assert isinstance(got, torch.Tensor)
    assert relative_error(got, getattr(torch.fft, kind)(wide(x))) <= FLOAT32_ERROR


@each_case("points", [600, 640, 700])
@each_case(
    ("kind", "is_complex"),
    [("rfft", False), ("ihfft", False), ("irfft", True), ("hfft", True), ("irfft", False)],
)
def test_many_rows_of_real_transforms_are_one_launch(kind, is_complex, points):
    x = operand(kind, points, is_complex, rows=14)
    assert trnfft.plan(x.shape, kind=kind, n=640).factors == (32, 20)
    with launched("four_step"):
        got = getattr(trnfft, kind)(x, n=640, norm="ortho")
    want = getattr(torch.fft, kind)(wide(x), n=640, norm="ortho")
    assert relative_error(got, want) <= FLOAT32_ERROR


@each_case("kind", [name for name in (*ND, *ND_REAL) if name.endswith("2")])
def test_an_image_is_one_launch(kind):
    x = random_tensor(2, 130, 20, dtype=torch.float32 if kind in ND_REAL else torch.complex64)
    before = counts()
    got = getattr(trnfft, kind)(x, s=(100, 30))
    assert dict((counts() - before).launches) == {"two_d": 1}
    assert relative_error(got, getattr(torch.fft, kind)(wide(x), (100, 30))) <= FLOAT32_ERROR


@each_case(
    ("kind", "dtype"),
    [
        *product(("fft2", "ifft2"), (torch.complex64, torch.float32)),
        *product(("rfft2", "ihfft2"), (torch.float32,)),
    ],
)
def test_a_large_image_is_one_launch_of_stacked_factors(kind, dtype):
    x = random_tensor(1000, 20, dtype=dtype)
    with launched("stacked_image"):
        got = getattr(trnfft, kind)(x, s=(1024, 16), norm="ortho")
    want = getattr(torch.fft, kind)(wide(x), (1024, 16), norm="ortho")
    assert relative_error(got, want) <= FLOAT32_ERROR


ND_CALLS = [
    ((2, 5, 6, 7), None, (1, 2, 3)),
    ((3, 4, 5, 6), (4, 7, 5, 3), None),
    ((4, 2, 3, 5, 3), None, None),
    ((4, 6, 5, 2), (5, 4, 8), (2, 0, 1)),
    ((1, 1, 4), None, None),
    ((3, 2, 2), None, (2, 1, 0)),
]


# The other three are these with the other sign.
@each_case(
    ("kind", "call"),
    [
        *product(("fftn", "irfftn", "rfftn"), ND_CALLS),
        *product(("ifftn", "hfftn", "ihfftn"), ND_CALLS[1::3]),
    ],
)
def test_any_number_of_dimensions_is_one_launch(kind, call):
    shape, s, dim = call
    x = random_tensor(*shape, dtype=torch.float32 if kind in ND_REAL else torch.complex64)
    before = counts()
    got = getattr(trnfft, kind)(x, s, dim, "ortho")
    assert dict((counts() - before).launches) == {"n_d": 1}
    assert relative_error(got, getattr(torch.fft, kind)(wide(x), s, dim, "ortho")) <= FLOAT32_ERROR


def test_a_dimension_too_long_for_one_launch_is_transformed_by_itself():
    x = random_tensor(3, 4, 1030)
    before = counts()
    got = trnfft.rfftn(x)
    assert dict((counts() - before).launches) == {"four_step": 1, "dft": 2}
    assert relative_error(got, torch.fft.rfftn(wide(x))) <= FLOAT32_ERROR
    back = trnfft.irfftn(got, x.shape)
    assert relative_error(back, wide(x)) <= 2 * FLOAT32_ERROR


STFT_OPTIONS = [
    {"n_fft": 128},
    {"n_fft": 128, "hop_length": 33, "win_length": 100, "normalized": True},
    {"n_fft": 64, "center": False},
    {"n_fft": 64, "pad_mode": "constant", "onesided": False},
    {"n_fft": 60, "pad_mode": "circular"},
    {"n_fft": 251, "hop_length": 100, "pad_mode": "replicate"},
]


@each_case("options", STFT_OPTIONS, ids=str)
def test_short_time_transform(options):
    x = random_tensor(2, 3, 700)
    with launched("stft"):
        got = trnfft.stft(x, **options)
    with trnfft.backend("pytorch"):
        want = trnfft.stft(wide(x), **options).to_torch_complex()
    assert relative_error(got, want) <= FLOAT32_ERROR


def test_short_time_transform_and_back():
    x = random_tensor(1, 1000)
    with launched("stft", "irfft"):
        back = trnfft.istft(trnfft.stft(x, 128), 128, length=1000)
    assert relative_error(back, x) <= 2 * FLOAT32_ERROR
    z = random_tensor(2, 500, dtype=torch.complex64)
    with launched("stft"):
        bins = trnfft.stft(z, 64)
    with trnfft.backend("pytorch"):
        assert relative_error(bins, trnfft.stft(wide(z), 64)) <= FLOAT32_ERROR


@each_case("size", [(1, 1, 1), (127, 129, 5), (200, 251, 257), (13, 513, 40)], ids=str)
def test_complex_products(size):
    m, k, n = size
    a, b = (random_tensor(*s, dtype=torch.complex64) for s in ((m, k), (k, n)))
    weight = random_tensor(n, k, dtype=torch.complex64, seed=1)
    with launched("complex_gemm", "complex_mask"):
        product = trnfft.nki.complex_gemm(a, b)
        mapped = trnfft.nki.complex_linear(a, weight.real, weight.imag)
        masked = trnfft.nki.complex_mask_apply(a, a)
    assert relative_error(product, wide(a) @ wide(b)) <= FLOAT32_ERROR
    assert relative_error(mapped, wide(a) @ wide(weight).mT) <= FLOAT32_ERROR
    assert relative_error(masked, wide(a) * wide(a)) <= FLOAT32_ERROR


def test_the_narrow_product_rounds_operands_and_not_sums():
    a, b = (random_tensor(*s, dtype=torch.complex64) for s in ((130, 200), (200, 40)))
    with launched("complex_gemm"):
        product = trnfft.nki.complex_gemm_bf16(a, b)
    narrow = [torch.complex(x.real.bfloat16().float(), x.imag.bfloat16().float()) for x in (a, b)]
    assert product.dtype is torch.complex64
    assert relative_error(product, wide(narrow[0]) @ wide(narrow[1])) <= FLOAT32_ERROR


HALF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def of_parts(parts, width):
    """Return complex numbers of two tensors, both in a dtype."""
    return trnfft.ComplexTensor(*(x.to(width) for x in parts))


def taken(call, given, weight, width):
    """Return the parts of a result, and gradients of their products with a weight."""
    leaves = [x.detach().to(width).requires_grad_() for x in given]
    result = call(*(of_parts(pair, width) for pair in zip(leaves[::2], leaves[1::2], strict=True)))
    parts = result.real, result.imag
    weights = (x.to(width) for x in weight)
    total = sum((x * w).sum() for x, w in zip(parts, weights, strict=True))
    return [x.detach() for x in (*parts, *torch.autograd.grad(total, leaves))]


CALLS = {
    "complex_gemm": lambda a, b: trnfft.nki.complex_gemm(a, b.mT),
    "complex_gemm_bf16": lambda a, b: trnfft.nki.complex_gemm_bf16(a, b.mT),
    "complex_linear": lambda a, b: trnfft.nki.complex_linear(a, b.real, b.imag),
    "complex_mask": lambda a, b: trnfft.nki.complex_mask_apply(a, b),
}


@each_case(
    "dtype, name, size, generation",
    pairwise(HALF, CALLS, [5, 127, 128, 129], ["gen2", "gen3", "gen4"]),
)
def test_products_of_16_bit_parts_and_their_gradients(name, dtype, size, generation):
    """Products of 16-bit parts are exact in float32, and so are sums up to their roundings.

    An element is rounded once more, to 16 bits. The result of every operation and each gradient is
    a sum of at most 2 * size products of parts, at most as large as the same sum of magnitudes.
    """
    draw = torch.manual_seed(size)
    # All of them are numbers of bfloat16, to which one of the functions rounds its operands.
    low = torch.bfloat16 if name == "complex_gemm_bf16" else dtype
    given = [torch.randn(size, size, generator=draw).to(low).to(dtype) for _ in range(4)]
    weight = [torch.randn(size, size, generator=draw).to(dtype) for _ in range(2)]
    call = CALLS[name]
    with strict_simulation(generation):
        before = counts()
        got = taken(call, given, weight, dtype)
        spent = (counts() - before).launches
    assert spent == {"complex_mask" if name == "complex_mask" else "complex_gemm": 3}
    with trnfft.backend("pytorch"):
        plain = taken(call, given, weight, dtype)
        want = taken(call, given, weight, torch.float64)
    sizes = torch.stack([x.double().abs().amax() for x in (*given, *weight)]).amax() ** 2
    sizes = 2 * sizes * (1 if name == "complex_mask" else size)
    for found, on_torch, exact in zip(got, plain, want, strict=True):
        assert found.dtype is on_torch.dtype is dtype
        bound = HALF[dtype] * exact.abs() + 2 * size * 2.0**-24 * sizes + 2.0**-25
        assert ((found - exact).abs() <= bound).all()
        assert ((on_torch - exact).abs() <= bound).all()


def test_parts_beyond_float16_are_infinite_and_sums_are_not():
    """Sums of 2 * 60,000 - 60,000 stay finite: only results are rounded to float16."""
    ones = torch.ones(1, 3, dtype=torch.float16)
    values = torch.tensor([[60_000.0], [60_000.0], [-60_000.0]]).half()
    for where in ("simulator", "pytorch"):
        with trnfft.backend(where):
            left, right, twice = (
                of_parts((x, 0 * x), torch.float16) for x in (ones, values, 0 * values + 2)
            )
            finite = trnfft.nki.complex_gemm(left, right)
            beyond = trnfft.nki.complex_mask_apply(right, twice)
        assert finite.real.item() == float(values[0])
        assert torch.equal(beyond.real, values.sign() * torch.inf)


def test_kinds_of_operands_and_results():
    a = random_tensor(4, 6, dtype=torch.complex64)
    split = trnfft.ComplexTensor(a.real, a.imag)
    assert isinstance(trnfft.fft(split), trnfft.ComplexTensor)
    assert isinstance(trnfft.fft(a), torch.Tensor)
    assert isinstance(trnfft.nki.complex_gemm(split, a.mT), trnfft.ComplexTensor)
    with launched("dft"):
        assert relative_error(torch_fft.fft(a), torch.fft.fft(wide(a))) <= FLOAT32_ERROR


def test_a_linear_layer_runs_on_the_kernel_and_learns():
    layer = trnfft.nn.ComplexLinear(20, 7)
    x = random_tensor(3, 5, 20, dtype=torch.complex64)
    with launched("complex_gemm"):
        y = layer(x)
    y.abs().sum().backward()
    ours = layer.W_re.weight.grad.clone()
    layer.zero_grad()
    with trnfft.backend("pytorch"):
        layer(x).abs().sum().backward()
    assert relative_error(ours, layer.W_re.weight.grad) <= 100 * FLOAT32_ERROR


@each_case("kind", ["fft", "rfft", "irfft"])
def test_gradients_are_those_of_torch(kind):
    x = operand(kind, 60, kind != "rfft").requires_grad_()
    found = []
    for backend in ("simulator", "pytorch"):
        with trnfft.backend(backend):
            result = getattr(trnfft, kind)(x, 60)
            if isinstance(result, trnfft.ComplexTensor):
                result = result.to_torch_complex()
            (result * torch.arange(result.shape[-1])).abs().sum().backward()
        found.append(x.grad.clone())
        x.grad = None
    assert relative_error(found[0], found[1]) <= 4 * FLOAT32_ERROR


def test_precision_chooses_the_kernels_operands():
    x = operand("fft", 100, True)
    want = torch.fft.fft(wide(x))
    with trnfft.precision("fast"), launched("dft"):
        coarse = relative_error(trnfft.fft(x), want)
    assert FLOAT32_ERROR < coarse <= BFLOAT16_ERROR
    with trnfft.precision("double"), launched("doublefloat_transform"):
        # One rounding of the result to float32.
        assert relative_error(trnfft.fft(x), want) <= 2.0**-24


def test_explain_names_the_path():
    x = operand("fft", 100, True)
    assert explain(trnfft.fft, x).path == "simulator"
    assert "does not take torch.float64" in str(explain(trnfft.fft, wide(x)))
    assert explain(trnfft.fftshift, x).steps[0].reason == "the function has no kernel"


def test_compiled_code_reaches_the_kernel():
    compiled = torch.compile(lambda x: torch_fft.fft(x) * 2, backend="eager", fullgraph=True)
    x = operand("fft", 100, True)
    with launched("dft"):
        got = compiled(x)
    assert relative_error(got, 2 * torch.fft.fft(wide(x))) <= FLOAT32_ERROR


def test_a_plan_executes_on_the_backend_in_use():
    x = operand("fft", 1024, True)
    plan = trnfft.plan(x.shape, dtype=x.dtype)
    with launched("stacked"):
        assert relative_error(plan.execute(x), torch.fft.fft(wide(x))) <= FLOAT32_ERROR


@each_case(
    ("call", "message"),
    [
        (lambda z: trnfft.nki.complex_gemm(z, z), "a and b must be matrices of compatible shapes"),
        (lambda z: trnfft.nki.complex_gemm(z.real, z), "a must be complex, got torch.float32"),
        (lambda z: trnfft.nki.complex_linear(z, z.real.T, z.imag.T), "w_real and w_imag must be"),
        (lambda z: trnfft.nki.complex_mask_apply(z, z[:2, :3]), "mask and spec must broadcast"),
        (lambda z: trnfft.nki.set_multicore(True, -1), "num_cores must not be negative"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(random_tensor(4, 6, dtype=torch.complex64))


def test_many_cores_change_no_result():
    x = operand("fft", 64, True, rows=1)
    trnfft.nki.set_multicore(True)
    try:
        assert trnfft.nki.get_multicore()
        assert torch.equal(trnfft.nki.multi_core_fft(x), trnfft.fft(x))
        assert trnfft.nki.multi_core_fft(x, inverse=True).shape == (1, 64)
    finally:
        trnfft.nki.set_multicore(False)


def test_the_definition_by_hand():
    # The one check here that trusts no other transform: bin k of a tone is n where they meet.
    n, tone = 37, 5
    angles = 2 * np.pi * tone * np.arange(n) / n
    x = torch.from_numpy(np.exp(1j * angles).astype(np.complex64))
    bins = trnfft.fft(x[None])[0]
    want = torch.zeros(n, dtype=torch.complex128)
    want[tone] = n
    assert relative_error(bins, want) <= FLOAT32_ERROR
