"""Products of narrow numbers by way of float32: the same numbers, and torch's refusals."""

import pytest
import torch

from trnsci.core.numbers import products
from trnsci.core.numbers.products import in_float32
from trnsci.core.testing import random_tensor, unit_roundoff

NARROW = frozenset((torch.float16, torch.bfloat16))
SHAPES = {
    "mm": ((20, 30), (30, 40)),
    "matmul": ((2, 20, 30), (30, 40)),
    "bmm": ((2, 20, 30), (2, 30, 40)),
    "addmm": ((20, 40), (20, 30), (30, 40)),
    "baddbmm": ((40,), (2, 20, 30), (2, 30, 40)),
}
each_name = pytest.mark.parametrize("name", SHAPES)
each_dtype = pytest.mark.parametrize("dtype", sorted(NARROW, key=str), ids=str)


def drawn(name, dtype):
    return [random_tensor(*shape, seed=i).to(dtype) for i, shape in enumerate(SHAPES[name])]


def exact(name, operands):
    """Return a product in float64, and the same of all magnitudes, which roundings are parts of."""
    wide = [x.double() for x in operands]
    product = getattr(torch, name)
    return product(*wide), product(*(x.abs() for x in wide))


@each_name
@each_dtype
def test_results_are_rounded_once(name, dtype):
    operands = drawn(name, dtype)
    got = in_float32(getattr(torch, name), NARROW)(*operands)
    assert got.dtype is dtype
    want, size = exact(name, operands)
    # A sum of 31 terms in float32, then one rounding of what it is.
    summed = 31 * unit_roundoff(torch.float32) * size
    assert (
        (got.double() - want).abs() <= summed + unit_roundoff(dtype) * (want.abs() + summed)
    ).all()


@each_name
def test_what_runs_here_is_right(name):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        operands = drawn(name, dtype)
        got = getattr(products, name)(*operands)
        assert got.dtype is dtype
        want, size = exact(name, operands)
        # torch may round the product before it adds.
        bound = (31 * unit_roundoff(torch.float32) + 3 * unit_roundoff(dtype)) * size
        assert ((got.double() - want).abs() <= bound).all()


@each_dtype
def test_factors_and_out(dtype):
    c, a, b = drawn("addmm", dtype)
    addmm = in_float32(torch.addmm, NARROW)
    want = addmm(c, a, b, alpha=0.5, beta=2.0)
    assert torch.equal(want, (0.5 * (a.float() @ b.float()) + 2 * c.float()).to(dtype))
    out = torch.empty_like(c)
    assert addmm(c, a, b, alpha=0.5, beta=2.0, out=out) is out
    assert torch.equal(out, want)


def test_what_torch_has_routines_for_is_left_to_it():
    assert in_float32(torch.mm, frozenset()) is torch.mm
    mm = in_float32(torch.mm, NARROW)
    a = random_tensor(3, 4)
    assert torch.equal(mm(a, a.mT), torch.mm(a, a.mT))
    for other in (a.double(), a.bfloat16()):
        with pytest.raises(RuntimeError):
            mm(other, a.mT)
        with pytest.raises(RuntimeError):
            mm(a, other.mT)
    assert mm(a.bfloat16().to("meta"), a.bfloat16().mT.to("meta")).is_meta


def test_derivatives_and_graphs():
    mm = in_float32(torch.mm, NARROW)
    a, b = drawn("mm", torch.bfloat16)
    a.requires_grad_()
    mm(a, b).sum().backward()
    assert a.grad is not None
    assert a.grad.dtype is torch.bfloat16
    compiled = torch.compile(mm, fullgraph=True, backend="eager")
    assert torch.equal(compiled(a, b), mm(a, b))
