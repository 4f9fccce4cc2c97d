"""Results of einsum against the definition, and what it does with its other arguments."""

from __future__ import annotations

import string

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trntensor
from drawn import examples
from each_case import each_case
from oracles.einsum import contraction
from trnsci.core.testing import random_tensor, sum_bound
from trnsci.core.testing.exempt import EXEMPT

from .cases import COMMON, TRICKY, operands


def terms_of(subscripts: str) -> tuple[list[str], str]:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    every = "".join(inputs)
    return inputs, right if arrow else "".join(sorted(x for x in every if every.count(x) == 1))


@each_case("subscripts", TRICKY + COMMON)
def test_the_result_is_that_of_the_definition(subscripts):
    tensors = operands(subscripts)
    before = [x.clone() for x in tensors]
    got = trntensor.einsum(subscripts, *tensors)
    inputs, output = terms_of(subscripts)
    want = contraction(inputs, output, [x.numpy() for x in tensors])
    magnitudes = contraction(inputs, output, [x.abs().numpy() for x in tensors])
    assert got.shape == want.shape
    terms = int(np.prod([n for x in tensors for n in x.shape]))
    assert (np.abs(got.numpy() - want) <= sum_bound(magnitudes, terms, torch.float64)).all()
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))
    shared = {x.untyped_storage().data_ptr() for x in tensors}
    assert got.numel() == 0 or got.untyped_storage().data_ptr() not in shared


LABELS = "abcdeXYZ"


@st.composite
def problems(draw):
    """Draw subscripts with an output, and shapes with ones and zeros that fit."""
    sizes = {x: draw(st.integers(0, 3)) for x in LABELS}
    count = draw(st.integers(1, 6))
    inputs, shapes = [], []
    for _ in range(count):
        term = draw(st.lists(st.sampled_from(LABELS), min_size=0, max_size=3))
        single = draw(st.sets(st.sampled_from(LABELS)))
        inputs.append("".join(term))
        shapes.append([1 if x in single and term.count(x) == 1 else sizes[x] for x in term])
    known = sorted(set("".join(inputs)))
    output = draw(st.permutations(known))
    output = output[: draw(st.integers(0, len(known)))]
    return inputs, "".join(output), shapes


@given(problem=problems(), kind=st.sampled_from([torch.float64, torch.complex128, torch.int64]))
@examples(150)
def test_any_contraction_is_that_of_the_definition(problem, kind):
    inputs, output, shapes = problem
    rng = np.random.default_rng(len(output))
    arrays = [rng.integers(-3, 4, shape).astype(float) for shape in shapes]
    if kind is torch.complex128:
        arrays = [x + 1j * rng.integers(-3, 4, x.shape) for x in arrays]
    tensors = [torch.from_numpy(np.asarray(x)).to(kind) for x in arrays]
    got = trntensor.einsum(f"{','.join(inputs)}->{output}", *tensors)
    want = contraction(inputs, output, arrays)
    # Small integers: every sum and product is exact.
    assert got.dtype is kind
    assert got.shape == want.shape
    assert np.array_equal(got.numpy(), want)


@given(
    ranks=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    ones=st.integers(0, 63),
    ends=st.booleans(),
    kept=st.booleans(),
)
@examples(60)
def test_an_ellipsis_broadcasts_as_in_numpy(ranks, ones, ends, kept):
    full = (2, 3, 2)
    arrays, terms = [], []
    rng = np.random.default_rng(ones)
    for at, rank in enumerate(ranks):
        shape = [1 if ones >> (2 * at + d) & 1 else full[3 - rank + d] for d in range(rank)]
        letter = string.ascii_lowercase[at]
        own = [*shape, 2] if ends else [2, *shape]
        arrays.append(rng.integers(-3, 4, own).astype(float))
        terms.append(f"...{letter}" if ends else f"{letter}...")
    text = ",".join(terms)
    if kept:
        text += "->" + string.ascii_lowercase[: len(ranks)] + "..."
    got = trntensor.einsum(text, *map(torch.from_numpy, arrays))
    want = np.einsum(text, *arrays)
    assert got.shape == want.shape
    assert np.array_equal(got.numpy(), want)


def test_an_ellipsis_that_the_output_lacks_is_summed_as_in_torch():
    x, y = random_tensor(2, 3, 4, dtype=torch.float64), random_tensor(3, 4, dtype=torch.float64)
    got = trntensor.einsum("...i,...i->i", x, y)
    assert torch.allclose(got, (x * y).sum((0, 1)), rtol=1e-14)


def test_sublists_and_lists_of_operands():
    a, b = random_tensor(3, 4), random_tensor(4, 5)
    want = trntensor.einsum("ij,jk->ki", a, b)
    assert torch.equal(trntensor.einsum(a, [0, 7], b, [7, 30], [30, 0]), want)
    assert torch.equal(trntensor.einsum("ij,jk->ki", [a, b]), want)
    batch = random_tensor(2, 3, 4)
    assert torch.equal(trntensor.einsum(batch, [..., 1], [..., 1]), batch)
    assert torch.equal(trntensor.einsum(a, [1, 0]), a.T)  # without an output, in alphabetical order


def test_capitals_come_first_in_an_implicit_output():
    a = random_tensor(2, 3)
    assert torch.equal(trntensor.einsum("aB", a), a.T)


# -- other arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.5), (2.0, 0.0), (1.0, 1.0), (0.5, 2.0)])
def test_factors(alpha, beta):
    a, b, c = random_tensor(3, 4), random_tensor(4, 5), random_tensor(3, 5)
    before = c.clone()
    got = trntensor.einsum("ij,jk->ik", a, b, alpha=alpha, beta=beta, out=c)
    assert torch.allclose(got, alpha * (a @ b) + beta * c, atol=1e-5)
    assert torch.equal(c, before)
    assert got.untyped_storage().data_ptr() != c.untyped_storage().data_ptr()


def test_out_is_not_read_where_beta_is_zero():
    a = random_tensor(3, 3)
    got = trntensor.einsum("ij,jk->ik", a, a, beta=0.0, out=torch.full((3, 3), torch.nan))
    assert torch.equal(got, a @ a)


@pytest.mark.parametrize("beta", [5.0, 1, 2j, torch.tensor(0.0)])
def test_beta_needs_out(beta):
    a = random_tensor(3, 3)
    with pytest.raises(ValueError, match=r"^einsum: beta must be 0 where out is not given, got "):
        trntensor.einsum("ij,jk->ik", a, a, beta=beta)


def test_out_must_have_the_shape_of_the_result():
    a = random_tensor(3, 3)
    with pytest.raises(ValueError, match=r"out must have the result's shape \(3, 3\), got \(3,\)"):
        trntensor.einsum("ij,jk->ik", a, a, beta=1.0, out=a[0])


@each_case("name", ["bf16", "BFloat16", "fp16", torch.float64, "f64", None])
def test_dtype_casts_operands_and_result(name):
    a, b = random_tensor(8, 6), random_tensor(6, 10)
    got = trntensor.einsum("ij,jk->ik", a, b, dtype=name)
    wanted = {"bf16": torch.bfloat16, "BFloat16": torch.bfloat16, "fp16": torch.float16}
    expected = torch.float32 if name is None else wanted.get(name, torch.float64)
    assert got.dtype is expected
    assert torch.allclose(got.double(), (a @ b).double(), atol=0.1)


def test_narrow_integers_stay_what_they_are():
    x = torch.ones(3, 4, dtype=torch.int32)
    assert trntensor.einsum("ij->i", x).dtype is torch.int32
    assert trntensor.einsum("ij,kj->", x, x).dtype is torch.int32


def test_gradients_are_those_of_torch():
    tensors = [x.requires_grad_() for x in operands("ijk,il,jm,kn->lmn")]
    assert torch.autograd.gradcheck(
        lambda *x: trntensor.einsum("ijk,il,jm,kn->lmn", *x), tensors, fast_mode=True
    )
    x = random_tensor(3, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: trntensor.einsum("ii,ij->j", x, x), (x,))


def test_torch_func_and_compile():
    a, b = random_tensor(2, 3, 4), random_tensor(4, 5)
    got = torch.func.vmap(lambda x: trntensor.einsum("ij,jk->ki", x, b))(a)
    assert torch.allclose(got, (a @ b).mT, atol=1e-5)

    def function(x, y):
        return trntensor.einsum("...ij,jk->...ki", x, y, alpha=2.0)

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(a, b), 2 * (a @ b).mT, atol=1e-5)


# -- many at once ----------------------------------------------------------------------------------


def test_several_contractions_in_their_order():
    a, b, c = random_tensor(3, 4), random_tensor(4, 5), random_tensor(5, 2)
    got = trntensor.multi_einsum(("ij,jk->ik", a, b), ("ij,jk,kl->il", a, b, c), ("ij->", a))
    want = [a @ b, a @ b @ c, a.sum()]
    assert all(torch.allclose(x, y, atol=1e-4) for x, y in zip(got, want, strict=True))


def test_a_contraction_that_occurs_twice_is_computed_once():
    a, b = random_tensor(3, 4), random_tensor(4, 5)
    first, second, other = trntensor.multi_einsum(
        ("ij,jk->ik", a, b), ("ij,jk->ik", a, b), ("ij,jk->ik", a, b.clone())
    )
    assert first is second
    assert first is not other


def test_a_precision_and_a_target_exclude_each_other():
    a = random_tensor(3, 3)
    with pytest.raises(ValueError, match="exclude each other"):
        trntensor.multi_einsum(("ij,jk", a, a), precision="kahan", target_forward_error=0.1)
    with pytest.raises(ValueError, match="exclude each other"):
        trntensor.einsum("ij,jk", a, a, precision="kahan", target_forward_error=0.1)


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,j->i", "i,i->", "ij,jk,k->i", "ij,ij->ij"])
def test_autocast_gives_the_dtype_of_torch(subscripts):
    tensors = operands(subscripts, torch.float32)
    want = torch.einsum(subscripts, *tensors)
    with torch.autocast("cpu", torch.bfloat16):
        got = trntensor.einsum(subscripts, *tensors)
        assert got.dtype is torch.einsum(subscripts, *tensors).dtype
    assert torch.allclose(got.float(), want, atol=0.2)


def test_a_limit_is_not_promised_to_compiled_graphs():
    a = random_tensor(3, 3)

    def limited(x):
        return trntensor.einsum("ij,jk->ik", x, x, memory_limit=100)

    assert "trntensor.einsum: compile, memory_limit=" in EXEMPT
    with pytest.raises(Exception, match="einsum: memory_limit is not for compiled graphs"):
        torch.compile(limited, fullgraph=True, backend="eager")(a)


def test_options_while_torch_compiles():
    a, b = random_tensor(3, 4), random_tensor(4, 5, seed=1)

    def contraction(x, y, **options):
        return trntensor.einsum("ij,jk->ik", x, y, **options)

    compiled = torch.compile(contraction, fullgraph=True, backend="eager")
    got = compiled(a, b, dtype=torch.float64)
    assert torch.equal(got, torch.einsum("ij,jk->ik", a.double(), b.double()))
    # The bound of float32 sums is 4 * 2**-24; that of float64 sums, rounded once, is 2**-24.
    careful = compiled(a, b, target_forward_error=2.0**-23)
    assert torch.equal(careful, contraction(a, b, target_forward_error=2.0**-23))
    assert torch.equal(careful, contraction(a, b, precision="kahan"))
    with pytest.raises(Exception, match="precision must be one of"):
        compiled(a, b, precision="kahn")
    with pytest.raises(Exception, match="operands must have one dtype"):
        compiled(a, b.double())


def test_a_plan_in_the_cache_changes_no_check():
    a, b = random_tensor(3, 4), random_tensor(4, 5, seed=1)
    trntensor.einsum("ij,jk->ik", a, b)
    with pytest.raises(TypeError, match=r"operand 1 must be a torch.Tensor, got ndarray"):
        trntensor.einsum("ij,jk->ik", a, b.numpy())
    with pytest.raises(TypeError, match="operands must have one dtype"):
        trntensor.einsum("ij,jk->ik", a, b.double())
    with pytest.raises(RuntimeError, match="operands must have one device"):
        trntensor.einsum("ij,jk->ik", a, b.to("meta"))
