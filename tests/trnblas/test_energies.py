"""The energies on torch are what their definition gives in float64."""

import pytest
import torch
from torch.autograd import forward_ad

import trnblas
from each_case import each_case
from oracles import blas_energy
from trnblas import nki
from trnsci.core.counters import counts
from trnsci.core.testing import random_tensor

from .agreement import array


@each_case("sizes", [(2, 3, 4), (3, 1, 2), (1, 4, 1)], ids=str)
def test_energies_on_torch(sizes):
    nocc, nvir, naux = sizes
    b = random_tensor(nocc, nvir, naux, dtype=torch.float64)
    occupied = -random_tensor(nocc, dtype=torch.float64, seed=1).abs() - 0.5
    virtual = random_tensor(nvir, dtype=torch.float64, seed=2).abs() + 0.1
    flat = b.reshape(nocc * nvir, naux)
    want = blas_energy.of_all_pairs(array(b), array(occupied), array(virtual)).value
    together = nki.nki_batched_pair_energy(b, occupied, virtual)
    from_t = nki.nki_mp2_energy(flat @ flat.T, occupied, occupied, virtual)
    pairs = sum(
        nki.nki_fused_gemm_energy(b[i], b[j], float(occupied[i]), float(occupied[j]), virtual)
        for i in range(nocc)
        for j in range(nocc)
    )
    chunks = sum(
        nki.nki_mp2_energy(
            (flat @ flat.T)[i * nvir : (i + 1) * nvir], occupied[i : i + 1], occupied, virtual
        )
        for i in range(nocc)
    )
    # At most 36 terms of products of four sums of four, each below 100 in size.
    for got in (together, from_t, pairs, chunks):
        assert abs(float(got) - want) <= 200 * 2.0**-53 * max(100.0, abs(want))


def problem(dtype, nocc=2, nvir=5, naux=6):
    b = random_tensor(nocc, nvir, naux, dtype=dtype)
    occupied = -random_tensor(nocc, dtype=dtype, seed=1).abs() - 0.5
    virtual = random_tensor(nvir, dtype=dtype, seed=2).abs() + 0.1
    return b, occupied, virtual


def of_a_pair(b, occupied, virtual):
    """An energy of the tensors of a problem; energies of occupied orbitals are numbers there."""
    return nki.nki_fused_gemm_energy(b[0], b[1], -0.75, -1.5, virtual) + occupied.square().sum()


ENERGIES = pytest.mark.parametrize("energy", [nki.nki_batched_pair_energy, of_a_pair])


@ENERGIES
def test_derivatives_of_energies_go_through_kernels(energy):
    """Gradients of kernels against those of the definition, which torch differentiates."""
    exact = [x.requires_grad_() for x in problem(torch.float64)]
    want = torch.autograd.grad(energy(*exact), exact)
    single = [x.detach().float().requires_grad_() for x in exact]
    with trnblas.backend("simulator"):
        value = energy(*single)
        before = counts()
        got = torch.autograd.grad(value, single)
        spent = counts() - before
    # An orbital or a pair has one product for its integrals, and one for each gradient by B.
    expected = 4 if energy is nki.nki_batched_pair_energy else 3
    assert spent.launches == {"gemm": expected}
    for found, truth in zip(got, want, strict=True):
        # Sums of at most 50 terms, of products of sums of six, all rounded to float32.
        assert torch.allclose(
            found.double(), truth, rtol=0, atol=200 * 2.0**-24 * truth.abs().max()
        )


@ENERGIES
def test_tangents_and_second_derivatives_of_energies(energy):
    exact = [x.requires_grad_() for x in problem(torch.float64)]
    directions = [random_tensor(*x.shape, dtype=torch.float64, seed=9) for x in exact]
    first = torch.autograd.grad(energy(*exact), exact, create_graph=True)
    slope = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    want = torch.autograd.grad(slope, exact)
    single = [x.detach().float().requires_grad_() for x in exact]
    with trnblas.backend("simulator"):
        gradients = torch.autograd.grad(energy(*single), single, create_graph=True)
        along = sum((g * d.float()).sum() for g, d in zip(gradients, directions, strict=True))
        got = torch.autograd.grad(along, single)
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(x.detach(), d.float())
                for x, d in zip(single, directions, strict=True)
            ]
            tangent = forward_ad.unpack_dual(energy(*duals)).tangent
    scale = sum((g * d).abs().sum() for g, d in zip(first, directions, strict=True)).detach()
    assert abs(float(tangent) - float(slope.detach())) <= 200 * 2.0**-24 * float(scale)
    for found, truth in zip(got, want, strict=True):
        assert torch.allclose(found.double(), truth, rtol=0, atol=1e-4 * truth.abs().max())


# -- 16-bit operands -------------------------------------------------------------------------------

HALF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
KERNEL = {
    "nki_mp2_energy": "mp2_energy",
    "nki_fused_gemm_energy": "pair_energy",
    "nki_batched_pair_energy": "batched_pair_energy",
}


def arguments(function, b, occupied, virtual):
    """The arguments of an energy, from a problem."""
    if function == "nki_mp2_energy":
        flat = b.flatten(0, 1)
        return [(flat.float() @ flat.float().mT).to(b.dtype), occupied, occupied, virtual]
    if function == "nki_fused_gemm_energy":
        return [b[0], b[1], float(occupied[0]), float(occupied[1]), virtual]
    return [b, occupied, virtual]


def leaves(arguments, dtype=None):
    """Tensors of the arguments as leaves, in a dtype."""
    return [
        x.detach().to(dtype or x.dtype).requires_grad_() if isinstance(x, torch.Tensor) else x
        for x in arguments
    ]


@each_case("dtype", HALF)
@each_case("level", ["bfloat16", "float16x3", "float32", "doublefloat"])
@each_case("function", KERNEL)
def test_16_bit_operands_run_on_kernels_and_have_the_result_of_torch(function, dtype, level):
    """Products of 16-bit numbers are exact in float32, in which all sums are.

    Gradients are rounded once more, to the dtype of their operand.
    """
    call = getattr(nki, function)
    given = arguments(function, *problem(dtype))
    exact = leaves(given, torch.float64)
    value = call(*exact)
    tensors = [x for x in exact if isinstance(x, torch.Tensor)]
    want = torch.autograd.grad(value, tensors)
    for where in ("simulator", "pytorch"):
        single = leaves(given)
        before = counts()
        with trnblas.backend(where), trnblas.precision(level):
            got = call(*single)
        spent = counts() - before
        assert spent.launches == ({KERNEL[function]: 1} if where == "simulator" else {})
        assert not spent.refusals
        assert got.dtype is torch.float32
        # The terms are at most 4 times as large as those of the largest product.
        size = 4 * float(torch.stack([g.abs().max() for g in want]).max())
        assert abs(float(got.detach()) - float(value.detach())) <= 200 * 2.0**-24 * size
        with trnblas.backend(where):
            grads = torch.autograd.grad(got, [x for x in single if isinstance(x, torch.Tensor)])
        for found, truth in zip(grads, want, strict=True):
            assert found.dtype is dtype
            bound = (HALF[dtype] + 200 * 2.0**-24) * float(truth.abs().max())
            assert float((found - truth).abs().max()) <= bound


@each_case("where", ["simulator", "pytorch"])
def test_float16_integrals_beyond_its_range_have_a_finite_energy_and_infinite_gradients(where):
    b = torch.full((2, 3, 4), 200.0, dtype=torch.float16).requires_grad_()
    energies = -torch.ones(2, dtype=torch.float16), torch.ones(3, dtype=torch.float16)
    with trnblas.backend(where):
        energy = nki.nki_batched_pair_energy(b, *energies)
        gradient = torch.autograd.grad(energy, b)[0]
    # T is 4 * 200^2 everywhere and D is -4: 2 * 2 * 3 * 3 terms T^2 / D.
    assert float(energy.detach()) == pytest.approx(-36 * 160_000.0**2 / 4, rel=36 * 2.0**-24)
    assert (gradient == -torch.inf).all()
