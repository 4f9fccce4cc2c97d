"""Every routine with every option and dtype is what its definition gives in float64."""

from itertools import product

import numpy as np
import pytest
import scipy.linalg.blas as reference
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle
from pairwise import in_turn
from trnsci.core.errors import DTypeError
from trnsci.core.testing import random_tensor

from .agreement import FLOATING, INTEGERS, array, assert_agrees, draw
from .cases import CASES, DIAG, SIDE, TRANS, UPLO, K, M, N, unchanged

by_name = each_case("case", CASES, ids=lambda case: case.name)


def check(case, dtype, tensors):
    got = case.call(trnblas, unchanged, *tensors)
    arrays = [array(t) for t in tensors]
    want = case.call(oracle, unchanged, *arrays)
    of_real = case.name in ("asum", "nrm2") and dtype.is_complex
    result = dtype.to_real() if of_real else dtype
    if case.name == "asum" and dtype in INTEGERS:
        result = torch.int64
    assert_agrees(got, want, result, case.steps * (4 if of_real else 1), case.magnitude(arrays))
    return got


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@by_name
def test_agrees_with_the_definition(case, dtype):
    check(case, dtype, case.operands(dtype))


@each_case("dtype", INTEGERS, ids=str)
@each_case("case", [c for c in CASES if not c.floats_only], ids=lambda c: c.name)
def test_integers_are_exact(case, dtype):
    if dtype is torch.uint8:
        # Negative factors wrap; of the absolute ones every result is an unsigned number.
        tensors = case.operands(dtype)
        got = case.call(trnblas, lambda f: int(abs(f) + 0.5), *tensors)
        want = case.call(oracle, lambda f: int(abs(f) + 0.5), *map(array, tensors))
        assert np.array_equal(array(got), want)
    elif case.name in ("axpy", "scal"):
        with pytest.raises(TypeError, match="alpha must be whole"):
            case.call(trnblas, unchanged, *case.operands(dtype))
    else:
        check(case, dtype, case.operands(dtype))


@each_case(
    ("case", "dtype"),
    in_turn(CASES, [torch.float32, torch.complex128]),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_views_of_any_strides(case, dtype):
    for view in (column_major, stepped, reversed_conjugate):
        check(case, dtype, [view(t) for t in case.operands(dtype)])


def column_major(t):
    return t.mT.contiguous().mT if t.ndim > 1 else t


def stepped(t):
    wide = torch.full([2 * n for n in t.shape], float("nan"), dtype=t.dtype)
    inner = wide[tuple(slice(1, None, 2) for _ in t.shape)]
    inner.copy_(t)
    return inner


def reversed_conjugate(t):
    """The same values behind a conjugation, or a negation, that torch does lazily."""
    if t.is_complex():
        return t.conj().clone().conj()
    lazily = torch.complex(torch.zeros_like(t), -t).conj().imag
    assert lazily.is_neg()
    return lazily


@by_name
def test_expanded_operands(case):
    expanded = []
    for tensor in case.operands(torch.float64):
        if case.solves:
            expanded.append(tensor)
        else:
            expanded.append(tensor[..., :1].expand(tensor.shape))
    check(case, torch.float64, expanded)


@by_name
def test_arguments_are_left_alone_and_the_result_is_new(case):
    tensors = case.operands(torch.float32)
    before = [t.clone() for t in tensors]
    got = case.call(trnblas, unchanged, *tensors)
    got.fill_(7)
    assert all(torch.equal(t, b) for t, b in zip(tensors, before, strict=True))


@by_name
def test_a_gradient_does_not_change_the_value(case):
    tensors = case.operands(torch.float32)
    plain = case.call(trnblas, unchanged, *tensors)
    for tensor in tensors:
        tensor.requires_grad_()
    got = case.call(trnblas, unchanged, *tensors)
    assert got.requires_grad
    arrays = [array(t) for t in tensors]
    # Both paths are within the bound of the definition.
    bound = 2 * case.steps * 2.0**-24 * case.magnitude(arrays)
    assert (np.abs(array(got) - array(plain)) <= bound).all()
    with torch.no_grad():
        got = case.call(trnblas, unchanged, *tensors)
    assert not got.requires_grad
    assert (np.abs(array(got) - array(plain)) <= bound).all()


LARGE = [
    ("symm", (260, 260), (260, 1030)),
    ("syrk", (130, 40)),
    ("syrk", (321, 40)),
    ("herk", (321, 40)),
    ("gemmt", (1030, 40), (40, 1030)),
    ("trmm", (300, 300), (300, 200)),
]
# The order from which SciPy's triangular products are used, and the one below it.
TRIANGLES = [47, 48, 60]


@each_case("dtype", [torch.float32, torch.complex128], ids=str)
@each_case("layout", [lambda a: a, lambda a: a.mT.contiguous().mT, lambda a: a[::2, ::2]])
@each_case("n", TRIANGLES)
def test_triangular_products_on_both_sides_of_the_crossover(n, layout, dtype):
    a = layout(draw((2 * n, 2 * n), dtype, 0))[:n, :n]
    b, x = draw((n, 3), dtype, 1), draw((n,), dtype, 2)
    wide_a, wide_b, wide_x = array(a), array(b), array(x)
    for uplo, trans, diag in product(UPLO, TRANS, DIAG):
        options = (uplo, trans, diag)
        want = oracle.trmv(wide_a, wide_x, *options)
        magnitude = oracle.trmv(np.abs(wide_a), np.abs(wide_x), *options)
        assert_agrees(trnblas.trmv(a, x, *options), want, dtype, n + 4, magnitude)
        for side, other, wide in (("left", b, wide_b), ("right", b.mT, wide_b.T)):
            want = oracle.trmm(-2, wide_a, wide, side, *options)
            magnitude = oracle.trmm(2, np.abs(wide_a), np.abs(wide), side, *options)
            got = trnblas.trmm(-2, a, other, side, *options)
            assert_agrees(got, want, dtype, n + 4, magnitude)


@each_case(
    ("problem", "uplo"),
    [*product(LARGE, UPLO), (("symm", (1030, 1030), (1030, 3)), "lower")],
    ids=str,
)
def test_sizes_beyond_a_panel(problem, uplo):
    name, *shapes = problem
    dtype = torch.complex128 if name == "herk" else torch.float64
    tensors = [draw(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    got = getattr(trnblas, name)(-2, *tensors, uplo=uplo)
    arrays = [array(t) for t in tensors]
    full = {
        "symm": lambda a, b: oracle.symmetric(a, uplo) @ b,
        "syrk": lambda a: a @ a.T,
        "herk": lambda a: a @ a.conj().T,
        "gemmt": lambda a, b: oracle.triangle(a @ b, uplo),
        "trmm": lambda a, b: oracle.triangle(a, uplo) @ b,
    }[name]
    steps = tensors[0].shape[-1] + 4
    assert_agrees(got, -2 * full(*arrays), dtype, 2 * steps, 2 * full(*map(np.abs, arrays)))
    if name == "syrk":
        assert torch.equal(got, got.mT)
    if name == "herk":
        assert torch.equal(got, got.mH)


@each_case("requires_grad", [False, True])
@each_case("dtype", [torch.bfloat16, torch.float32, torch.complex64], ids=str)
@each_case("n", [1, 3, 64, 129, 200])
def test_rank_k_updates_are_exactly_symmetric(n, dtype, requires_grad):
    a = draw((n, 33), dtype, n).requires_grad_(requires_grad)
    for trans in (False, True):
        matrix = a.mT if trans else a
        for got in (
            trnblas.syrk(0.3, matrix, trans=trans),
            trnblas.syr2k(0.3, matrix, matrix, trans=trans),
        ):
            assert torch.equal(got, got.mT)
        got = trnblas.herk(0.3, matrix, trans=trans)
        assert torch.equal(got, got.mH)


LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: a.mT.contiguous().mT,
    "conjugate": lambda a: a.conj().resolve_conj().conj(),
    "part": lambda a: torch.nn.functional.pad(a, (1, 2))[:, 1:-2],
}


@each_case("dtype", FLOATING, ids=str)
@each_case("layout", LAYOUTS)
@each_case("n", [1, 128, 129, 257])
@each_case("uplo", UPLO)
def test_a_matrix_given_by_one_triangle_is_the_whole_one(dtype, layout, n, uplo):
    """Whatever its order and layout; the other triangle is not read, nor an imaginary diagonal."""
    a, x = draw((n, n), dtype, 0), draw((n,), dtype, 1)
    spoilt = LAYOUTS[layout](
        a
        + 1e4
        * (
            torch.tril(torch.ones(n, n), -1) if uplo == "upper" else torch.triu(torch.ones(n, n), 1)
        ).to(dtype)
    )
    half = array(a.triu(1) if uplo == "upper" else a.tril(-1))
    for symmetric, vector in (
        (half + half.T + np.diag(np.diag(array(a))), trnblas.symv(-0.5, spoilt, x, uplo=uplo)),
        (
            half + half.conj().T + np.diag(np.diag(array(a)).real),
            trnblas.hemv(-0.5, spoilt, x, uplo=uplo),
        ),
    ):
        steps = 2 * n + 4
        size = 0.5 * np.abs(symmetric) @ np.abs(array(x))
        assert_agrees(vector, -0.5 * symmetric @ array(x), dtype, steps, size)
    result = trnblas.her(1.0, 0 * x, spoilt, uplo)
    want = half + half.conj().T + np.diag(np.diag(array(a)).real)
    assert np.array_equal(array(result), want)


UPDATES = {
    "syrk": lambda a, b, c, **o: trnblas.syrk(0.3, a, -0.7, c, **o),
    "herk": lambda a, b, c, **o: trnblas.herk(0.3, a, -0.7, c, **o),
    "syr2k": lambda a, b, c, **o: trnblas.syr2k(1, a, b, -0.7, c, **o),
    "her2k": lambda a, b, c, **o: trnblas.her2k(1, a, b, -0.7, c, **o),
    "syr": lambda a, b, c, **o: trnblas.syr(0.3, a[:, 0], c, **o),
    "her": lambda a, b, c, **o: trnblas.her(0.3, a[:, 0], c, **o),
    "syr2": lambda a, b, c, **o: trnblas.syr2(0.3, a[:, 0], b[:, 0], c, **o),
    "her2": lambda a, b, c, **o: trnblas.her2(0.3, a[:, 0], b[:, 0], c, **o),
}


@each_case("name", UPDATES)
@each_case("dtype", FLOATING, ids=str)
@each_case("n", [7, 33, 130])
def test_updates_of_an_accumulator_are_exactly_symmetric(name, dtype, n):
    """An element and its mirror image stand at other places of their rows."""
    a, b, c = (draw(s, dtype, i) for i, s in enumerate(((n, 8), (n, 8), (n, n))))
    for uplo in ("upper", "lower"):
        got = UPDATES[name](a, b, c, uplo=uplo)
        assert torch.equal(got, got.mH if name.startswith("he") else got.mT)


@each_case("dtype", [torch.float32, torch.complex128], ids=str)
@each_case("uplo", UPLO)
def test_the_accumulator_of_a_rank_k_update_is_given_by_its_triangle(uplo, dtype):
    a, b, c = (draw(s, dtype, i) for i, s in enumerate(((6, 3), (6, 3), (6, 6))))
    hidden = torch.full_like(c, float("nan"))
    spoilt = c.triu() + hidden.tril(-1) if uplo == "upper" else c.tril() + hidden.triu(1)
    assert spoilt.isnan().any()
    x, y = a[:, 0], b[:, 0]
    for got in (
        trnblas.syrk(1.0, a, 2.0, spoilt, uplo=uplo),
        trnblas.syr2k(1.0, a, b, 2.0, spoilt, uplo=uplo),
        trnblas.syr(1.0, x, spoilt, uplo),
        trnblas.syr2(1.0, x, y, spoilt, uplo),
    ):
        assert got.isfinite().all()
        assert torch.equal(got, got.mT)
    for got in (
        trnblas.herk(1.0, a, 2.0, spoilt, uplo=uplo),
        trnblas.her2k(1.0, a, b, 2.0, spoilt, uplo=uplo),
        trnblas.her(1.0, x, spoilt, uplo),
        trnblas.her2(1.0, x, y, spoilt, uplo),
    ):
        assert got.isfinite().all()
        assert torch.equal(got, got.mH)


@pytest.mark.parametrize("trans", [False, True])
def test_factors_of_hermitian_updates_may_be_complex(trans):
    a, b = draw((4, 4), torch.complex128, 0), draw((4, 4), torch.complex128, 1)
    c, alpha = draw((4, 4), torch.complex128, 2), 0.5 - 2j
    wide = array(a), array(b), array(c)
    size = 8 * np.abs(wide[0]).max() * np.abs(wide[1]).max() * 4
    got = trnblas.her2k(alpha, a, b, -1.5, c, trans, "lower")
    want = oracle.her2k(alpha, *wide[:2], -1.5, wide[2], trans, "lower")
    assert_agrees(got, want, torch.complex128, 4, size)
    assert torch.equal(got, got.mH)
    got = trnblas.her2(alpha, a[0], b[0], c, "lower")
    want = oracle.her2(alpha, wide[0][0], wide[1][0], wide[2], "lower")
    assert_agrees(got, want, torch.complex128, 4, size)
    assert torch.equal(got, got.mH)
    # The derivative by a factor goes through its conjugate too.
    factor = torch.tensor(alpha, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f: trnblas.her2k(f, a, b, trans=trans), [factor])
    assert torch.autograd.gradcheck(lambda f: trnblas.her2(f, a[0], b[0]), [factor])


def test_grouped_products_of_different_shapes():
    shapes = [(2, 3, 4), (5, 1, 2), (2, 3, 4), (1, 7, 1)]
    a = [draw((m, k), torch.float64, i) for i, (m, k, _) in enumerate(shapes)]
    b = [draw((k, n), torch.float64, 9 + i) for i, (_, k, n) in enumerate(shapes)]
    c = [draw((m, n), torch.float64, 20 + i) for i, (m, _, n) in enumerate(shapes)]
    alphas, betas = [1.0, -2.0, 1.0, 0.5], [0.0, 3.0, 0.0, -1.0]
    got = trnblas.grouped_gemm(alphas, a, b, betas, c)
    for i in range(4):
        left, right = alphas[i] * array(a[i]), array(b[i])
        want, magnitude = left @ right, np.abs(left) @ np.abs(right)
        if betas[i]:  # at 0, C is not read
            want, magnitude = want + betas[i] * array(c[i]), magnitude + np.abs(3 * array(c[i]))
        assert_agrees(got[i], want, torch.float64, shapes[i][1] + 3, magnitude)
    turned = [m.mT if i % 2 else m for i, m in enumerate(a)]
    options = [bool(i % 2) for i in range(4)]
    plain = trnblas.grouped_gemm(2.0, a, b)
    again = trnblas.grouped_gemm(2.0, turned, b, transA=options)
    assert all(torch.equal(p, q) for p, q in zip(plain, again, strict=True))
    assert trnblas.grouped_gemm(1.0, [], []) == []


@pytest.mark.parametrize("trans", [False, True, "C"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("size", [3, 8, 32, 33])
def test_grouped_products_of_equal_shapes_are_within_the_bound_of_gemm(size, dtype, trans):
    """33 x 33 matrices are multiplied one by one, smaller ones as batches of equal kinds."""
    a, b, c = (list(draw((6, size, size), dtype, seed)) for seed in (1, 2, 3))
    c[2] = c[2][0]  # accumulators broadcast
    betas = [1.0, 1.0, -2.0, 1.0, -2.0, 0.0]
    got = trnblas.grouped_gemm(0.5, a, b, betas, c, trans)
    for i, beta in enumerate(betas):
        left, right, added = array(a[i]), array(b[i]), array(c[i])
        left = {False: left, True: left.T, "C": left.conj().T}[trans]
        magnitude = 0.5 * np.abs(left) @ np.abs(right) + np.abs(beta * added)
        steps = (4 if dtype.is_complex else 1) * (size + 3)
        assert_agrees(got[i], 0.5 * left @ right + beta * added, dtype, steps, magnitude)


def test_grouped_products_have_gradients_of_products():
    a, b, c = (list(draw((3, 4, 4), torch.float64, seed).requires_grad_()) for seed in (1, 2, 3))
    leaves = [x.detach().requires_grad_() for x in (*a, *b, *c)]

    def total(*x):
        found = trnblas.grouped_gemm(0.5, x[:3], x[3:6], 2.0, x[6:])
        return torch.stack([found[0], found[1] ** 2, found[2] ** 3])

    assert torch.autograd.gradcheck(total, leaves)


def test_grouped_products_of_equal_shapes_are_products_and_their_arguments_are_checked():
    a, b, c = (draw((5, 4, 4), torch.float64, seed) for seed in (1, 2, 3))
    factors = [2.0, torch.tensor(2.0), 2.0, 1.0, 2.0]
    got = trnblas.grouped_gemm(factors, list(a), list(b), -1.0, list(c), transB=True)
    for i, factor in enumerate(factors):
        torch.testing.assert_close(got[i], factor * a[i] @ b[i].mT - c[i], rtol=1e-13, atol=1e-13)
    with pytest.raises(DTypeError, match=r"A\[1\] must be a torch.Tensor"):
        trnblas.grouped_gemm(1.0, [a[0], a[1].numpy()], [b[0], b[1]])
    with pytest.raises(DTypeError, match="alpha must be a number"):
        trnblas.grouped_gemm([1.0, np.ones(2)], [a[0], a[1]], [b[0], b[1]])
    with pytest.raises(DTypeError, match=r"A\[1\] and B\[1\] must have one dtype"):
        trnblas.grouped_gemm(1.0, [a[0], a[1]], [b[0], b[1].float()])


@pytest.mark.parametrize("uplo", UPLO)
def test_oracle_agrees_with_scipy(uplo):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s) for s in ((K, K), (K, N), (K, N)))
    right, x, y = rng.standard_normal((M, K)), rng.standard_normal(K), rng.standard_normal(K)
    lower = uplo == "lower"
    close = {"rtol": 0, "atol": 8 * K * 2.0**-53 * 30}  # |sums| stay below 30 here
    np.testing.assert_allclose(
        oracle.symv(2, a, x, 3, y, uplo), reference.dsymv(2, a, x, 3, y, lower=lower), **close
    )
    for side in SIDE:
        other, below = (b, c) if side == "left" else (right, right)
        s = int(side == "right")
        np.testing.assert_allclose(
            oracle.symm(2, a, other, 3, below, side, uplo),
            reference.dsymm(2, a, other, 3, below, side=s, lower=lower),
            **close,
        )
        for trans in TRANS:
            t = int(trans is not False)
            for diag in DIAG:
                unit = int(diag == "unit")
                np.testing.assert_allclose(
                    oracle.trmm(2, a, other, side, uplo, trans, diag),
                    reference.dtrmm(2, a, other, side=s, lower=lower, trans_a=t, diag=unit),
                    **close,
                )
                np.testing.assert_allclose(
                    oracle.trmv(a, x, uplo, trans, diag),
                    reference.dtrmv(a, x, lower=lower, trans=t, diag=unit),
                    **close,
                )
                dominant = a / 4 + 2 * np.eye(K)
                np.testing.assert_allclose(
                    oracle.trsm(2, dominant, other, side, uplo, trans, diag),
                    reference.dtrsm(2, dominant, other, side=s, lower=lower, trans_a=t, diag=unit),
                    **close,
                )
    np.testing.assert_allclose(
        oracle.triangle(oracle.syrk(2, b), uplo),
        oracle.triangle(reference.dsyrk(2, b, lower=lower), uplo),
        **close,
    )
    np.testing.assert_allclose(
        oracle.triangle(oracle.syr2k(2, b, c), uplo),
        oracle.triangle(reference.dsyr2k(2, b, c, lower=lower), uplo),
        **close,
    )
    z = b + 1j * c
    np.testing.assert_allclose(
        oracle.triangle(oracle.herk(2, z), uplo),
        oracle.triangle(reference.zherk(2, z, lower=lower), uplo),
        **close,
    )
    np.testing.assert_allclose(
        oracle.triangle(oracle.her2k(2 - 1j, z, z[::-1]), uplo),
        oracle.triangle(reference.zher2k(2 - 1j, z, z[::-1], lower=lower), uplo),
        **close,
    )
    h = a + 1j * a.T
    np.testing.assert_allclose(
        oracle.hemv(2, h, z[:, 0], uplo=uplo), reference.zhemv(2, h, z[:, 0], lower=lower), **close
    )
    np.testing.assert_allclose(
        oracle.hemm(2, h, z, uplo=uplo), reference.zhemm(2, h, z, lower=lower), **close
    )
    symmetric, hermitian = oracle.symmetric(a, uplo), oracle.hermitian(h, uplo)
    for ours, theirs in (
        (oracle.syr(2, x, a, uplo), reference.dsyr(2, x, a=symmetric, lower=lower)),
        (oracle.syr2(2, x, y, a, uplo), reference.dsyr2(2, x, y, a=symmetric, lower=lower)),
        (oracle.her(2, z[:, 0], h, uplo), reference.zher(2, z[:, 0], a=hermitian, lower=lower)),
        (
            oracle.her2(2 - 1j, z[:, 0], z[:, 1], h, uplo),
            reference.zher2(2 - 1j, z[:, 0], z[:, 1], a=hermitian, lower=lower),
        ),
    ):
        np.testing.assert_allclose(
            oracle.triangle(ours, uplo), oracle.triangle(theirs, uplo), **close
        )
    np.testing.assert_allclose(
        oracle.gerc(2, z[:, 0], z[:, 1]), reference.zgerc(2, z[:, 0], z[:, 1]), **close
    )
    np.testing.assert_allclose(
        oracle.dotc(z[:, 0], z[:, 1]), reference.zdotc(z[:, 0], z[:, 1]), **close
    )
    np.testing.assert_allclose(oracle.asum(z), reference.dzasum(z.ravel()), **close)


def test_results_of_a_batch_can_be_changed_in_place_with_gradients():
    groups = [random_tensor(3, 3, seed=i).requires_grad_() for i in range(4)]
    found = trnblas.grouped_gemm(1.0, groups, groups)
    expected = [2 * (x @ x) for x in groups]
    for result in found:
        result.mul_(2)
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want)
    sum(x.sum() for x in found).backward()
    assert all(x.grad.any() for x in groups)
