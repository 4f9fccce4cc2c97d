"""Plans: what they choose, what they say, and that kernels do what they say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from oracles.fourier_long import hermitian, image, transform, worst_error
from pairwise import pairwise
from trnfft import ComplexTensor
from trnfft._kernels.parts_tiling import parts_tiling
from trnfft.plan import FFTAlgorithm, FFTPlan, clear_plan_cache, create_plan, plan
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.testing import random_tensor

LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32
BACKWARD = {"fft": 0, "ifft": 1, "rfft": 0, "irfft": 1, "hfft": 0, "ihfft": 1}


@each_case("n", [1, 2, 7, 128, 257, 509, 512, 521, 1009, 1021])
def test_short_and_prime_lengths_are_one_product(n):
    assert create_plan(n).algorithm is FFTAlgorithm.DFT_GEMM
    assert create_plan(n).padded_n is None


@each_case("n", [1024, 1000, 44_100, 2**16, 2**20, 3 * 2**14, 5 * 7 * 11 * 13])
def test_composite_lengths_go_by_factors(n):
    made = create_plan(n)
    assert made.algorithm is FFTAlgorithm.COOLEY_TUKEY is FFTAlgorithm.FOUR_STEP
    assert made.padded_n is None
    assert np.prod(made.factors) == n
    assert made.is_power_of_2 == (n in (1024, 2**16, 2**20))


@each_case(("n", "padded"), [(1031, 4096), (2 * 1031, 4096 * 2), (4097, 16384)])
def test_lengths_with_a_large_prime_are_padded(n, padded):
    made = create_plan(n)
    assert made.algorithm is FFTAlgorithm.BLUESTEIN
    assert made.padded_n == padded
    assert not made.is_power_of_2


@pytest.mark.parametrize("n", [0, -1])
def test_lengths_below_one_are_refused(n):
    with pytest.raises(ValueError, match=f"create_plan: n must be at least 1, got {n}"):
        create_plan(n)


def test_plans_are_cached_until_cleared():
    first = create_plan(640)
    assert create_plan(640) is first
    assert create_plan(640, inverse=True) is not first
    assert create_plan(640, inverse=True).inverse
    assert plan((640,)) is first
    clear_plan_cache()
    assert create_plan(640) is not first
    assert create_plan(640) == first


def test_plan_is_frozen_and_complete_from_its_length():
    made = FFTPlan(1024, FFTAlgorithm.COOLEY_TUKEY, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.n = 3
    assert made.factors == create_plan(1024).factors
    assert "1024 points" in str(made)


def test_names_are_found_on_the_function_too():
    assert trnfft.plan.FFTAlgorithm is FFTAlgorithm
    assert trnfft.create_plan is trnfft.plan.create_plan is create_plan


@each_case(
    ("shape", "kind", "words"),
    [
        ((32, 4096), "fft", ["cooley_tukey", "32 x 128", "launches    1", "fft of 4096"]),
        ((128, 1024), "fft", ["cooley_tukey", "32 x 32"]),
        ((4099,), "rfft", ["bluestein, two transforms of 16384", "128 x 128"]),
        ((5, 100), "irfft", ["dft_gemm", "irfft of 198 points"]),
        ((2, 64, 33), "irfft2", ["two_d", "64 x 64"]),
        ((1024, 768), "fft2", ["two_d", "64 x 16 x 64 x 12"]),
    ],
)
def test_description(shape, kind, words):
    made = plan(shape, kind=kind)
    text = str(made)
    for word in [*words, f"{made.cost.hbm_bytes:,} bytes", f"{made.error_bound:.1e}", "gen3"]:
        assert word in text


def test_dimension_dtype_and_target():
    made = plan((3, 2048, 5), 1, torch.bfloat16, generation="trn2")
    assert (made.n, made.batch, made.dim) == (2048, 15, (1,))
    assert (made.dtype, made.generation) == ("bfloat16", "gen3")
    assert plan((8,), dtype=torch.complex64) is plan((8,), -1, "float32")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_plans_of_16_bit_operands(dtype):
    made = plan((3, 64), dtype=dtype)
    x = random_tensor(3, 64).to(dtype)
    found = made.execute(x)
    assert found.real.dtype is dtype
    want = torch.fft.fft(x.double())
    for part, exact in ((found.real, want.real), (found.imag, want.imag)):
        # A result of float32 is rounded to 16 bits.
        bound = torch.finfo(dtype).eps / 2 * exact.abs() + 64 * 2.0**-24 * exact.abs().max()
        assert ((part - exact).abs() <= bound).all()
    with pytest.raises(DTypeError, match="parts of x must be"):
        made.execute(x.float())


def test_flops_by_definition():
    # n^2 complex products and sums; factors f cost n f of them, and a table 6 operations a point.
    assert plan((3, 100)).cost.flops == 3 * 8 * 100**2
    assert plan((3, 4096)).cost.flops == 3 * (8 * 4096 * (32 + 128) + 6 * 4096)
    assert plan((3, 16384)).cost.flops == 3 * (8 * 16384 * 256 + 6 * 16384)
    # Many rows at once have other factors, and twiddles in the matrices.
    assert plan((128, 1024)).cost.flops == 128 * 8 * 1024 * (32 + 32)
    assert plan((128, 1024), generation="gen2").cost.flops == 128 * (
        8 * 1024 * (16 + 64) + 6 * 1024
    )
    assert plan((3, 65536)).cost.flops == 3 * (8 * 65536 * (64 + 16 + 64) + 2 * 6 * 65536)
    assert plan((100,), kind="rfft").cost.flops == 4 * 100 * 51


def test_flops_of_chirps_and_chains_term_by_term():
    # Products of 4096 = 32 x 128 points: rows with points times factors, and 6 for each turn.
    there = 8 * 9 * 4096 + 8 * 128 * 4096 + 6 * 4096  # 1031 points lie in 9 rows of 128
    back = 8 * 32 * 4096 + 8 * 33 * 4096 + 6 * 4096  # and 1031 results in 33 rows of 32
    assert plan((2, 1031)).geometry[:2] == (32, 128)
    assert plan((2, 1031)).cost.flops == 2 * (there + back + 6 * (1031 + 4096 + 1031))
    # A real operand halves the first product of 1024 = 16 x 64, a half spectrum the last one.
    half = 4 * 16 * 1024 + 8 * 33 * 1024 + 6 * 1024
    assert plan((3, 1024), kind="rfft").cost.flops == 3 * half
    back = 8 * 9 * 1024 + 4 * 64 * 1024 + 6 * 1024  # 513 bins lie in 9 rows of 64
    assert plan((3, 513), kind="irfft").cost.flops == 3 * back
    # Images: the matrix of 20 rows, then that of 30 columns.
    assert plan((2, 20, 30), (1, 2), kind="fft2").cost.flops == 2 * (
        8 * 20**2 * 30 + 8 * 20 * 30**2
    )
    assert plan((2, 20, 30), (1, 2), kind="rfft2").cost.flops == 2 * (
        4 * 20**2 * 30 + 8 * 20 * 30 * 16
    )
    # Images by factors: 20 columns as three groups of 8, then 1024 rows as 32 groups of 32.
    turned = 24 * 1024 * (8 * (64 + 16) + 6) + 1024 * 20 * (8 * (4 + 5) + 6)
    assert plan((3, 1024, 20), (1, 2), kind="fft2").cost.flops == 3 * turned
    # Volumes: 4 planes first, real or complex, then 8 complex images.
    planes = 2 * 4 * 4**2 * 5 * 6
    images = 8 * (8 * 5**2 * 6 + 8 * 5 * 6 * 4)
    assert plan((2, 4, 5, 6), (1, 2, 3), kind="rfftn").cost.flops == planes + images
    images = 8 * (8 * 5**2 * 6 + 4 * 5 * 6 * 10)
    assert plan((2, 4, 5, 6), (1, 2, 3), kind="irfftn").cost.flops == 2 * planes + images


def test_stated_errors_term_by_term():
    # A sum of t terms errs by u sqrt(t / 6) and is rounded once more from the table's entries; a
    # turn by a table has squared error 2. Squares add up.
    def error(*squares):
        return 2.0**-24 * sum(squares) ** 0.5

    def total(terms):
        return terms / 6 + 1

    assert plan((100,)).error_bound == pytest.approx(error(total(2 * 100)))
    assert plan((100,), kind="rfft").error_bound == pytest.approx(error(total(100)))
    assert plan((51,), kind="irfft").error_bound == pytest.approx(error(total(2 * 50)))
    factors = total(2 * 16) + total(2 * 64) + 2  # of 1024 points
    assert plan((1024,)).error_bound == pytest.approx(error(factors))
    factors = total(2 * 32) + total(2 * 32)
    assert plan((128, 1024)).error_bound == pytest.approx(error(factors))
    factors = total(2 * 32) + total(2 * 128) + 2  # of 4096; a chirp keeps half of the squares
    assert plan((1031,)).error_bound == pytest.approx(error(2 * (2 * factors + 3 * 2)))
    assert plan((20, 30), kind="fft2").error_bound == pytest.approx(error(total(40), total(60)))
    assert plan((20, 30), kind="rfft2").error_bound == pytest.approx(error(total(20), total(60)))
    factors = [total(2 * factor) for factor in (64, 16, 4, 5)]
    assert plan((1024, 20), kind="fft2").error_bound == pytest.approx(error(*factors, 2, 2))
    chain = plan((4, 20, 30), kind="rfftn")
    assert chain.error_bound == pytest.approx(error(total(4), total(40), total(60)))


@each_case(
    ("call", "error", "words"),
    [
        (lambda: plan((8,), kind="dct"), FlagError, "plan: kind must be one of"),
        (lambda: plan((8,), norm="unit"), FlagError, "plan: norm must be one of"),
        (lambda: plan((8,), dtype="float64"), DTypeError, "plan: dtype must be float32"),
        (lambda: plan((0,)), ShapeError, "plan: shape must be at least 1"),
        (lambda: plan((1,), kind="irfft"), ShapeError, "plan: n must give 1 size"),
        (lambda: plan((8,), n=0), ShapeError, "plan: n must give 1 size"),
        (lambda: plan((8,), 1), IndexError, "plan: dim 1 is not one of the 1"),
        (lambda: plan((8, 8), (0, 0), kind="fft2"), ShapeError, "plan: dim must not repeat"),
        (lambda: plan((8, 8), 1, kind="fft2"), ShapeError, "plan: fft2 takes 2 dimension"),
        (lambda: plan((8, 8), (), kind="fftn"), ShapeError, "plan: fftn takes 1 dimension"),
        (lambda: plan((8, 8, 8), (0, 1, 1), kind="fftn"), ShapeError, "dim must not repeat"),
        (lambda: plan((8, 8), kind="fftn", n=(8,)), ShapeError, "plan: n must give 2 size"),
        (lambda: plan((8, 2**28 - 57), kind="fft2"), ShapeError, "plan: no kernel transforms"),
        (lambda: plan((2**28 - 57,)), ShapeError, "plan: no kernel transforms"),
        (lambda: plan((8,), generation="gen9"), ValueError, "generation: got 'gen9'"),
        (lambda: create_plan(8.5), DTypeError, "create_plan: n must be an integer"),
        (lambda: plan((8,)).execute(torch.ones(9)), ShapeError, "execute: x must have shape"),
        (
            lambda: plan((8,)).execute(torch.ones(8, dtype=torch.float64)),
            DTypeError,
            "execute: parts of x must be float32, got float64",
        ),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()


@each_case("kind", list(BACKWARD))
@each_case("norm", [None, "ortho", "forward"])
def test_execute_is_the_transform(kind, norm):
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.standard_normal((3, 10, 2)).astype(np.float32))
    if kind not in ("rfft", "ihfft"):
        x = torch.complex(x, x.flip(0))
    got = plan(tuple(x.shape), 1, x.dtype, kind, norm=norm, n=12).execute(x)
    want = getattr(torch.fft, kind)(x, 12, 1, norm)
    if isinstance(got, ComplexTensor):
        got = got.to_torch_complex()
    assert torch.equal(got, want)


@each_case("kind", [name + several for name in BACKWARD for several in "2n"])
def test_execute_over_several_dimensions(kind):
    x = torch.from_numpy(np.random.default_rng(4).standard_normal((3, 6, 5)).astype(np.float32))
    if kind[:-1] not in ("rfft", "ihfft"):
        x = torch.complex(x, x.flip(0))
    got = plan(tuple(x.shape), kind=kind).execute(x)
    want = getattr(torch.fft, kind)(x)
    if isinstance(got, ComplexTensor):
        got = got.to_torch_complex()
    assert torch.equal(got, want)


@each_case("kind", ["fftn", "irfftn", "ihfftn"])
def test_execute_along_chosen_dimensions(kind):
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((4, 3, 5, 2)).astype(np.float32))
    if kind != "ihfftn":
        x = torch.complex(x, x.flip(0))
    made = plan(x.shape, (2, 0), x.dtype, kind, n=(7, 6), norm="ortho")
    assert (made.sizes, made.dim, made.n, made.batch) == ((7, 6), (2, 0), 42, 6)
    got = made.execute(x)
    if isinstance(got, ComplexTensor):
        got = got.to_torch_complex()
    assert torch.equal(got, getattr(torch.fft, kind)(x, (7, 6), (2, 0), "ortho"))


@each_case(
    ("shape", "kind", "algorithm", "launches"),
    [
        ((4, 6), "fftn", FFTAlgorithm.TWO_D, 1),
        ((4, 6, 8), "fftn", FFTAlgorithm.N_D, 1),
        ((2, 3, 4, 5, 6), "ihfftn", FFTAlgorithm.N_D, 1),
        ((8, 513), "hfft2", FFTAlgorithm.TWO_D, 1),
        ((8, 1025), "fft2", FFTAlgorithm.SEPARABLE, 2),
        ((2048, 4, 6), "rfftn", FFTAlgorithm.SEPARABLE, 3),
        ((2, 2, 2, 2, 2, 2), "fftn", FFTAlgorithm.SEPARABLE, 6),
        ((640,), "fftn", FFTAlgorithm.COOLEY_TUKEY, 1),
    ],
)
def test_algorithms_of_several_dimensions(shape, kind, algorithm, launches):
    made = plan(shape, kind=kind)
    assert (made.algorithm, made.cost.launches) == (algorithm, launches)
    assert " x ".join(map(str, made.sizes)) in str(made)


def test_work_by_single_dimensions_is_that_of_their_plans():
    # Half the bins first, in rows of 2048; then 1025 columns of 6 points, complex.
    made = plan((3, 6, 2048), kind="rfft2")
    steps = plan((18, 2048), kind="rfft"), plan((3 * 1025, 6))
    assert made.cost.flops == sum(step.cost.flops for step in steps)
    assert made.cost.hbm_bytes == sum(step.cost.hbm_bytes for step in steps)
    assert made.error_bound == pytest.approx(np.hypot(*(step.error_bound for step in steps)))
    # Back again: the columns first.
    made = plan((3, 6, 1025), kind="irfft2")
    steps = plan((3 * 1025, 6)), plan((18, 1025), kind="irfft")
    assert made.cost.flops == sum(step.cost.flops for step in steps)


def test_plans_that_differ_in_the_batch_share_their_constants():
    for kind, shape in (("fft", (1000,)), ("irfft", (33,)), ("fft2", (12, 10)), ("rfftn", (4, 6))):
        first, second = (
            plan((batch, *shape), range(1, len(shape) + 1), kind=kind) for batch in (2, 7)
        )
        assert first is not second
        pairs = zip(first.constants(), second.constants(), strict=True)
        assert all(a is b for a, b in pairs)


def test_constants_are_made_once_and_cannot_be_written():
    made = create_plan(1000)
    first = made.constants()
    assert all(a is b for a, b in zip(first, made.constants(), strict=True))
    with pytest.raises(ValueError, match="read-only"):
        first[0][0] = 1.0


def launched(made, x):
    """The result of the kernel of a plan, and how many launches it took."""
    from trnfft._kernels import bluestein, dft, four_step, real_dft, stacked, two_d
    from trnfft._kernels.stacked_geometry import StackedGeometry

    form = {"r": "half", "i": "full", "f": "full", "h": "hermitian"}[made.kind[0]]
    form = {"irfft": "hermitian", "irfft2": "hermitian", "ihfft": "half"}.get(made.kind, form)
    parts = (x, None) if form == "half" else (x.real.contiguous(), x.imag.contiguous())
    constants = [torch.from_numpy(np.array(table)) for table in made.constants()]
    launch = Launcher("simulator")
    if made.algorithm is FFTAlgorithm.TWO_D:
        out = launch(two_d.two_d, *parts, *constants, form == "hermitian")
    elif isinstance(made.geometry, StackedGeometry):
        out = launch(stacked.stacked, *parts, *constants, made.geometry)
    elif made.algorithm is FFTAlgorithm.COOLEY_TUKEY:
        out = launch(four_step.four_step, *parts, *constants, made.geometry, form)
    elif made.algorithm is FFTAlgorithm.BLUESTEIN:
        out = launch(bluestein.bluestein, *parts, *constants, made.n, made.geometry, form)
    elif form == "hermitian":
        cut = parts_tiling(made.batch, made.n, (made.n + 1) // 2, outs=1)
        out = launch(real_dft.irfft, *parts, *constants, cut.blocks)
    elif form == "half":
        cut = parts_tiling(made.batch, made.n // 2 + 1, made.n, lefts=1)
        out = launch(real_dft.rfft, x, *constants, cut.blocks)
    else:
        cut = parts_tiling(made.batch, made.n, made.n)
        out = launch(dft.dft, *parts, *constants, cut.blocks)
    result = out.numpy() if form == "hermitian" else out[0].numpy() + 1j * out[1].numpy()
    return result, launch.launches


@each_case(
    ("kind", "n", "norm"),
    pairwise(list(BACKWARD), [60, 77, 1000, 1155, 1031], ["backward", "ortho", "forward"]),
)
def test_kernels_with_the_constants_of_a_plan(kind, n, norm):
    rng = np.random.default_rng((n, 7))
    length = n // 2 + 1 if kind in ("irfft", "hfft") else n
    x = rng.standard_normal((2, length, 2)).astype(np.float32).view(np.complex64)[..., 0]
    if kind in ("rfft", "ihfft"):
        x = x.real.copy()
    made = plan((2, length), -1, "float32", kind, n=n, norm=norm)
    got, launches = launched(made, torch.from_numpy(x))
    inverse = bool(BACKWARD[kind])
    if kind in ("irfft", "hfft"):
        want = hermitian(x, n, inverse)
    else:
        want = transform(x, inverse)[:, : n // 2 + 1 if kind in ("rfft", "ihfft") else n]
    scaled = n**-0.5 if norm == "ortho" else 1 / n if (norm == "forward") != inverse else 1.0
    assert launches == made.cost.launches == 1
    assert worst_error(got, want * scaled) <= made.error_bound <= LIMIT


@each_case("kind", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_image_kernel_with_the_constants_of_a_plan(kind):
    height, width = 20, 30
    rng = np.random.default_rng(9)
    columns = width // 2 + 1 if kind == "irfft2" else width
    x = rng.standard_normal((2, height, columns, 2)).astype(np.float32).view(np.complex64)[..., 0]
    if kind == "rfft2":
        x = x.real.copy()
    made = plan(x.shape, kind=kind, n=(height, width))
    got, launches = launched(made, torch.from_numpy(x))
    inverse = kind[0] == "i"
    if kind == "irfft2":
        over_columns = np.swapaxes(transform(np.swapaxes(x, 1, 2), True), 1, 2)
        want = hermitian(over_columns, width)
    else:
        want = image(x, inverse)[..., : width // 2 + 1 if kind == "rfft2" else width]
    scale = 1.0 / (height * width) if inverse else 1.0
    assert launches == made.cost.launches == 1
    assert worst_error(got, want * scale) <= made.error_bound <= LIMIT


@each_case("n", [2**k for k in range(1, 28)] + [997, 4099, 44_100, 10**6 + 3])
def test_stated_error_keeps_the_limit(n):
    assert create_plan(n).error_bound <= LIMIT
