"""Transforms over several dimensions against the definition, and what they refuse."""

from itertools import product

import pytest
import torch

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from trnfft import ComplexTensor
from trnfft.nd import steps_of
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import COMPLEX, array, assert_near, randn

OF_REAL = ("rfftn", "ihfftn")
TO_REAL = ("irfftn", "hfftn")
NAMES = ("fftn", "ifftn", *OF_REAL, *TO_REAL)
TWO = tuple(name.replace("fftn", "fft2") for name in NAMES)

ARGUMENTS = [
    {},
    {"dim": (0,)},
    {"dim": (1, 0)},
    {"dim": -1},
    {"dim": (2, 0, 1)},
    {"s": (3, 9)},
    {"s": (-1, 9)},
    {"s": (9, -1), "dim": (-1, 0)},
    {"s": (2, 3, 4)},
    {"s": (11,), "dim": (1,)},
]


def input_of(name, dtype, *shape):
    return randn(*shape, dtype=dtype if name in OF_REAL else COMPLEX[dtype])


@each_case("name", NAMES)
@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_agrees_with_the_definition(name, dtype):
    x = input_of(name, dtype, 4, 5, 6)
    for arguments, norm in product(ARGUMENTS, (None, "forward", "ortho")):
        got = getattr(trnfft, name)(x, norm=norm, **arguments)
        dims = arguments.get("dim")
        given = {**arguments, "dim": (dims,) if isinstance(dims, int) else dims}
        want = getattr(oracle, name)(array(x), norm=norm, **given)
        assert_near(got, want, 500, dtype)
        if name in TO_REAL:
            assert got.dtype is dtype
        else:
            assert isinstance(got, ComplexTensor if name in OF_REAL else torch.Tensor)


@each_case("name", NAMES)
def test_one_dimension_after_the_other_is_the_same(name):
    # The path of meta tensors before torch 2.12.
    x, s, dims = input_of(name, torch.float64, 4, 5, 6), (7, 3, 8), (1, 0, 2)
    found = x
    for single, size, dim in steps_of(name, s, dims):
        found = getattr(torch.fft, single)(found, size, dim, "ortho")
    torch.testing.assert_close(found, getattr(torch.fft, name)(x, s, dims, "ortho"))


@each_case("name", TWO)
def test_two_dimensions_are_the_last_two(name):
    x = input_of(name.replace("2", "n"), torch.float32, 3, 8, 16)
    definition = getattr(oracle, name.replace("2", "n"))
    assert_near(getattr(trnfft, name)(x), definition(array(x), dim=(-2, -1)), 256)
    got = getattr(trnfft, name)(x, (16, 32), (0, 1), "ortho")
    assert_near(got, definition(array(x), (16, 32), (0, 1), "ortho"), 512)


@each_case("name", ["fftn", "ifftn", "irfftn", "hfftn", "fft2", "irfft2"])
def test_kinds_of_complex_input(name):
    z = randn(4, 5, dtype=torch.complex64)
    native = getattr(trnfft, name)(z)
    split = getattr(trnfft, name)(ComplexTensor(z.real.clone(), z.imag.clone()))
    assert isinstance(native, torch.Tensor)
    assert isinstance(split, torch.Tensor if "r" in name or "h" in name else ComplexTensor)
    assert (array(split) == array(native)).all()


def test_half_precision_and_integers():
    got = trnfft.rfft2(randn(4, 6).bfloat16())
    assert (got.dtype, tuple(got.shape)) == (torch.bfloat16, (4, 4))
    assert trnfft.irfft2(got).dtype is torch.bfloat16
    assert trnfft.fftn(torch.ones(2, 2, dtype=torch.int32)).dtype is torch.complex64


def test_no_dimensions_change_nothing():
    x = randn(2, 3)
    assert torch.equal(trnfft.fftn(x, dim=()).real, x)
    assert trnfft.fftn(torch.tensor(2.0)).to_torch_complex().item() == 2


@each_case("name", NAMES)
def test_an_empty_batch_has_an_empty_result(name):
    x = torch.zeros(0, 4, 6, requires_grad=True)
    last = 4 if name in OF_REAL else 10 if name in TO_REAL else 6
    assert tuple(getattr(trnfft, name)(x, dim=(1, 2)).shape) == (0, 4, last)


BAD = [
    ("twice", ShapeError, {"dim": (0, 0)}),
    ("twice, from the end", ShapeError, {"dim": (1, -1)}),
    ("out of range", IndexError, {"dim": (0, 2)}),
    ("s and dim", ShapeError, {"s": (2,), "dim": (0, 1)}),
    ("too many lengths", ShapeError, {"s": (2, 2, 2)}),
    ("zero", ShapeError, {"s": (0, 2)}),
    ("negative", ShapeError, {"s": (-2, 2)}),
    ("a float", DTypeError, {"s": (2.0, 2)}),
    ("norm", FlagError, {"norm": "both"}),
]


@each_case(("what", "error", "arguments"), BAD, ids=[bad[0] for bad in BAD])
@each_case("name", NAMES)
def test_bad_arguments(name, what, error, arguments):
    with pytest.raises(error, match=f"^{name}: "):
        getattr(trnfft, name)(torch.ones(3, 3), **arguments)


@each_case("name", [*OF_REAL, "rfft2", "ihfft2"])
def test_complex_input_where_it_must_be_real(name):
    with pytest.raises(DTypeError, match=f"^{name}: input must be real"):
        getattr(trnfft, name)(torch.ones(3, 3, dtype=torch.complex64))


@each_case("name", [*OF_REAL, *TO_REAL])
def test_halves_need_a_dimension(name):
    with pytest.raises(ShapeError, match="at least one dimension"):
        getattr(trnfft, name)(torch.ones(3, 3), dim=())


@each_case("name", NAMES)
def test_no_points(name):
    with pytest.raises(ShapeError, match=f"^{name}: input must have"):
        getattr(trnfft, name)(torch.ones(3, 0))
    with pytest.raises(IndexError, match="dim must be from -1 to 0, got -2"):
        trnfft.fft2(torch.ones(3))
