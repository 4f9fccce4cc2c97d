"""The level doublefloat of the public transforms: kernels run, and results have thirteen digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from each_case import each_case
from pairwise import pairwise
from trnfft import ComplexTensor, torch_fft
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, refusals_expected

from .agreement import array

LIMIT = 2e-13
KERNEL = "doublefloat_transform"
REAL_INPUT = ("rfft", "ihfft", "rfftn", "ihfftn", "rfft2", "ihfft2")
HALF_INPUT = ("irfft", "hfft", "irfftn", "hfftn", "irfft2", "hfft2")


@pytest.fixture(autouse=True)
def on_simulator():
    with trnfft.backend("simulator"), trnfft.precision("doublefloat"):
        yield


def operand(name, *shape, dtype=torch.float64):
    if name in REAL_INPUT:
        return random_tensor(*shape, dtype=dtype)
    return torch.complex(*(random_tensor(*shape, dtype=dtype, seed=seed) for seed in (1, 2)))


def exact(name, x, *args, **kwargs):
    """Return the transform of torch's conventions by NumPy in long double."""
    wide = x.numpy().astype(np.clongdouble if x.is_complex() else np.longdouble)
    return getattr(np.fft, name)(wide, *args, **kwargs)


def relative_error(got, want):
    got = array(got)
    assert got.shape == want.shape
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


@each_case(
    "name, n, norm",
    pairwise(
        ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"],
        [2, 7, 96, 257, 600],
        [None, "ortho", "forward"],
    ),
)
def test_every_transform_of_one_dimension(name, n, norm):
    x = operand(name, 2, n // 2 + 1 if name in HALF_INPUT else n)
    if n % 2 == 0 and name in HALF_INPUT:  # NumPy takes these points as they are
        x.imag[:, -1] = 0
    if name in HALF_INPUT:
        x.imag[:, 0] = 0
    with launched(KERNEL):
        got = getattr(trnfft, name)(x, n, norm=norm)
    assert relative_error(got, exact(name, x, n, norm=norm)) <= LIMIT


@each_case("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
@each_case("shape", [(4, 6, 5), (5, 300)], ids=str)
def test_several_dimensions_in_one_launch(name, shape):
    half = name in HALF_INPUT
    # A half spectrum of a real array, whose leading transforms have real first and last bins.
    x = operand("rfft", *shape)
    x = (
        torch.fft.rfftn(x, dim=(-2, -1) if name.endswith("2") else None)
        if half
        else operand(name, *shape)
    )
    sizes = (shape[-2:] if name.endswith("2") else shape,) if half else ()
    before = counts()
    got = getattr(trnfft, name)(x, *sizes)
    assert (counts() - before).launches == {KERNEL: 1}
    axes = (-2, -1) if name.endswith("2") else range(len(shape))
    assert relative_error(got, exact(name, x, *sizes, axes=axes)) <= LIMIT


def test_dimensions_without_axes_are_transformed_one_by_one():
    x = operand("fftn", 3, 263)
    before = counts()
    got = trnfft.fftn(x)
    assert (counts() - before).launches == {KERNEL: 2}
    assert relative_error(got, exact("fftn", x)) <= LIMIT


@each_case("dtype", [torch.float32, torch.float64])
def test_operands_of_both_precisions_and_split_ones(dtype):
    x = operand("fft", 3, 100, dtype=dtype)
    split = ComplexTensor(x.real.clone(), x.imag.clone())
    want = exact("fft", x.to(torch.complex128))
    for value in (x, split):
        with launched(KERNEL):
            got = trnfft.fft(value)
        rounding = 2.0**-24 if dtype is torch.float32 else 0.0
        assert relative_error(got, want) <= LIMIT + rounding


@each_case("backend", ["simulator", "pytorch"])
@each_case("n", [100, 131_073])
@refusals_expected()
def test_the_replacement_of_torch_has_the_level_too(backend, n):
    x = random_tensor(n)
    with trnfft.backend(backend):
        got = torch_fft.rfft(x)
    want = exact("rfft", x)
    assert got.dtype is torch.complex64
    assert relative_error(got, want) <= LIMIT + 2.0**-24  # one rounding of the result


def test_layouts_lengths_and_dimensions():
    x = operand("fft", 20, 3, 31)
    for n in (20, 13, 29):
        got = trnfft.fft(x.transpose(0, 2)[..., ::2, :], n)
        assert relative_error(got, exact("fft", x.transpose(0, 2)[..., ::2, :], n)) <= LIMIT
        assert relative_error(trnfft.fft(x, n, dim=1), exact("fft", x, n, axis=1)) <= LIMIT
    assert trnfft.fft(operand("fft", 0, 5)).shape == (0, 5)


@each_case("name", ["rfft", "irfft", "fft2"])
def test_gradients_run_on_the_kernel(name):
    x = operand(name, 3, 8).requires_grad_()
    found = []
    for backend in ("simulator", "pytorch"):
        with trnfft.backend(backend), torch.autograd.set_grad_enabled(True):
            before = counts()
            result = getattr(trnfft, name)(x)
            result = result.to_torch_complex() if isinstance(result, ComplexTensor) else result
            weights = torch.arange(1.0, 1 + result.numel(), dtype=torch.float64)
            (result * weights.reshape(result.shape)).abs().square().sum().backward()
            launches = (counts() - before).launches[KERNEL]
        assert launches == (2 if backend == "simulator" else 0)
        found.append(torch.view_as_real(x.grad) if x.is_complex() else x.grad)
        x.grad = None
    # Two transforms, one of the forward and one of the backward pass.
    assert (found[0] - found[1]).norm() <= 2 * LIMIT * found[1].norm() * 10


# -- transforms that are made of others ------------------------------------------------------------


def sums(x, sine, type):
    """Return a cosine or sine transform by its definition, in long double."""
    n = len(x)
    j, k = np.arange(n, dtype=np.longdouble), np.arange(n, dtype=np.longdouble)[:, None]
    pi = 4 * np.arctan(np.longdouble(1))
    if type == 1:
        angle = (j + 1) * (k + 1) / (n + 1) if sine else j * k / (n - 1)
    else:
        at_j, at_k = (0.5 if type in (2, 4) else sine), (0.5 if type in (3, 4) else sine)
        angle = (j + at_j) * (k + at_k) / n
    weights = np.full(n, np.longdouble(2))
    if not sine and type == 1:
        weights[[0, -1]] = 1
    if type == 3:
        weights[-1 if sine else 0] = 1
    return (np.sin if sine else np.cos)(pi * angle) * weights @ x.astype(np.longdouble)


@each_case("name, type, n", pairwise(["dct", "dst"], [1, 2, 3, 4], [2, 31, 128]))
def test_cosine_and_sine_transforms(name, type, n):
    x = operand("rfft", n)
    with launched(KERNEL):
        got = getattr(trnfft, name)(x, type)
    assert relative_error(got, sums(x.numpy(), name == "dst", type)) <= LIMIT
    with launched(KERNEL):
        back = getattr(trnfft, f"i{name}")(got, type)
    assert relative_error(back, x.numpy()) <= 2 * LIMIT


def test_cosine_transforms_of_several_dimensions():
    x = operand("rfft", 5, 12)
    with launched(KERNEL):
        got = trnfft.dctn(x)
    rows = np.stack([sums(row, False, 2) for row in x.numpy()])
    want = np.stack([sums(column, False, 2) for column in rows.T]).T
    assert relative_error(got, want) <= LIMIT


@each_case("name", ["fht", "ifht"])
def test_hankel_transforms(name):
    x = operand("rfft", 2, 100)
    with launched(KERNEL):
        got = getattr(trnfft, name)(x, 0.1, 1.0)
    want = getattr(scipy.fft, name)(x.numpy(), 0.1, 1.0)
    assert relative_error(got, want) <= 2 * LIMIT  # two transforms


@each_case("complex_window", [False, True])
def test_short_time_transforms(complex_window):
    x, window = operand("rfft", 2, 500), torch.hann_window(64, dtype=torch.float64)
    window = window * (1 + 0.5j) if complex_window else window
    options = {"window": window, "return_complex": True, "onesided": not complex_window}
    with launched(KERNEL):
        got = trnfft.stft(x, 64, 16, **options)
    with trnfft.backend("pytorch"):
        want = trnfft.stft(x, 64, 16, **options)
    assert relative_error(got, want.numpy()) <= LIMIT
    with launched(KERNEL):
        back = trnfft.istft(
            got, 64, 16, window=window, onesided=not complex_window, return_complex=complex_window
        )
    assert relative_error(back, x.numpy()[:, : back.shape[1]]) <= 4 * LIMIT


# -- values beyond the numbers of the kernel -------------------------------------------------------


@each_case("n", [50, 263, 600])
@each_case("value", [float("nan"), float("inf"), complex(1, -float("inf"))])
def test_what_is_not_finite_stays_in_its_row_and_is_torchs(n, value):
    x = operand("fft", 4, n)
    x[1, 7] = value
    with launched(KERNEL):
        got = trnfft.fft(x)
    want = torch.fft.fft(x)
    torch.testing.assert_close(got[1], want[1], equal_nan=True)
    rows = [0, 2, 3]
    assert relative_error(got[rows], exact("fft", x[rows])) <= LIMIT


@each_case("exponent", [-1070, -149, 128, 1000])
def test_rows_of_very_different_size(exponent):
    x = operand("rfft", 3, 300)
    x[1] = torch.ldexp(x[1], torch.tensor(exponent))
    x[2] = 0
    got = array(trnfft.rfft(x))
    for row in range(2):
        steps = 2.0**-1074 * 300**0.5
        want = exact("rfft", x[row])
        assert np.linalg.norm(got[row] - want) <= LIMIT * np.linalg.norm(want) + steps
    assert not got[2].any()


def test_a_float32_result_beyond_its_range_is_infinite():
    x = torch.full((2, 64), 1e38)
    with launched(KERNEL):
        got = array(trnfft.rfft(x))
    assert np.isinf(got[:, 0].real).all()
    assert np.abs(got[:, 1:]).max() <= LIMIT * 64e38


# -- what the level does not take ------------------------------------------------------------------


@refusals_expected()
def test_a_length_without_a_kernel_is_refused_and_counted():
    x = operand("rfft", 131_073)
    before = counts()
    got = trnfft.rfft(x)
    since = counts() - before
    assert not since.launches
    assert sum(since.refusals.values()) == 1
    torch.testing.assert_close(array(got), array(torch.fft.rfft(x)))
    assert "up to 131072 points" in str(explain(trnfft.rfft, x))


def test_explain_names_the_kernel_path():
    x = operand("fft", 2, 100)
    found = explain(trnfft.fft, x)
    assert found.path == "simulator"
    assert found.steps[0].operation == "trnfft.doublefloat_transform"
    with trnfft.backend("pytorch"):
        assert explain(trnfft.fft, x).path == "pytorch"


@pytest.mark.slow
@each_case("case", [(1024, 1), (1024, 256), (65536, 1), (65536, 4)], ids=str)
def test_predicted_times_over_float32(case):
    n, batch = case
    x = random_tensor(batch, n, dtype=torch.complex64)
    times = []
    for level in ("float32", "doublefloat"):
        with trnfft.precision(level):
            times.append(explain(trnfft.fft, x).predict("gen3").us)
    assert times[1] <= 25 * times[0]
