"""Products with factors, symmetric products and sampled products."""

from math import prod

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import trnsparse as ts
from each_case import each_case
from trnsci.core.errors import DeviceError, DTypeError, OperandError

from .cases import FORMATS, in_format, random_dense


@pytest.mark.parametrize("name", FORMATS)
def test_factors_and_addends(name):
    dense = random_dense(6, 5)
    A = in_format(dense, name)
    x, y = random_dense(5, 1, 1.0, 1)[:, 0], random_dense(6, 1, 1.0, 2)[:, 0]
    B, C = random_dense(5, 3, 1.0, 3), random_dense(6, 3, 1.0, 4)
    torch.testing.assert_close(ts.spmv(A, x, 2.0, y, 0.5), 2 * dense @ x + 0.5 * y)
    torch.testing.assert_close(ts.spmm(A, B, 2.0, C, 0.5), 2 * dense @ B + 0.5 * C)
    torch.testing.assert_close(ts.spmv(A, x, 2.0, torch.full_like(y, torch.nan)), 2 * dense @ x)
    factor = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    ts.spmm(A, B, factor).sum().backward()
    torch.testing.assert_close(factor.grad, (dense @ B).sum())


@pytest.mark.parametrize("uplo", ["upper", "lower"])
def test_symmetric_products_read_one_triangle(uplo):
    half = random_dense(7, 7)
    part = half.triu() if uplo == "upper" else half.tril()
    x = random_dense(7, 1, 1.0, 1)[:, 0]
    whole = part + part.T - torch.diag(part.diagonal())
    found = ts.spmv_symmetric(ts.from_dense(part), x, 1.5, uplo)
    torch.testing.assert_close(found, 1.5 * whole @ x)
    other = torch.full_like(half, torch.nan)
    filled = part + (other.tril(-1) if uplo == "upper" else other.triu(1))
    for A in (ts.from_dense(half), ts.from_dense(filled), ts.BSRMatrix.from_dense(filled, 2)):
        values = A.to_dense().triu() if uplo == "upper" else A.to_dense().tril()
        torch.testing.assert_close(values, part)
        torch.testing.assert_close(ts.spmv_symmetric(A, x, 1.5, uplo), 1.5 * whole @ x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex128])
def test_sampled_products(dtype):
    dense = random_dense(6, 5)
    C, D = (random_dense(n, 3, 1.0, n, dtype=dtype) for n in (6, 5))
    found = ts.sddmm(ts.from_dense(dense), C, D)
    assert found.dtype is dtype
    want = (C @ D.T) * (dense != 0)
    torch.testing.assert_close(found.to_dense(), want)


def test_sampled_products_have_gradients_of_second_order():
    pattern = ts.from_dense(random_dense(5, 4))
    C, D = (random_dense(n, 3, 1.0, n).requires_grad_() for n in (5, 4))

    def sampled(c, d):
        return ts.sddmm(pattern, c, d).values

    assert torch.autograd.gradcheck(sampled, (C, D))
    assert torch.autograd.gradgradcheck(sampled, (C, D))
    assert ts.sddmm(pattern, C.expand(2, 5, 3), D.expand(2, 4, 3)).batch_shape == (2,)


@each_case(("rows", "width"), [(30, 40), (3, 40), (300, 1), (40, 3000)])
@each_case("density", [0.01, 0.5])
def test_products_of_many_shapes(rows, width, density):
    dense = random_dense(rows, 200, density, dtype=torch.float32)
    B = random_dense(200, width, 1.0, 1, dtype=torch.float32)
    A = ts.from_dense(dense)
    want = dense.double() @ B.double()
    bound = 400 * np.finfo(np.float32).eps * (dense.double().abs() @ B.double().abs())
    assert ((A @ B - want).abs() <= bound).all()
    assert ((A @ B[:, 0].contiguous() - want[:, 0]).abs() <= bound[:, 0]).all()


@each_case("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@each_case("width", [1, 3, 128])
def test_results_do_not_have_what_was_in_their_memory(dtype, width):
    draw = torch.manual_seed(0)
    dense = torch.randn(200, 90, generator=draw).to(dtype) * (torch.arange(200) % 3 == 0)[:, None]
    b = torch.randn(90, width, generator=draw).to(dtype)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # new memory is full of NaN then
    try:
        got = ts.from_dense(dense) @ b
    finally:
        torch.use_deterministic_algorithms(before)
    torch.testing.assert_close(got, dense @ b, rtol=1e-5, atol=1e-4)


def test_operands_that_are_not_contiguous():
    dense = random_dense(50, 60, 0.5)
    B = random_dense(4, 60, 1.0, 1).T
    torch.testing.assert_close(ts.from_dense(dense) @ B, dense @ B)
    sparse = random_dense(50, 60, 0.02)
    torch.testing.assert_close(ts.from_dense(sparse) @ B, sparse @ B)
    every_other = ts.from_dense(sparse)
    strided = every_other.with_values(every_other.values.repeat_interleave(2)[::2])
    torch.testing.assert_close(strided @ B, sparse @ B)


def test_the_gradient_of_a_product_keeps_to_the_pattern():
    n = 200_000  # a dense matrix of this order would take 160 GB
    places = torch.arange(n)
    A = ts.CSRMatrix(torch.ones(n), places, torch.arange(n + 1), (n, n)).requires_grad_()
    x = torch.ones(n, requires_grad=True)
    (A @ x).sum().backward()
    assert torch.equal(A.grad, torch.ones(n))
    assert torch.equal(x.grad, torch.ones(n))


@pytest.mark.parametrize("shape", [(20, 14), (16, 16), (3, 40)])
def test_block_gradients_where_blocks_reach_over_the_edge(shape):
    dense = random_dense(*shape, 0.2)
    A = ts.BSRMatrix.from_dense(dense, block_size=8)
    B = random_dense(shape[1], 3, 1.0, 5).requires_grad_()
    blocks = A.blocks.detach().requires_grad_()
    G = random_dense(shape[0], 3, 1.0, 6)
    (A._with_data(blocks) @ B * G).sum().backward()
    torch.testing.assert_close(B.grad, dense.T @ G)
    by_dense = G @ B.detach().T
    stored = A._with_data(torch.ones_like(A.blocks)).to_dense()
    torch.testing.assert_close(A._with_data(blocks.grad).to_dense(), by_dense * stored)


def assert_product(got, a, b):
    """Assert that a product is as near to the exact one as sums of its many terms are."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    bound = a.shape[1] * torch.finfo(a.dtype).eps * (a.abs() @ b.abs())
    assert ((got.to(wide) - a.to(wide) @ b.to(wide)).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize("size", [3, 128])
def test_blocks_of_any_size_and_their_gradients(dtype, size):
    dense = random_dense(300, 400, 1.0).to(dtype)
    dense[128:256] = 0.0  # rows without blocks
    dense[:128, 128:384] = 0.0
    A, B = ts.BSRMatrix.from_dense(dense, size), random_dense(400, 65, 1.0, 1).to(dtype)
    assert_product(A @ B, dense, B)
    leaf = B.clone().requires_grad_()
    G = random_dense(300, 65, 1.0, 2).to(dtype)
    (A @ leaf * G).sum().real.backward()
    assert_product(leaf.grad, dense.mH, G.conj())


RIGHT = pytest.mark.parametrize("columns", [(), (3,)], ids=["vector", "matrix"])


@RIGHT
def test_products_follow_values_that_change_in_every_way(columns):
    dense = random_dense(30, 30, 0.5)
    A = ts.from_dense(dense)
    x = torch.ones(30, *columns, dtype=torch.float64)
    torch.testing.assert_close(A @ x, dense @ x)
    A.values.mul_(2)
    torch.testing.assert_close(A @ x, 2 * dense @ x)
    A.values.data = 3 * A.values.data
    torch.testing.assert_close(A @ x, 6 * dense @ x)
    A.values = A.values / 6
    torch.testing.assert_close(A @ x, dense @ x)
    A.values.data = A.values.data.float()
    torch.testing.assert_close(A @ x.float(), (dense @ x).float())


@RIGHT
def test_products_follow_values_that_are_not_contiguous_or_conjugated(columns):
    dense = random_dense(30, 30, 0.5, dtype=torch.complex128)
    x = torch.ones(30, *columns, dtype=dense.dtype)
    twice = ts.from_dense(dense)
    strided = twice.with_values(twice.values.repeat_interleave(2)[::2])
    conjugated = twice.with_values(twice.values.conj())
    for A, want in ((strided, dense), (conjugated, dense.conj())):
        torch.testing.assert_close(A @ x, want @ x)
        A.values.mul_(2)
        torch.testing.assert_close(A @ x, 2 * want @ x)
        A.values.div_(2)


@each_case("name", FORMATS)
@each_case("inference", [False, True])
def test_products_follow_index_tensors_that_change_in_place(name, inference):
    x = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    with torch.inference_mode(inference):
        dense = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
        A = in_format(dense, name, **({"block_size": 1} if name == "bsr" else {}))
        names = {"csc": "row_indices", "bsr": "block_col_indices"}
        indices = getattr(A, names.get(name, "col_indices"))
        assert (A @ x).tolist() == [1, 20, 300, 4000]
        indices.copy_(indices.flip(0))
        assert torch.equal(A @ x, A.to_dense() @ x)
        want = [4000, 300, 20, 1] if name == "csc" else [1000, 200, 30, 4]
        assert (A @ x).tolist() == want
        assert torch.equal(A.T @ x, A.to_dense().T @ x)


@RIGHT
def test_products_follow_places_that_change_in_every_way(columns):
    dense = random_dense(30, 30, 1.0)  # every row has every column
    A, x = ts.from_dense(dense), random_dense(30, prod(columns), 1.0, 1).reshape(30, *columns)
    torch.testing.assert_close(A @ x, dense @ x)
    A.col_indices.copy_(29 - A.col_indices)
    torch.testing.assert_close(A @ x, dense.flip(1) @ x)
    A.col_indices = 29 - A.col_indices
    torch.testing.assert_close(A @ x, dense @ x)
    A.row_ptrs = torch.cat([A.row_ptrs.new_zeros(1), A.row_ptrs[:1], A.row_ptrs[2:]])
    moved = A.to_dense()  # the first row now belongs to the second
    assert not torch.equal(moved, dense)
    torch.testing.assert_close(A @ x, moved @ x)


@each_case("name", FORMATS)
@each_case("other", ["to_coo", "to_csr", "to_csc", "to_ell", "transpose"])
@each_case("differentiated", [False, True])
def test_a_matrix_is_unchanged_by_changes_of_what_was_made_of_it(name, other, differentiated):
    dense = random_dense(6, 6, 0.5)
    A = in_format(dense, name, **({"block_size": 2} if name == "bsr" else {}))
    A = A.requires_grad_(differentiated)
    made = getattr(A, other)()
    if made is A:
        return
    shared = {id(x) for x in vars(A).values()}  # tensors that both hold are changed in both
    for value in vars(made).values():
        integers = isinstance(value, torch.Tensor) and not value.is_floating_point()
        if integers and id(value) not in shared:
            value.zero_()
    B = random_dense(6, 2, 1.0, 1)
    torch.testing.assert_close((A @ B).detach(), dense @ B)
    torch.testing.assert_close((B.T @ A).detach(), B.T @ dense)
    torch.testing.assert_close(A.to_coo().to_dense().detach(), dense)


def test_rows_of_one_length_are_those_of_the_matrix_when_they_were_made():
    dense = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    A = ts.from_dense(dense)
    even = A.to_ell()
    A.col_indices.copy_(A.col_indices.flip(0))
    assert torch.equal(even @ torch.eye(3), dense)


@RIGHT
def test_a_second_product_is_checked_and_differentiated_as_the_first_one(columns):
    dense = random_dense(6, 5, 0.9)
    A, x = ts.from_dense(dense), torch.ones(5, *columns, dtype=torch.float64)
    A @ x  # the matrix holds what repeated products need
    with pytest.raises(OperandError, match="inner dimensions"):
        A @ torch.ones(6, *columns, dtype=torch.float64)
    with pytest.raises(DTypeError, match="float32"):
        A @ x.float()
    with pytest.raises(DeviceError, match="meta"):
        A @ x.to("meta")
    v = x.clone().requires_grad_()
    (A @ v).sum().backward()
    torch.testing.assert_close(v.grad, dense.sum(0).reshape(5, *[1] * len(columns)).expand_as(x))
    torch.testing.assert_close(torch.func.jvp(lambda t: A @ t, (x,), (x,))[1], dense @ x)
    with forward_ad.dual_level():
        dual = A @ forward_ad.make_dual(x, 2 * x)
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, 2 * dense @ x)
    slope = torch.func.grad(lambda t: (A @ t).square().sum())(x)
    torch.testing.assert_close(slope, 2 * dense.mT @ dense @ x)
    torch.testing.assert_close(torch.func.functionalize(lambda t: A @ t)(x), dense @ x)
    traced = make_fx(lambda t: A @ t, tracing_mode="real")(x)
    torch.testing.assert_close(traced(3 * x), 3 * dense @ x)
    torch.testing.assert_close(
        torch.func.vmap(lambda t: A @ t)(torch.stack([x, 2 * x])),
        torch.stack([A @ x, 2 * (A @ x)]),
    )
    if columns:
        torch.testing.assert_close(A @ x.mT.contiguous().mT, dense @ x)
    with torch.autocast("cpu", torch.bfloat16):
        assert (A @ x).dtype is torch.float64
    A.requires_grad_()
    (A @ x).sum().backward()
    torch.testing.assert_close(A.grad, torch.full_like(A.values, prod(columns)))
    assert not (A.detach() @ x).requires_grad
    with torch.no_grad():
        assert not (A @ x).requires_grad


@pytest.mark.slow
def test_one_graph_of_a_compiler_holds_products_and_their_gradients():
    A = ts.from_dense(random_dense(6, 5, 0.4))
    B = random_dense(5, 3, 1.0, 1)

    def function(values, b):
        return ts.spmm(A.with_values(values), b).sum() + A.to_dense().sum()

    grads = []
    torch._dynamo.reset()
    for call in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        leaves = A.values.clone().requires_grad_(), B.clone().requires_grad_()
        grads.append(torch.autograd.grad(call(*leaves), leaves))
    torch._dynamo.reset()
    torch.testing.assert_close(grads[0], grads[1])


def test_beta_needs_an_addend():
    A = ts.eye_sparse(3)
    for call in (
        lambda: ts.spmm(A, torch.eye(3), beta=2.0),
        lambda: ts.spmv(A, torch.ones(3), beta=2),
    ):
        with pytest.raises(ValueError, match=r"^spm[mv]: beta must be 0 where [Cy] is not given"):
            call()


def test_matmul_is_what_a_whole_graph_takes_in_place_of_the_operator():
    A, x = ts.from_dense(random_dense(4, 4, 0.5)), torch.ones(4)
    compiled = torch.compile(lambda x: A.matmul(x), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x.to(A.dtype)), A @ x.to(A.dtype))


def test_a_new_matrix_is_transposed_in_a_whole_graph():
    """Nothing of the pattern is cached yet."""
    dense = random_dense(6, 5, 0.4)
    A = ts.from_dense(dense)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda values: ts.transpose(A.with_values(values)).values, fullgraph=True, backend="eager"
    )
    got = compiled(A.values)
    assert torch.equal(got, ts.from_dense(dense.mT.contiguous()).values)


@pytest.mark.parametrize("where", ["pytorch", "simulator"])
def test_sampled_products_of_integers_are_refused(where):
    pattern = ts.from_dense(torch.eye(4))
    with ts.backend(where), pytest.raises(DTypeError, match=r"sddmm: C must be floating .*int64"):
        ts.sddmm(pattern, torch.ones(4, 2, dtype=torch.int64), torch.ones(4, 2, dtype=torch.int64))


@each_case("name", FORMATS)
@each_case("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex128])
@each_case("columns", [(), (3,)])
def test_a_product_for_operands_that_are_alike_has_the_bits_of_each(name, dtype, columns):
    A = in_format(random_dense(6, 5, dtype=dtype), name)
    operands = [
        random_dense(5, prod(columns), 1.0, seed, dtype).reshape(5, *columns) for seed in (1, 2)
    ]
    with torch.no_grad():
        product = A.product_like(operands[0])
        for operand in operands:
            assert torch.equal(product(operand), A @ operand)
    x = operands[0].requires_grad_()
    A.product_like(operands[1])(x).real.sum().backward()  # what is recorded is not chosen before
    assert x.grad.any()
    with pytest.raises(OperandError, match="inner dimensions"):
        A.product_like(operands[1][1:])
    with pytest.raises(DTypeError, match="float16"):
        A.product_like(operands[1].real.half())
