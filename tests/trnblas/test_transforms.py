"""Gradients, torch.compile, vmap, forward mode and fake tensors all see every routine."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import trnblas

from .agreement import draw
from .cases import CASES, unchanged

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def agree(got, want):
    """Two ways of torch to sum at most 35 terms of size about 1, in float64."""
    torch.testing.assert_close(
        got, want, rtol=0, atol=400 * 2.0**-53 * (1 + float(want.abs().max()))
    )


@by_name
def test_gradients(case):
    tensors = [t.requires_grad_() for t in case.operands(torch.float64)]
    assert torch.autograd.gradcheck(
        lambda *t: case.call(trnblas, unchanged, *t), tensors, fast_mode=True
    )


COMPLEX = [
    "gemm-True-C",
    "herk-True-upper",
    "her2k-False-lower",
    "her-upper",
    "her2-lower",
    "hemm-right-lower",
    "hemv-upper",
    "gerc",
    "dotc",
    "geam-C-True",
    "trsv-lower-C-nonunit",
    "symm-left-lower",
    "nrm2",
]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name):
    (case,) = [c for c in CASES if c.name == name]
    tensors = [t.requires_grad_() for t in case.operands(torch.complex128)]
    assert torch.autograd.gradcheck(lambda *t: case.call(trnblas, unchanged, *t), tensors)


@pytest.mark.parametrize("name", ["gemm", "gemv", "syrk", "symm", "symv"])
def test_gradients_of_factors(name):
    (case,) = [
        c
        for c in CASES
        if c.name
        == {
            "gemm": "gemm-True-False",
            "gemv": "gemv-False",
            "syrk": "syrk-False-upper",
            "symm": "symm-right-lower",
            "symv": "symv-lower",
        }[name]
    ]
    factors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, -1.3)]

    def function(alpha, beta, *tensors):
        left = [alpha, beta]
        return case.call(trnblas, lambda _: left.pop(0), *tensors)

    assert torch.autograd.gradcheck(function, (*factors, *case.operands(torch.float64)))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's
@by_name
def test_forward_mode_agrees_with_reverse_mode(case):
    tensors = case.operands(torch.float64)
    tangents = tuple(draw(t.shape, torch.float64, 9 + i) for i, t in enumerate(tensors))

    def function(*t):
        return case.call(trnblas, unchanged, *t)

    value, forward = torch.func.jvp(function, tuple(tensors), tangents)
    _, reverse = torch.func.vjp(function, *tensors)
    weights = draw(value.shape, torch.float64, 30)
    gradients = reverse(weights)
    left = (forward * weights).sum()
    right = sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True))
    agree(left, right)


@by_name
def test_vmap(case):
    batches = [torch.stack([t, 2 * t + 1, -t]) for t in case.operands(torch.float64)]
    if case.solves:
        batches[0] = torch.stack([batches[0][0]] * 3)
    got = torch.vmap(lambda *t: case.call(trnblas, unchanged, *t))(*batches)
    want = torch.stack([case.call(trnblas, unchanged, *t) for t in zip(*batches, strict=True)])
    agree(got, want)


COMPILED = [
    "gemm-True-False",
    "gemm-batches--3",
    "batched_gemm-False-True",
    "batched_gemm-shared-right-1",
    "syrk-False-upper",
    "trsm-left-upper-True-nonunit",
    "symm-left-upper",
    "symv-lower",
    "trmm-right-lower-False-unit",
    "axpy",
    "dot",
    "nrm2",
    "gemv-True",
    "syr-lower",
    "her2-upper",
    "hemm-left-upper",
    "trsv-upper-True-nonunit",
    "geam-True-C",
    "dgmm-right-batch",
    "grouped_gemm-True",
    "asum",
]


@pytest.mark.parametrize("case", [c for c in CASES if c.name in COMPILED], ids=lambda c: c.name)
def test_compile_as_one_graph(case):
    torch.compiler.reset()

    def function(*t):
        return case.call(trnblas, unchanged, *t)

    tensors = case.operands(torch.float64)
    agree(torch.compile(function, backend="eager", fullgraph=True)(*tensors), function(*tensors))


SHORT = {
    "gemm": lambda a, x: trnblas.gemm(2.0, a, a),
    "symm": lambda a, x: trnblas.symm(1.0, a, a),
    "syrk": lambda a, x: trnblas.syrk(1.0, a),
    "trmm": lambda a, x: trnblas.trmm(1.0, a, a),
    "symv": lambda a, x: trnblas.symv(1.0, a, x),
    "trmv": lambda a, x: trnblas.trmv(a, x),
    "gemv": lambda a, x: trnblas.gemv(1.0, a, x),
    "trsm": lambda a, x: trnblas.trsm(1.0, a + 4 * torch.eye(3, dtype=a.dtype), a),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's
@pytest.mark.parametrize("name", SHORT)
def test_plain_calls_under_every_transform(name):
    """Without accumulators calls go a shorter way, which no transform may miss."""
    torch.compiler.reset()
    function = SHORT[name]
    a, x = draw((3, 3), torch.float64, 0), draw((3,), torch.float64, 1)
    value = function(a, x)
    agree(torch.compile(function, backend="eager", fullgraph=True)(a, x), value)
    agree(torch.vmap(function)(torch.stack([a, a]), torch.stack([x, x]))[1], value)
    tangents = draw((3, 3), torch.float64, 2), draw((3,), torch.float64, 3)
    forward = torch.func.jvp(function, (a, x), tangents)[1]
    assert forward.any()
    # Central differences: the routines are at most quadratic but for trsm, where the next term
    # is of third order in a step of 2^-17.
    step = 2.0**-17
    ahead = function(a + step * tangents[0], x + step * tangents[1])
    behind = function(a - step * tangents[0], x - step * tangents[1])
    torch.testing.assert_close(forward, (ahead - behind) / (2 * step), rtol=1e-8, atol=1e-8)
    assert torch.autograd.gradcheck(function, (a.requires_grad_(), x.requires_grad_()))


@by_name
def test_autocast_gives_one_dtype_whether_differentiated_or_not(case):
    dtypes = set()
    for grad in (False, True):
        tensors = [t.requires_grad_(grad) for t in case.operands(torch.float32)]
        with torch.autocast("cpu", torch.bfloat16):
            dtypes.add(case.call(trnblas, unchanged, *tensors).dtype)
    assert len(dtypes) == 1


@pytest.mark.parametrize("name", SHORT)
def test_autocast_reaches_plain_calls_as_it_does_others(name):
    a, x = draw((3, 3), torch.float32, 0), draw((3,), torch.float32, 1)
    with torch.autocast("cpu", torch.bfloat16):
        plain = SHORT[name](a, x).dtype
        differentiated = SHORT[name](a.requires_grad_(), x).dtype
    assert plain is differentiated


def test_every_compiled_case_exists():
    assert {*COMPILED, *COMPLEX} <= {case.name for case in CASES}


@by_name
def test_fake_tensors_have_the_shape_and_dtype(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    with FakeTensorMode() as mode:
        got = case.call(trnblas, unchanged, *(mode.from_tensor(t) for t in tensors))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


@by_name
def test_meta_tensors_have_the_shape_and_dtype(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    got = case.call(trnblas, unchanged, *(t.to("meta") for t in tensors))
    assert (got.shape, got.dtype, got.device.type) == (want.shape, want.dtype, "meta")
