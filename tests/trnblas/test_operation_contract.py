"""The contract of operations, for every operation of trnblas."""

from __future__ import annotations

import torch

import trnblas
from trnblas import nki as low_level
from trnblas._library import LIBRARY
from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import ComplexContract, DerivativeContract, Sample

A, B, C = random_tensor(3, 4), random_tensor(4, 2, seed=1), random_tensor(3, 2, seed=2)
MANY_A, MANY_B = random_tensor(2, 3, 4), random_tensor(2, 4, 2, seed=1)
SQUARE = random_tensor(3, 3, seed=3)
WELL = torch.eye(3) * 3 + 0.25 * SQUARE  # its triangles are far from singular
ENERGIES = -3 + 0.25 * random_tensor(2, seed=4), 2 + 0.25 * random_tensor(3, seed=5)


def at(level, function, *args, **options):
    return lambda *tensors: function(*args, *tensors, precision=level, **options)


# Roundings of bfloat16 in those of float32, for each of up to two operands.
BFLOAT16 = 64.0 * 2.0**17
# One or two calls for each operation: with C and a batch that shares an operand, and with a
# triangle. Other functions are torch's operations around these; test_levels has their gradients.
LEVELS = (
    Sample(
        "bfloat16_gemm",
        lambda a, b, c: trnblas.gemm(1.5, a, b, 0.5, c, precision="bfloat16"),
        (A, B, C),
        growth=BFLOAT16,
    ),
    Sample("float16x3_gemm", at("float16x3", trnblas.gemmt, 2.0, uplo="lower"), (SQUARE, WELL)),
    Sample(
        "doublefloat_gemm",
        lambda a, b, c: trnblas.gemm(1.5, a, b, 0.5, c, precision="doublefloat"),
        (MANY_A, B, C),
        takes_float64=True,
    ),
    Sample(
        "doublefloat_gemm",
        at("doublefloat", trnblas.syrk, 1.5),
        (MANY_A[:, :2],),
        takes_float64=True,
    ),
    Sample(
        "doublefloat_trsm",
        at("doublefloat", trnblas.trsm, 1.5),
        (WELL[:2, :2], C[:2]),
        takes_float64=True,
    ),
    Sample(
        "doublefloat_trsm",
        at("doublefloat", trnblas.batched_trsm, 1.5, side="right", uplo="lower", diag="unit"),
        (WELL[:2, :2], random_tensor(2, 2, 2, seed=6)),
        takes_float64=True,
    ),
)


class TestOperations(DerivativeContract):
    library = LIBRARY
    samples = (
        Sample("gemm", lambda a, b, c: trnblas.gemm(1.5, a, b, 0.5, c), (A, B, C)),
        Sample("batched_gemm", lambda a, b: trnblas.gemm(1.5, a, b), (MANY_A, MANY_B)),
        Sample(
            "doublefloat_axpy",
            lambda x, y: trnblas.axpy(0.5, x, y, precision="doublefloat"),
            (A, A + 1),
            backward_launches=False,
            takes_float64=True,
        ),
        Sample(
            "doublefloat_dot",
            lambda x, y: trnblas.dot(x, y, precision="doublefloat"),
            (A[0], A[1]),
            backward_launches=False,
            takes_float64=True,
        ),
        Sample(
            "doublefloat_nrm2",
            lambda x: trnblas.nrm2(x, precision="doublefloat"),
            (A,),
            backward_launches=False,
            takes_float64=True,
        ),
        Sample(
            "doublefloat_mp2_energy",
            lambda t, i, a: low_level.nki_mp2_energy(t, i, i, a, precision="doublefloat"),
            (random_tensor(6, 6), *ENERGIES),
            backward_launches=False,
            takes_float64=True,
        ),
        Sample("gemmt", lambda a: trnblas.gemmt(2.0, a, a, transB=True), (A,)),
        Sample("symm", lambda a, b, c: trnblas.symm(1.5, a, b, 0.5, c), (SQUARE, C, C + 1)),
        Sample("syrk", lambda a: trnblas.syrk(1.5, a), (A,)),
        Sample("syr2k", lambda a, b: trnblas.syr2k(1.5, a, b), (A, A + 1)),
        Sample("trsm", lambda a, b: trnblas.trsm(1.5, a, b), (WELL, C)),
        Sample(
            "batched_trsm",
            lambda a, b: trnblas.trsm(1.5, a, b, uplo="lower", trans=True),
            (torch.stack([WELL, 2 * WELL]), torch.stack([C, C])),
        ),
        Sample("trmm", lambda a, b: trnblas.trmm(1.5, a, b), (SQUARE, C)),
        Sample(
            "mp2_energy",
            low_level.nki_mp2_energy,
            (random_tensor(6, 6), ENERGIES[0], ENERGIES[0], ENERGIES[1]),
            backward_launches=False,
        ),
        Sample(
            "pair_energy",
            lambda i, j, e: low_level.nki_fused_gemm_energy(i, j, -3.0, -2.5, e),
            (random_tensor(3, 4), random_tensor(3, 4, seed=1), ENERGIES[1]),
        ),
        Sample(
            "batched_pair_energy",
            low_level.nki_batched_pair_energy,
            (random_tensor(2, 3, 4), *ENERGIES),
        ),
        *LEVELS,
    )


def numbers(*shape, seed=0):
    return random_tensor(*shape, 2, seed=seed)


def of_complex(function, *args, **options):
    """Return the call of complex operands, for their parts."""
    return lambda *tensors: function(*args, *map(torch.view_as_complex, tensors), **options)


def adjoint_gemm(a, b, c, **options):
    return trnblas.gemm(1.5 - 0.5j, a, b, 0.5, c, "C", **options)


Z = numbers(4, 3), numbers(4, 2, seed=1), numbers(3, 2, seed=2)
TRIANGLE = 0.25 * numbers(3, 3, seed=3) + torch.view_as_real((3 - 2j) * torch.eye(3))
VECTOR = numbers(5, seed=4), numbers(5, seed=5)


HOST = {"backward_launches": False}


class TestComplexOperations(ComplexContract):
    library = LIBRARY
    samples = (
        Sample("gemm", of_complex(adjoint_gemm), Z),
        Sample("gemm", of_complex(trnblas.herk, 1.5), Z[:1]),
        Sample("gemm", of_complex(trnblas.hemm, 1.5), (TRIANGLE, Z[2])),
        Sample("gemm", of_complex(trnblas.trmm, 1.5j, uplo="lower", trans="C"), (TRIANGLE, Z[2])),
        Sample(
            "batched_gemm",
            of_complex(trnblas.gemm, 1.5j),
            (numbers(2, 3, 4), numbers(2, 4, 2, seed=1)),
        ),
        Sample("trsm", of_complex(trnblas.trsm, 1.5j, trans="C"), (TRIANGLE, Z[2])),
        Sample("trsm", of_complex(trnblas.trsm, 1.5, diag="unit", uplo="L"), (TRIANGLE, Z[2])),
        Sample(
            "batched_trsm",
            of_complex(trnblas.trsm, 1.5, side="right"),
            (torch.stack([TRIANGLE, 2 * TRIANGLE]), numbers(2, 2, 3, seed=6)),
        ),
        Sample(
            "bfloat16_gemm",
            of_complex(adjoint_gemm, precision="bfloat16"),
            Z,
            growth=BFLOAT16,
        ),
        Sample(
            "float16x3_gemm",
            of_complex(trnblas.gemmt, 2.0, precision="float16x3"),
            (TRIANGLE, TRIANGLE + 1),
        ),
        *(
            Sample(
                operation,
                of_complex(f, *args, precision="doublefloat"),
                tensors,
                takes_float64=True,
                **options,
            )
            for operation, f, args, tensors, options in (
                ("doublefloat_gemm", adjoint_gemm, (), Z, {}),
                ("doublefloat_trsm", trnblas.trsm, (1.5,), (TRIANGLE[:2, :2], Z[2][:2]), {}),
                ("doublefloat_axpy", trnblas.axpy, (1 - 0.5j,), VECTOR, HOST),
                ("doublefloat_dot", trnblas.dotc, (), VECTOR, HOST),
            )
        ),
    )
