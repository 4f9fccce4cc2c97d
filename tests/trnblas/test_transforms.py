"""Gradients, torch.compile, vmap, forward mode and fake tensors all see every routine."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import trnblas
from each_case import each_case

from .agreement import draw
from .cases import CASES, unchanged

# The adjoint of real numbers is the transpose.
by_name = each_case(
    "case", [case for case in CASES if "-C" not in case.name], ids=lambda case: case.name
)
# Shapes and dtypes of results depend on nothing else.
by_shapes = each_case(
    "case",
    {(case.name.partition("-")[0], case.shapes): case for case in CASES}.values(),
    ids=lambda case: case.name,
)


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


# Accumulators, norms and every conjugation; the options of one routine share a formula.
COMPLEX = [
    case
    for case in CASES
    if not case.name.startswith(("swap", "batched_gemm", "batched_trsm"))
    and not case.name.endswith(("upper-C-unit", "lower-C-nonunit"))
    and ("-C" in case.name or case.name.startswith(("he", "dotc", "gerc", "nrm2", "sy")))
]


@each_case("case", COMPLEX, ids=lambda case: case.name)
def test_complex_gradients(case):
    tensors = [t.requires_grad_() for t in case.operands(torch.complex128)]
    assert torch.autograd.gradcheck(
        lambda *t: case.call(trnblas, unchanged, *t), tensors, fast_mode=True
    )


@each_case("name", ["gemm", "gemv", "syrk", "symm", "symv"])
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


@each_case("case", [c for c in CASES if "-C" in c.name], ids=lambda case: case.name)
def test_vmap_of_conjugates_with_tensor_factors(case):
    def call(*tensors):
        return case.call(trnblas, torch.tensor, *tensors)

    operands = case.operands(torch.complex128)
    views = [torch.stack([t, 2 * t]).conj().resolve_conj().conj() for t in operands]
    want = torch.stack([call(*operands), call(*(2 * t for t in operands))])
    agree(torch.vmap(call)(*views), want)


# Batches and options; the contract of public functions compiles one call of every routine.
COMPILED = [
    "gemm-batches--3",
    "batched_gemm-shared-right-1",
    "trsm-left-upper-True-nonunit",
    "trmm-right-lower-False-unit",
    "geam-True-C",
    "dgmm-right-batch",
    "grouped_gemm-True",
]


def test_compile_as_one_graph():
    torch.compiler.reset()
    cases = [case for case in CASES if case.name in COMPILED]

    def function(operands):
        return [case.call(trnblas, unchanged, *t) for case, t in zip(cases, operands, strict=True)]

    operands = [case.operands(torch.float64) for case in cases]
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    for got, want in zip(compiled(operands), function(operands), strict=True):
        agree(got, want)


@by_shapes
def test_autocast_gives_one_dtype_whether_differentiated_or_not(case):
    dtypes = set()
    for grad in (False, True):
        tensors = [t.requires_grad_(grad) for t in case.operands(torch.float32)]
        with torch.autocast("cpu", torch.bfloat16):
            dtypes.add(case.call(trnblas, unchanged, *tensors).dtype)
    assert len(dtypes) == 1


def test_every_compiled_case_exists():
    assert {*COMPILED} <= {case.name for case in CASES}


@by_shapes
def test_fake_tensors_have_the_shape_and_dtype(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    with FakeTensorMode() as mode:
        got = case.call(trnblas, unchanged, *(mode.from_tensor(t) for t in tensors))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


@by_shapes
def test_meta_tensors_have_the_shape_and_dtype(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    got = case.call(trnblas, unchanged, *(t.to("meta") for t in tensors))
    assert (got.shape, got.dtype, got.device.type) == (want.shape, want.dtype, "meta")


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@each_case("name", ["symm", "trmm", "syrk", "symv", "trmv"])
def test_a_recorded_call_is_no_constant(name):
    """A result of SciPy or NumPy would be one to ``torch.jit.trace``."""
    function = {
        "symm": lambda x: trnblas.symm(1.0, x, x),
        "trmm": lambda x: trnblas.trmm(1.0, x, x),
        "syrk": lambda x: trnblas.syrk(1.0, x),
        "symv": lambda x: trnblas.symv(1.0, x, x[0]),
        "trmv": lambda x: trnblas.trmv(x, x[0]),
    }[name]
    x, other = torch.eye(60, dtype=torch.float64), draw((60, 60), torch.float64, 0)
    recorded = torch.jit.trace(function, x, check_trace=False)
    # Sums of 60 products of numbers below 5.
    torch.testing.assert_close(recorded(other), function(other), rtol=0, atol=60**2 * 25 * 2.0**-53)
