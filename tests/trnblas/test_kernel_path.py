"""The public functions on the simulator: the kernel runs, once, and gives what torch gives."""

import numpy as np
import pytest
import torch

import trnblas
import trnblas.nki
from each_case import each_case
from oracles import blas as oracle
from oracles import blas_energy
from pairwise import in_turn
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, refusals_expected, strict_simulation

from .agreement import ROUNDOFF, array, assert_agrees, draw
from .cases import CASES, unchanged

KERNELS = (
    "gemm",
    "batched_gemm",
    "gemmt",
    "symm",
    "syrk",
    "syr2k",
    "trsm",
    "batched_trsm",
    "trmm",
)


# Routines that are another one's kernel with operands of a special form.
COMPOSED = {
    "grouped_gemm": "gemm",
    "hemm": "symm",
    "her": "syrk",
    "her2": "syr2k",
    "her2k": "syr2k",
    "herk": "syrk",
    "syr": "syrk",
    "syr2": "syr2k",
    "trsv": "trsm",
}


@pytest.fixture(autouse=True)
def on_simulator():
    """A kernel that fails raises; nothing is computed by torch in its place."""
    with requiring("trnblas"), trnblas.backend("simulator"):
        yield


def kernel_of(case):
    """The kernel that a case must reach, or None where torch computes it."""
    name = case.name.partition("-")[0]
    name = COMPOSED.get(name, name)
    if name not in KERNELS or "-0" in case.name:
        return None
    batched = case.name.endswith("batch") or any(len(shape) > 2 for shape in case.shapes)
    if not batched:
        return name
    return {"gemm": "batched_gemm", "batched_gemm": "batched_gemm"}.get(
        name, "batched_trsm" if name in ("trsm", "batched_trsm") else None
    )


REACHED = [case for case in CASES if kernel_of(case)]
# The adjoint of real numbers is the transpose: some cases of it show that it is taken.
ADJOINTS = [case for case in REACHED if "-C" in case.name]
REAL = [case for case in REACHED if case not in ADJOINTS]


def test_every_kernel_is_reached_by_some_case():
    assert {kernel_of(case) for case in REACHED} == set(KERNELS)


# Options and dtypes together are tests of the kernels.
@each_case(
    ("case", "dtype"),
    [
        *((case, torch.float32) for case in REAL + ADJOINTS[::4]),
        *((case, torch.bfloat16) for case in REAL[::4]),
        *((case, torch.float16) for case in REAL[1::4]),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_one_launch_gives_what_the_definition_gives(case, dtype):
    tensors = case.operands(dtype)
    before = counts()
    got = case.call(trnblas, unchanged, *tensors)
    since = counts() - before
    assert dict(since.launches) == {kernel_of(case): 1}
    assert not since.fallbacks
    arrays = [array(t) for t in tensors]
    want = case.call(oracle, unchanged, *arrays)
    assert_agrees(got, want, dtype, case.steps, case.magnitude(arrays))


# Aligned, ragged and prime sizes; (m, k, n).
PRODUCTS = [
    (128, 128, 128),
    (256, 128, 512),
    (200, 137, 400),
    (137, 128, 256),
    (300, 250, 175),
    (127, 129, 513),
    (1, 1, 1),
]


@each_case(("size", "generation"), in_turn(PRODUCTS, ["gen2", "gen3", "gen4"]), ids=str)
def test_products_are_clean_on_every_generation(size, generation):
    m, k, n = size
    a, b, c = random_tensor(m, k), random_tensor(k, n, seed=1), random_tensor(m, n, seed=2)
    with strict_simulation(generation), launched("gemm"):
        got = trnblas.gemm(2.0, a, b, 0.5, c)
    want = 2.0 * (array(a) @ array(b)) + 0.5 * array(c)
    magnitude = 2.0 * (np.abs(array(a)) @ np.abs(array(b))) + 0.5 * np.abs(array(c))
    assert_agrees(got, want, torch.float32, k + 4, magnitude)


@each_case("generation", ["gen2", "gen3", "gen4"])
def test_the_other_operations_are_clean_on_every_generation(generation):
    n, m = 130, 37
    square = random_tensor(n, n) + 2 * n * torch.eye(n)
    sides = random_tensor(n, m, seed=1)
    batch = random_tensor(3, n, m, seed=2)
    with strict_simulation(generation), launched(*KERNELS[1:]):
        trnblas.batched_gemm(1.0, square, batch)
        trnblas.gemmt(1.0, sides, sides, transB=True)
        trnblas.symm(1.0, square, sides)
        trnblas.syrk(1.0, sides, 0.5, square)
        trnblas.syr2k(1.0, sides, sides)
        trnblas.trsm(1.0, square, sides)
        trnblas.batched_trsm(1.0, square, batch, uplo="lower")
        trnblas.trmm(1.0, square, sides, diag="unit")


# The gradients of single matrices with all options, by kernels too, are in test_derivatives.py;
# Hermitian routines of real numbers are those of symmetric matrices.
ELSEWHERE = ("gemm", "gemmt", "symm", "syrk", "syr2k", "trmm", "trsm", "hemm", "herk", "her2k")
OTHERS = [case for case in REAL if case.name.partition("-")[0] not in ELSEWHERE]


@each_case("case", OTHERS, ids=lambda case: case.name)
def test_gradients_are_those_of_torch(case):
    assert_gradients(case)


@pytest.mark.slow
@each_case("case", [c for c in REACHED if c not in OTHERS], ids=lambda case: case.name)
def test_gradients_with_all_options_are_those_of_torch(case):
    assert_gradients(case)


def assert_gradients(case):
    tensors = case.operands(torch.float32)
    weights = None
    found = []
    for backend in ("simulator", "pytorch"):
        leaves = [t.clone().requires_grad_() for t in tensors]
        with trnblas.backend(backend):
            result = case.call(trnblas, unchanged, *leaves)
            weights = draw(result.shape, torch.float32, 9) if weights is None else weights
            (result * weights).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    for ours, torchs in zip(*found, strict=True):
        # Both are sums of products of the same few numbers, none of them larger than 8.
        scale = max(1.0, float(torchs.abs().max()))
        assert float((ours - torchs).abs().max()) <= 64 * case.steps * 2.0**-24 * scale


def test_the_gradient_of_a_product_runs_on_the_kernel():
    a, b = random_tensor(20, 30).requires_grad_(), random_tensor(30, 10, seed=1)
    before = counts()
    trnblas.gemm(1.0, a, b).sum().backward()
    assert (counts() - before).launches["gemm"] == 2


def test_a_shared_operand_gets_the_sum_of_its_gradients():
    a, b = random_tensor(4, 6).requires_grad_(), random_tensor(3, 6, 5, seed=1)
    trnblas.batched_gemm(1.0, a, b).sum().backward()
    # Each of the 15 columns adds one term.
    want = array(b).sum(axis=(0, 2))
    bound = 32 * 2.0**-24 * np.abs(array(b)).sum(axis=(0, 2))
    assert (np.abs(array(a.grad) - want) <= bound).all()


def test_factors_that_are_tensors_stay_outside_of_the_kernel():
    a, b, c = random_tensor(5, 6), random_tensor(6, 4, seed=1), random_tensor(5, 4, seed=2)
    alpha = torch.tensor(2.0, requires_grad=True)
    with launched("gemm"):
        result = trnblas.gemm(alpha, a, b, torch.tensor(0.5), c)
    result.sum().backward()
    want = float((array(a) @ array(b)).sum())
    assert abs(float(alpha.grad) - want) <= 64 * 2.0**-24 * float(
        (np.abs(array(a)) @ np.abs(array(b))).sum()
    )


@refusals_expected()
def test_what_no_kernel_takes_is_left_to_torch_counted_and_explained():
    double = torch.ones(4, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"gemm: .* torch.float64, and TRNBLAS_REQUIRE_NKI"):
        trnblas.gemm(1.0, double, double)
    with pytest.raises(RuntimeError, match=r"symm: .* not batches, and TRNBLAS_REQUIRE_NKI"):
        trnblas.symm(1.0, torch.ones(2, 4, 4), torch.ones(4, 4))
    assert trnblas.gemm(1.0, torch.ones(0, 4), torch.ones(4, 4)).shape == (0, 4)
    with requiring("trnblas", level=""):
        before = counts()
        assert trnblas.gemm(1.0, double, double).dtype is torch.float64
        assert trnblas.symm(1.0, torch.ones(2, 4, 4), torch.ones(4, 4)).shape == (2, 4, 4)
        since = counts() - before
        assert not since.launches
        assert since.refusals == {
            ("trnblas.gemm", "the kernel does not take torch.float64"): 1,
            ("trnblas.symm", "the kernel takes single matrices, not batches"): 1,
        }
        assert "does not take torch.float64" in str(explain(trnblas.gemm, 1.0, double, double))
        batch = explain(trnblas.symm, 1.0, torch.ones(2, 4, 4), torch.ones(4, 4))
        assert "single matrices" in str(batch)
        assert explain(trnblas.gemm, 1.0, torch.ones(4, 4), torch.ones(4, 4)).path == "simulator"
        assert (
            explain(trnblas.dot, torch.ones(4), torch.ones(4)).steps[0].reason
            == "the function has no kernel"
        )


def test_composed_routines_say_which_kernel_they_reach():
    x, a = torch.ones(4), torch.ones(4, 4)
    for call, kernel in (
        ((trnblas.trsv, a, x), "trnblas.trsm"),
        ((trnblas.syr, 1.0, x), "trnblas.syrk"),
        ((trnblas.syr2, 1.0, x, x), "trnblas.syr2k"),
        ((trnblas.her2k, 1.0, a, a), "trnblas.syr2k"),
        ((trnblas.hemm, 1.0, a, a), "trnblas.symm"),
        ((trnblas.grouped_gemm, 1.0, [a, a], [a, a]), "trnblas.batched_gemm"),
    ):
        found = explain(*call)
        assert found.path == "simulator"
        assert kernel in str(found)
    assert "trnblas.gemm" in str(explain(trnblas.hemm, 1.0, a + 0j, a + 0j))
    assert explain(trnblas.geam, 1.0, a, 1.0, a).steps[0].reason == "the function has no kernel"


def test_grouped_products_of_one_shape_are_one_launch():
    shapes = [(5, 6, 4), (3, 2, 7), (5, 6, 4), (5, 6, 4)]
    a = [random_tensor(m, k, seed=i) for i, (m, k, _) in enumerate(shapes)]
    b = [random_tensor(k, n, seed=i) for i, (_, k, n) in enumerate(shapes)]
    c = [random_tensor(m, n, seed=i) for i, (m, _, n) in enumerate(shapes)]
    before = counts()
    got = trnblas.grouped_gemm([2.0, 2.0, 2.0, 3.0], a, b, 0.5, c)
    assert dict((counts() - before).launches) == {"batched_gemm": 1, "gemm": 2}
    for i, (m, k, n) in enumerate(shapes):
        alpha = 3.0 if i == 3 else 2.0
        want = alpha * (array(a[i]) @ array(b[i])) + 0.5 * array(c[i])
        assert got[i].shape == (m, n)
        size = alpha * (np.abs(array(a[i])) @ np.abs(array(b[i]))) + 0.5 * np.abs(array(c[i]))
        assert_agrees(got[i], want, torch.float32, k + 4, size)


def test_grouped_products_with_factors_that_are_tensors():
    a, b = [random_tensor(3, 4, seed=i) for i in (0, 1)], [random_tensor(4, 2, seed=2)] * 2
    alpha = torch.tensor(2.0, requires_grad=True)
    got = trnblas.grouped_gemm([alpha, 3 * alpha], a, b)
    sum(x.sum() for x in got).backward()
    terms = [array(x) @ array(y) for x, y in zip(a, b, strict=True)]
    for found, want, factor in zip(got, terms, (2, 6), strict=True):
        assert_agrees(found, factor * want, torch.float32, 8, 6 * np.abs(want).max() + 6)
    want = (terms[0] + 3 * terms[1]).sum()
    assert abs(float(alpha.grad) - want) <= 64 * 2.0**-24 * sum(np.abs(t).sum() for t in terms) * 3


@each_case(
    ("case", "dtype"),
    in_turn(REACHED, [torch.complex64, torch.complex128]),
    ids=lambda value: getattr(value, "name", str(value)),
)
@refusals_expected()
def test_complex_operands_are_one_launch_or_refused_with_gradients_of_torch(case, dtype):
    """Each option means the same where kernels are wanted, and gradients are those of torch."""
    tensors = case.operands(dtype)
    before = counts()
    with requiring("trnblas", level=""):
        got = case.call(trnblas, unchanged, *tensors)
    since = counts() - before
    narrow = dtype is torch.complex64
    assert list(since.launches.values()) == ([1] if narrow else [])
    assert list(since.refusals.values()) == ([] if narrow else [1])
    arrays = [array(t) for t in tensors]
    want = case.call(oracle, unchanged, *arrays)
    assert_agrees(got, want, dtype, case.steps, case.magnitude(arrays))
    weights = draw(got.shape, dtype, 9)
    found = []
    for backend in ("simulator", "pytorch"):
        leaves = [t.clone().requires_grad_() for t in tensors]
        with requiring("trnblas", level=""), trnblas.backend(backend):
            case.call(trnblas, unchanged, *leaves).backward(weights)
        found.append([leaf.grad for leaf in leaves])
    for ours, torchs in zip(*found, strict=True):
        scale = max(1.0, float(torchs.abs().max()))
        assert float((ours - torchs).abs().max()) <= 64 * case.steps * ROUNDOFF[dtype] * scale


def test_factors_of_gemmt_that_are_tensors_leave_the_other_triangle_of_c():
    alpha, beta = (torch.tensor(value, requires_grad=True) for value in (2.0, -0.5))
    a, c = random_tensor(3, 3), random_tensor(3, 3, seed=1)
    for upper in (True, False):
        with launched("gemmt"):
            got = trnblas.gemmt(alpha, a, a, beta, c, uplo="upper" if upper else "lower")
        part, rest = (np.triu, np.tril) if upper else (np.tril, np.triu)
        want = part(2 * array(a) @ array(a) - 0.5 * array(c)) + rest(array(c), -1 if upper else 1)
        magnitude = 2 * np.abs(array(a)) @ np.abs(array(a)) + np.abs(array(c))
        assert_agrees(got.detach(), want, torch.float32, 3 + 4, magnitude)
        found = torch.autograd.grad(got.sum(), (alpha, beta))
        for value, terms in zip(found, (array(a) @ array(a), array(c)), strict=True):
            assert float(value) == pytest.approx(part(terms).sum(), rel=1e-5)


def test_strided_operands_reach_the_kernel_as_they_are_meant():
    a, b = random_tensor(30, 40)[::2, ::2], random_tensor(9, 20, seed=1).T
    with launched("gemm"):
        got = trnblas.gemm(1.0, a, b)
    magnitude = np.abs(array(a)) @ np.abs(array(b))
    assert_agrees(got, array(a) @ array(b), torch.float32, 20 + 4, magnitude)


def test_batches_of_empty_matrices_are_torchs():
    got = trnblas.gemm(2.0, torch.ones(2, 1, 3, 0), torch.ones(4, 0, 5), 3.0, torch.ones(5))
    assert torch.equal(got, torch.full((2, 4, 3, 5), 3.0))
    assert trnblas.batched_gemm(1.0, torch.ones(2, 0, 3), torch.ones(3, 4)).shape == (2, 0, 4)
    assert trnblas.trsm(1.0, torch.ones(2, 1, 0, 0), torch.ones(4, 0, 3)).shape == (2, 4, 0, 3)
    assert trnblas.batched_trsm(1.0, torch.ones(2, 3, 3), torch.ones(3, 0)).shape == (2, 3, 0)


class TestNkiFunctions:
    """``trnblas.nki``: the operations under names of their own."""

    def test_products(self):
        a, b = random_tensor(20, 30), random_tensor(30, 10, seed=1)
        batch = random_tensor(3, 20, 30, seed=2), random_tensor(3, 30, 10, seed=3)
        with launched("gemm", "batched_gemm", "syrk", "trsm"):
            assert torch.equal(trnblas.nki.nki_gemm(a, b), trnblas.gemm(1.0, a, b))
            assert trnblas.nki.nki_batched_gemm(*batch).shape == (3, 20, 10)
            gram = trnblas.nki.nki_syrk(a)
            assert torch.equal(gram, gram.T)
            system = random_tensor(20, 20) + 40 * torch.eye(20)
            solved = trnblas.nki.nki_trsm(system, a, uplo="lower", alpha=2.0)
            assert torch.equal(solved, trnblas.trsm(2.0, system, a, uplo="lower"))

    @each_case("sizes", [(4, 8, 16), (3, 129, 20), (2, 1, 1)], ids=str)
    def test_energies(self, sizes):
        nocc, nvir, naux = sizes
        b = 0.1 * random_tensor(nocc, nvir, naux)
        occupied = -random_tensor(nocc, seed=1).abs() - 0.5
        virtual = random_tensor(nvir, seed=2).abs() + 0.1
        flat = b.reshape(nocc * nvir, naux)
        with launched("batched_pair_energy", "mp2_energy", "pair_energy"):
            together = trnblas.nki.nki_batched_pair_energy(b, occupied, virtual)
            from_t = trnblas.nki.nki_mp2_energy(flat @ flat.T, occupied, occupied, virtual)
            pairs = sum(
                float(trnblas.nki.nki_fused_gemm_energy(b[i], b[j], float(e), float(f), virtual))
                for i, e in enumerate(occupied)
                for j, f in enumerate(occupied)
            )
        assert together.shape == from_t.shape == ()
        want = blas_energy.of_all_pairs(array(b), array(occupied), array(virtual))
        bound = want.tolerance(nocc * nocc * nvir * nvir, naux)
        for got in (together, from_t, pairs):
            assert abs(float(got) - want.value) <= bound

    def test_energies_have_the_gradients_of_torch(self):
        b = (0.1 * random_tensor(3, 8, 16)).requires_grad_()
        occupied, virtual = torch.tensor([-0.9, -0.7, -0.5]), torch.linspace(0.1, 1.0, 8)
        trnblas.nki.nki_batched_pair_energy(b, occupied, virtual).backward()
        ours = b.grad.clone()
        b.grad = None
        with trnblas.backend("pytorch"):
            trnblas.nki.nki_batched_pair_energy(b, occupied, virtual).backward()
        # Two sums of 24 and 16 terms of either sign on the way, by kernels or by torch.
        limit = 8 * (24 + 16) * 2.0**-24 * float(b.grad.abs().max())
        assert (ours - b.grad).abs().max() <= limit

    @each_case(
        ("call", "message"),
        [
            (lambda n: n.nki_gemm(torch.ones(2, 3, 4), torch.ones(4, 5)), "A must have 2 dim"),
            (lambda n: n.nki_batched_gemm(torch.ones(3, 4), torch.ones(4, 5)), "A must have 3"),
            (lambda n: n.nki_syrk(torch.ones(3)), "A must have 2 dimensions"),
            (
                lambda n: n.nki_mp2_energy(
                    torch.ones(4, 4), torch.ones(2), torch.ones(2), torch.ones(3)
                ),
                r"T_flat must be .* = \(6, 6\)",
            ),
            (
                lambda n: n.nki_fused_gemm_energy(
                    torch.ones(4, 5), torch.ones(3, 5), -1.0, -1.0, torch.ones(4)
                ),
                "b_i and b_j must be",
            ),
            (
                lambda n: n.nki_batched_pair_energy(
                    torch.ones(2, 3, 4), torch.ones(3), torch.ones(3)
                ),
                "B must be",
            ),
        ],
    )
    def test_wrong_shapes_are_named(self, call, message):
        with pytest.raises(ValueError, match=message):
            call(trnblas.nki)
