"""Levels of precision: what each function promises at each of them, by an argument or a block."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
import torch

import trnblas
import trnsci
import trntensor
from each_case import each_case
from oracles.exact_products import errors_by_magnitudes
from trnblas._library import LIBRARY
from trnblas._precise import slicing
from trnsci.core import explain
from trnsci.core.backend.precision import LEVELS
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, FlagError, KernelError
from trnsci.core.examples import examples_of, public_functions
from trnsci.core.testing import random_tensor

BACKENDS = ("simulator", "pytorch")
A, B, C = (random_tensor(*s, seed=i).double() for i, s in enumerate([(9, 20), (20, 7), (9, 7)]))
SQUARE = random_tensor(9, 9, seed=3).double()
LOWER = (SQUARE.tril(-1) / 9 + 2 * torch.eye(9)).double()
PANEL, X, Y = (random_tensor(*s, seed=5).double() for s in [(9, 20), (20,), (9,)])
MANY_A, MANY_B = (random_tensor(3, *s, seed=6).double() for s in [(9, 20), (20, 7)])


def full(a):
    """Return the symmetric matrix with the lower triangle of ``a``."""
    return a.tril() + a.tril(-1).mT


# Calls at a level, the same in float64 from the definition, and the products that they contain.
CALLS = {
    "gemm": (
        lambda a, b, c, **o: trnblas.gemm(1.5, a.mT, b, 0.3, c, transA=True, **o),
        lambda a, b, c: 1.5 * a @ b + 0.3 * c,
        (A, B, C),
    ),
    "gemmt": (
        lambda a, b, c, **o: trnblas.gemmt(1.5, a, b, 0.3, c, "lower", transB=True, **o),
        lambda a, b, c: (1.5 * a @ b.mT + 0.3 * c).tril() + c.triu(1),
        (A, PANEL, SQUARE),
    ),
    "batched_gemm": (
        lambda a, b, **o: trnblas.batched_gemm(1.5, a, b, **o),
        lambda a, b: 1.5 * a @ b,
        (MANY_A, MANY_B),
    ),
    "shared right operand": (
        lambda a, b, **o: trnblas.batched_gemm(1.5, a, b, **o),
        lambda a, b: 1.5 * a @ b,
        (MANY_A, B),
    ),
    "shared left operand": (
        lambda a, b, **o: trnblas.batched_gemm(1.5, a, b, **o),
        lambda a, b: 1.5 * a @ b,
        (A, MANY_B),
    ),
    "grouped_gemm": (
        lambda a, b, **o: trnblas.grouped_gemm(1.5, [a], [b], **o)[0],
        lambda a, b: 1.5 * a @ b,
        (A, B),
    ),
    "symm": (
        lambda a, b, **o: trnblas.symm(1.5, a, b, uplo="lower", **o),
        lambda a, b: 1.5 * full(a) @ b,
        (LOWER, A),
    ),
    "hemm": (
        lambda a, b, **o: trnblas.hemm(1.5, a, b, side="right", uplo="lower", **o),
        lambda a, b: 1.5 * b @ full(a),
        (LOWER, A.mT.contiguous()),
    ),
    "syrk": (
        lambda a, c, **o: trnblas.syrk(1.5, a, 0.3, c, uplo="lower", **o),
        lambda a, c: 1.5 * a @ a.mT + 0.3 * full(c),
        (A, LOWER),
    ),
    "herk": (
        lambda a, **o: trnblas.herk(1.5, a, trans=True, **o),
        lambda a: 1.5 * a.mT @ a,
        (A,),
    ),
    "syr2k": (
        lambda a, b, **o: trnblas.syr2k(1.5, a, b, **o),
        lambda a, b: 1.5 * (a @ b.mT + b @ a.mT),
        (A, PANEL),
    ),
    "her2k": (
        lambda a, b, **o: trnblas.her2k(1.5, a, b, trans=True, **o),
        lambda a, b: 1.5 * (a.mT @ b + b.mT @ a),
        (A, PANEL),
    ),
    "trmm": (
        lambda a, b, **o: trnblas.trmm(1.5, a, b, uplo="lower", trans=True, **o),
        lambda a, b: 1.5 * a.tril().mT @ b,
        (LOWER, A),
    ),
    "trsm": (
        lambda a, b, **o: trnblas.trsm(1.5, a, b, uplo="lower", **o),
        lambda a, b: 1.5 * torch.linalg.inv(a.tril()) @ b,
        (LOWER, A),
    ),
    "batched_trsm": (
        lambda a, b, **o: trnblas.batched_trsm(1.5, a, b, "right", "lower", True, **o),
        lambda a, b: 1.5 * b @ torch.linalg.inv(a.tril()).mT,
        (LOWER, MANY_A.mT.contiguous()),
    ),
    "gemv": (
        lambda a, x, y, **o: trnblas.gemv(1.5, a, x, 0.3, y, **o),
        lambda a, x, y: 1.5 * a @ x + 0.3 * y,
        (A, X, Y),
    ),
    "symv": (
        lambda a, x, **o: trnblas.symv(1.5, a, x, uplo="lower", **o),
        lambda a, x: 1.5 * full(a) @ x,
        (LOWER, Y),
    ),
    "hemv": (
        lambda a, x, **o: trnblas.hemv(1.5, a, x, uplo="lower", **o),
        lambda a, x: 1.5 * full(a) @ x,
        (LOWER, Y),
    ),
    "trmv": (
        lambda a, x, **o: trnblas.trmv(a, x, uplo="lower", **o),
        lambda a, x: a.tril() @ x,
        (LOWER, Y),
    ),
    "trsv": (
        lambda a, x, **o: trnblas.trsv(a, x, uplo="lower", **o),
        lambda a, x: torch.linalg.inv(a.tril()) @ x,
        (LOWER, Y),
    ),
    "ger": (
        lambda x, y, a, **o: trnblas.ger(0.1, x, y, a, **o),
        lambda x, y, a: 0.1 * torch.outer(x, y) + a,
        (Y, X, A),
    ),
    "gerc": (
        lambda x, y, **o: trnblas.gerc(0.1, x, y, **o),
        lambda x, y: 0.1 * torch.outer(x, y),
        (Y, X),
    ),
    "syr": (
        lambda x, a, **o: trnblas.syr(0.1, x, a, "lower", **o),
        lambda x, a: 0.1 * torch.outer(x, x) + full(a),
        (Y, LOWER),
    ),
    "her": (
        lambda x, **o: trnblas.her(0.1, x, **o),
        lambda x: 0.1 * torch.outer(x, x),
        (Y,),
    ),
    "syr2": (
        lambda x, y, a, **o: trnblas.syr2(0.1, x, y, a, "lower", **o),
        lambda x, y, a: 0.1 * (torch.outer(x, y) + torch.outer(y, x)) + full(a),
        (Y, A[:, 0].contiguous(), LOWER),
    ),
    "her2": (
        lambda x, y, **o: trnblas.her2(0.1, x, y, **o),
        lambda x, y: 0.1 * (torch.outer(x, y) + torch.outer(y, x)),
        (Y, A[:, 0].contiguous()),
    ),
    "axpy": (
        lambda x, y, **o: trnblas.axpy(0.1, x, y, **o),
        lambda x, y: 0.1 * x + y,
        (A, PANEL),
    ),
    "dot": (lambda x, y, **o: trnblas.dot(x, y, **o), torch.dot, (X, A[0].contiguous())),
    "dotc": (lambda x, y, **o: trnblas.dotc(x, y, **o), torch.dot, (X, A[0].contiguous())),
    "nrm2": (lambda x, **o: trnblas.nrm2(x, **o), lambda x: (x**2).sum().sqrt(), (A,)),
}
VECTORS = ("gemv", "symv", "hemv", "trmv", "ger", "gerc")
NOT_PRODUCTS = {
    *("asum", "copy", "dgmm", "geam", "iamax", "iamin", "rot", "rotg", "rotm", "rotmg", "scal"),
    "swap",
}
SOLUTIONS = ("trsm", "batched_trsm", "trsv")

# Errors of products of entries up to 3 with K = 20: by the magnitudes of the operands, at most
# 1.5 (K 9 + 3), times the bound of the level. Solutions of these systems grow errors less than 4.
SIZE = 300.0
BOUNDS = {
    "bfloat16": 2.0**-6,
    "float16x3": 3 * 2.0**-22 + 70 * 2.0**-24,
    "float32": 30 * 2.0**-24,
    "doublefloat": 2.0**-45,
}


def kernel_of(name: str, level: str) -> str:
    if name in ("axpy", "dot", "dotc", "nrm2"):
        kernel = "axpy" if name == "axpy" else "dot"
        return f"doublefloat_{kernel}" if level == "doublefloat" else ""
    if level == "doublefloat":
        return f"{level}_gemm"
    if level == "float32" or name in SOLUTIONS:
        return ""
    return f"{level}_gemm"


def test_every_function_that_multiplies_takes_a_level():
    functions = [name for name in public_functions("trnblas") if name in examples_of("trnblas")]
    parameters = {name: signature(getattr(trnblas, name)).parameters for name in functions}
    without = {name for name, of_name in parameters.items() if "precision" not in of_name}
    assert without == NOT_PRODUCTS
    assert not set(functions) - without - CALLS.keys()


HERMITIAN = ("hemm", "herk", "her2k", "hemv", "gerc", "her", "her2", "dotc")
"""With real operands, other names of symm, syrk, syr2k, symv, ger, syr, syr2 and dot."""
PATHS = [(n, b) for n in CALLS for b in BACKENDS if b == "pytorch" or n not in HERMITIAN]


@each_case("level", LEVELS)
@each_case(("name", "backend"), PATHS)
def test_every_function_at_every_level(name, backend, level):
    call, truth, operands = CALLS[name]
    dtypes = (torch.float32, torch.float64) if level == "doublefloat" else (torch.float32,)
    for dtype in dtypes:
        narrow = [x.to(dtype) for x in operands]
        before = counts()
        with LIBRARY.backend(backend):
            got = call(*narrow, precision=level)
        found = counts() - before
        want = truth(*(x.double() for x in narrow))
        assert got.dtype is dtype
        bound = SIZE * BOUNDS[level] + torch.finfo(dtype).eps / 2 * want.abs()
        assert ((got.double() - want).abs() <= bound).all(), (got - want).abs().max()
        expected = kernel_of(name, level) if backend == "simulator" else ""
        if name in VECTORS and level != "doublefloat":
            expected = ""
        assert not expected or expected in found.launches
        assert not found.refusals


@each_case("dtype", (torch.float32, torch.complex64))
def test_axpy_of_many_elements_is_that_of_float64(dtype):
    """By blocks, for views too; gradients and tangents are those of one sum."""
    x, y = (random_tensor(301, 250, seed=seed, dtype=dtype).mT for seed in (1, 2))
    x, y = x.requires_grad_(), y.requires_grad_()
    alpha = torch.tensor(0.3, dtype=dtype, requires_grad=True)
    wide = x.to(torch.complex128 if dtype.is_complex else torch.float64)
    want = (alpha.to(wide.dtype) * wide + y).to(dtype)
    got = trnblas.axpy(alpha, x, y, precision="doublefloat")
    assert torch.equal(got, want)
    weight = random_tensor(250, 301, seed=3, dtype=dtype)
    ours, theirs = (torch.autograd.grad(z, (alpha, x, y), weight) for z in (got, want))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    x, y = x.detach(), y.detach()
    plain = torch.add(y.to(wide.dtype), x.to(wide.dtype), alpha=0.3).to(dtype)
    assert torch.equal(trnblas.axpy(0.3, x, y, precision="doublefloat"), plain)
    many = torch.vmap(lambda x: trnblas.axpy(0.3, x, y, precision="doublefloat"))(x[None])
    assert torch.equal(many[0], plain)


@each_case("dtype", (torch.float32, torch.complex64))
@each_case("count", (2**15 - 1, 2**15 + 1, 3 * 2**15 + 5))
def test_axpy_by_blocks_has_the_bits_of_one_sum(dtype, count):
    x, y = (random_tensor(count, seed=seed, dtype=dtype) for seed in (1, 2))
    for place, value in enumerate((float("inf"), -float("inf"), float("nan"), 3e38)):
        x[place::4001], y[2 * place :: 4001] = value, 3e38
    wide = torch.complex128 if dtype.is_complex else torch.float64
    want = torch.add(y.to(wide), x.to(wide), alpha=0.3).to(dtype)
    for left in (x, x.conj_physical().conj()):
        got = trnblas.axpy(0.3, left, y, precision="doublefloat")
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@each_case(("name", "backend"), PATHS)
def test_gradients_have_the_accuracy_of_doublefloat(name, backend):
    """Within 2**-38: gradients are products of results and operands, of which there are two."""
    call, truth, operands = CALLS[name]
    grads = []
    for function, options in ((call, {"precision": "doublefloat"}), (truth, {})):
        wide = [x.clone().requires_grad_() for x in operands]
        with LIBRARY.backend(backend):
            result = function(*wide, **options)
            grads.append(torch.autograd.grad((result**2).sum(), wide))
    for got, want in zip(*grads, strict=True):
        assert (got - want).abs().max() <= 2.0**-38 * max(1.0, float(want.abs().max()))


def test_the_backward_has_the_level_of_the_forward_after_its_block():
    a, b = A.float().requires_grad_(), B.float().requires_grad_()
    with LIBRARY.backend("simulator"):
        for level in ("bfloat16", "float16x3", "doublefloat"):
            with trnsci.precision(level):
                result = trnblas.gemm(1.0, a, b)
            before = counts()
            torch.autograd.grad(result.sum(), (a, b))
            assert (counts() - before).launches == {f"{level}_gemm": 2}


def test_an_argument_beats_the_block_and_the_block_the_library():
    def kernel(**options):
        before = counts()
        with LIBRARY.backend("simulator"):
            trnblas.gemm(1.0, A.float(), B.float(), **options)
        return list((counts() - before).launches)

    assert kernel() == ["gemm"]
    with trnblas.precision("float16x3"):
        assert kernel() == ["float16x3_gemm"]
        with trnsci.precision("doublefloat"):
            assert kernel() == ["doublefloat_gemm"]
            assert kernel(precision="bfloat16") == ["bfloat16_gemm"]
            assert kernel(precision="float32") == ["gemm"]
    assert kernel() == ["gemm"]


def test_a_block_leaves_dtypes_without_levels_alone():
    narrow, whole = A.bfloat16(), torch.arange(6).reshape(2, 3)
    with trnsci.precision("doublefloat"):
        assert trnblas.gemm(1.0, narrow, narrow.mT).dtype is torch.bfloat16
        assert torch.equal(trnblas.gemm(1, whole, whole.mT), whole @ whole.mT)


@each_case("name", CALLS)
def test_levels_that_cannot_be_are_named(name):
    call, _, operands = CALLS[name]
    function = "batched_gemm" if name.startswith("shared") else name
    with pytest.raises(FlagError, match=rf"{function}: got precision 'double', accepted: bfloat16"):
        call(*operands, precision="double")
    for level in LEVELS:
        with pytest.raises(DTypeError, match=rf"{function}: precision='{level}' .*bfloat16"):
            call(*(x.bfloat16() for x in operands), precision=level)


@each_case("level", LEVELS)
@each_case(("name", "backend"), [("gemm", "simulator"), *((name, "pytorch") for name in CALLS)])
def test_autocast_does_not_lower_a_level(level, name, backend):
    call, _, operands = CALLS[name]
    # Two equal problems where a function takes batches: torch lowers its batched products.
    batched = [x.float()[None].repeat(2, *(1 for _ in x.shape)) for x in operands]
    narrow = batched if name in (*VECTORS, "trsv") else [x.float() for x in operands]
    with LIBRARY.backend(backend):
        want = call(*narrow, precision=level)
        with torch.autocast("cpu", torch.bfloat16):
            got = call(*narrow, precision=level)
    assert got.dtype is torch.float32
    assert torch.equal(got, want)


@each_case("backend", BACKENDS)
def test_factors_and_c_are_not_rounded_to_float32(backend):
    third = torch.full((2, 2), 1.0 / 3, dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    with LIBRARY.backend(backend):
        got = trnblas.gemm(0.1, eye, third, 0.7, third, precision="doublefloat")
        of_tensors = trnblas.gemm(
            torch.tensor(0.1, dtype=torch.float64, requires_grad=True),
            *(eye, third, torch.tensor(0.7, dtype=torch.float64), third),
            precision="doublefloat",
        )
    for found in (got, of_tensors):
        assert (found - 0.8 / 3).abs().max() <= 2.0**-45


def test_a_float32_result_is_rounded_once():
    """Three roundings, of the product, the factor and the sum, would change a fifth of these."""
    a, b, c = (random_tensor(40, 40, seed=i) for i in range(3))
    with LIBRARY.backend("simulator"):
        got = trnblas.gemm(1.3, a, b, 0.7, c, precision="doublefloat")
    want = (1.3 * a.double() @ b.double() + 0.7 * c.double()).float()
    assert (got != want).sum() <= 2


def test_batches_are_one_launch():
    for a, b in ((MANY_A, MANY_B), (A, MANY_B), (MANY_A, B)):
        for level in LEVELS:
            before = counts()
            with LIBRARY.backend("simulator"):
                trnblas.batched_gemm(1.0, a.float(), b.float(), precision=level)
            assert (counts() - before).launches.total() == 1


def test_a_compiled_function_follows_the_level():
    torch.compiler.reset()
    a, b = A.float(), B.float()
    compiled = torch.compile(lambda: trnblas.gemm(1.0, a, b), fullgraph=True, backend="eager")
    want = (a.double() @ b.double()).float()
    with trnsci.precision("doublefloat"):
        assert torch.equal(compiled(), want)
    with trnsci.precision("float32"):
        assert not torch.equal(compiled(), want)


# -- a target --------------------------------------------------------------------------------------


def level_for(target, *operands, **options):
    before = counts()
    with LIBRARY.backend("simulator"):
        result = trnblas.gemm(1.0, *operands, target_forward_error=target, **options)
    return result, list((counts() - before).launches)


@each_case(
    ("target", "dtype", "kernel"),
    [
        (1e-2, torch.float32, "bfloat16_gemm"),
        (1e-4, torch.float32, "gemm"),
        (1e-6, torch.float32, "doublefloat_gemm"),
        (1e-2, torch.float64, "doublefloat_gemm"),
        (1e-10, torch.float64, "doublefloat_gemm"),
        (2.0**-45, torch.float64, "doublefloat_gemm"),
    ],
)
def test_a_target_takes_the_cheapest_level_that_admits_it(target, dtype, kernel):
    a, b = A.to(dtype), B.to(dtype)
    got, launches = level_for(target, a, b)
    assert launches == [kernel]
    norms = a.double().norm(dim=1)[:, None] * b.double().norm(dim=0)
    assert ((got.double() - a.double() @ b.double()).abs() <= target * norms).all()


@each_case("backend", BACKENDS)
def test_zero_times_a_power_beyond_float64_is_zero(backend):
    """A row and a column of the largest numbers do not meet in any term."""
    row = torch.tensor([[1.7e308, 0.0]], dtype=torch.float64)
    column = torch.tensor([[0.0], [1.7e308]], dtype=torch.float64)
    square = torch.diag(torch.tensor([0.0, 1.7e308], dtype=torch.float64))
    with LIBRARY.backend(backend), trnsci.precision("doublefloat"):
        found = (
            trnblas.gemm(1.0, row, column),
            trnblas.batched_gemm(1.0, row[None], column[None]),
            trnblas.symm(1.0, square, row.mT),
            trnblas.syrk(1.0, torch.cat([row, column.mT]))[:1, 1:],
            trnblas.gemv(1.0, row, column[:, 0]),
            trnblas.trmv(square, row[0]),
            trntensor.einsum("ij,jk->ik", row, column),
        )
    for result in found:
        assert not result.any(), found


@each_case("depth", [1, 17, 300, 5000, 20_000])
@each_case("target", [2.0**-45, 1.5e-14, 1.2e-14])
def test_a_target_is_kept_by_torch(target, depth):
    """Terms of one sign, whose roundings do not cancel, against integers."""
    rng = np.random.default_rng(depth)
    for a, b in (rng.uniform(1, 2, (2, 1, depth)), np.full((2, 1, depth), 1 / 3)):
        with LIBRARY.backend("pytorch"):
            got = trnblas.gemm(
                *(1.0, torch.tensor(a), torch.tensor(b).mT),
                target_forward_error=target,
                componentwise=True,
            )
        assert errors_by_magnitudes(got.numpy(), a, b.T).max() <= target


@each_case(("backend", "count"), [("simulator", 4097), *(("pytorch", n) for n in (4097, 10**5))])
def test_long_inner_products_keep_the_bound(count, backend):
    x = np.full((1, count), 1 / 3)
    with LIBRARY.backend(backend):
        got = trnblas.dot(*[torch.tensor(x[0])] * 2, precision="doublefloat")
    assert errors_by_magnitudes(got.reshape(1, 1).numpy(), x, x.T) <= 2.0**-41 + 2.0**-53


def test_float16x3_from_order_1024_on():
    a = torch.ones(1024, 1024)
    with LIBRARY.backend("simulator"):
        shown = str(explain(trnblas.gemm, 1.0, a, a, target_forward_error=1e-3))
    assert "float16x3_gemm" in shown


def test_fewer_slices_for_a_larger_target():
    sizes = [slicing.fewest_slices(t, 1024) for t in (1e-4, 1e-7, 1e-10, 2.0**-45)]
    assert sizes == sorted(set(sizes))


def test_targets_that_no_level_admits_are_refused():
    for target in (0.0, -1.0, float("nan"), "x"):
        with pytest.raises(FlagError, match="gemm: target_forward_error must be above 0"):
            level_for(target, A.double(), B.double())
    with pytest.raises(FlagError, match="gemm: target_forward_error must be at least"):
        level_for(1e-16, A, B)
    with pytest.raises(FlagError, match=r"must be at least 5\.9.e-08 .* got 1e-10"):
        level_for(1e-10, A.float(), B.float())  # the result is rounded to float32
    with pytest.raises(FlagError, match=r"must be at least 0\.0078"):
        level_for(1e-6, A.float(), B.float(), precision="bfloat16")
    with pytest.raises(DTypeError, match="gemm: precision='doublefloat' takes"):
        level_for(1e-6, A.bfloat16(), B.bfloat16())
    with pytest.raises(FlagError, match="gemm: componentwise=True takes precision='doublefloat'"):
        trnblas.gemm(1.0, A, B, componentwise=True)


def test_a_target_holds_in_the_backward_with_its_own_contraction():
    a, b = A.clone().requires_grad_(), torch.ones(20, 1100, dtype=torch.float64)
    got, _ = level_for(1e-10, a, b)
    g = random_tensor(9, 1100, seed=8).double()
    before = counts()
    with LIBRARY.backend("simulator"):
        (of_a,) = torch.autograd.grad(got, a, g)
    assert (counts() - before).launches == {"doublefloat_gemm": 1}
    norms = g.norm(dim=1)[:, None] * b.norm(dim=1)
    assert ((of_a - g @ b.mT).abs() <= 1e-10 * norms).all()


# -- solutions by refinement -----------------------------------------------------------------------


def graded(order, spread):
    """Return a triangle with a condition number of about ``2**spread``."""
    scales = torch.logspace(0, -spread, order, base=2, dtype=torch.float64)
    return (torch.eye(order) + 0.1 * random_tensor(order, order, seed=9).tril(-1)).double() * scales


def residual_over_bound(a, b, x):
    rows, columns = a.norm(dim=1)[:, None], x.norm(dim=0)
    return float(((a @ x - b).abs() / (rows * columns + b.abs())).max()) / 2.0**-44


@each_case("spread", [0, 8, 16])
@each_case("scale", [1.0, 2.0**-660, 2.0**660])
def test_refinement_reaches_its_bound(spread, scale):
    a, b = scale * graded(40, spread), random_tensor(40, 5, seed=10).double()
    before = counts()
    with LIBRARY.backend("simulator"):
        x = trnblas.trsm(1.0, a, b, uplo="lower", precision="doublefloat")
    found = counts() - before
    assert found.launches["trsm"] >= 2
    assert found.launches["doublefloat_gemm"] == found.launches["trsm"]
    assert residual_over_bound(a / scale, b, x * scale) <= 1


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
def test_what_refinement_cannot_do_is_said():
    a = torch.eye(60).double() - (1 - 0.1 * random_tensor(60, 60, seed=11).double()).tril(-1)
    b = a @ torch.ones(60, 2, dtype=torch.float64)  # the condition number is 2**59
    singular, special = a.clone(), b.clone()
    singular[3, 3], special[1, 1] = 0, torch.inf
    for matrix, sides, reason in (
        (a, b, "ill-conditioned"),
        (singular, b, "singular"),
        (a, special, "not finite"),
    ):
        with LIBRARY.backend("simulator"):
            with LIBRARY.requiring("1"), pytest.raises(KernelError, match=reason):
                trnblas.trsm(1.0, matrix, sides, uplo="lower", precision="doublefloat")
            got = trnblas.trsm(1.0, matrix, sides, uplo="lower", precision="doublefloat")
        want = torch.linalg.solve_triangular(matrix, sides, upper=False)
        assert torch.equal(got.nan_to_num(), want.nan_to_num())


def test_levels_below_doublefloat_have_the_bits_of_float32_on_torch():
    """A level is a bound, and what torch computes in float32 is within all of them."""
    orbitals = torch.arange(-3.0, 0.0), torch.arange(1.0, 4.0)
    square, factors = SQUARE.float(), random_tensor(3, 3, 5)
    calls = (
        (trnblas.gemm, (1.0, A.float(), B.float())),
        (trnblas.gemv, (1.0, A.float(), X.float())),
        (trnblas.nki.nki_mp2_energy, (square, orbitals[0], *orbitals)),
        (trnblas.nki.nki_batched_pair_energy, (factors, *orbitals)),
        (trnblas.nki.nki_fused_gemm_energy, (factors[0], factors[1], -1.0, -2.0, orbitals[1])),
    )
    with LIBRARY.backend("pytorch"):
        for function, args in calls:
            exact = function(*args, precision="float32")
            # At float16x3 the energies are sums of another order.
            levels = ("bfloat16",) if "pair" in function.__name__ else LEVELS[:2]
            for level in levels:
                got = function(*args, precision=level)
                assert torch.allclose(got, exact, rtol=2.0**-20, atol=0), (function, level)
