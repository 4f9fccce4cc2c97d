"""The contract of operations, for every operation of trnsparse that has a kernel."""

from __future__ import annotations

from typing import Any

import torch

import trnsparse
from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import (
    ComplexContract,
    DerivativeContract,
    OperationContract,
    Sample,
)
from trnsparse._attention import operations as attention_operations
from trnsparse._attention.dispatch import _tables
from trnsparse._library import LIBRARY
from trnsparse._paths.blocks import BSR_SDDMM, TILED_SPMM
from trnsparse._resident_cg import BSR_CG
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import AttentionMask

SEEN = torch.tensor([[1, 0, 0, 1, 0], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
MASK = AttentionMask.from_dense(SEEN, 2)
Q, K, V = (
    0.5 * random_tensor(2, 3, 2),
    0.5 * random_tensor(1, 5, 2, seed=1),
    random_tensor(1, 5, 3, seed=2),
)
BIAS = random_tensor(3, 5, seed=3)

VALUES, B = random_tensor(4, seed=5), random_tensor(5, 2, seed=6)
BLOCKS = random_tensor(3, 3, 3, seed=7)


def sparse(values: Any) -> Any:
    """Return a matrix of three rows, of which one is empty."""
    pointers, columns = torch.tensor([0, 2, 2, 4]), torch.tensor([0, 3, 1, 4])
    return trnsparse.CSRMatrix(values, columns, pointers, (3, 5), validate=False)


def at_level(name: str, *more: Any) -> Any:
    """Return the operation itself: a block with a level must not be inside of a graph.

    ``more`` follows the operands. Of two rows the first has an entry, or a block, in column 1.
    """
    operation = LIBRARY.operations[f"doublefloat_{name}"]

    def call(left: Any, right: Any) -> Any:
        pattern = torch.tensor([0, 1, 1]), torch.tensor([1])
        with torch.autocast("cpu", enabled=False):  # as a level does
            if "sddmm" in name:
                return operation(*pattern, left, right, *more)
            return operation(left, *pattern, right, *more)

    return call


def in_blocks(blocks: Any) -> Any:
    """Return a matrix whose last blocks are cut."""
    pointers, columns = torch.tensor([0, 2, 2, 3]), torch.tensor([0, 1, 1])
    return trnsparse.BSRMatrix(blocks, columns, pointers, (8, 5), 3, validate=False)


def sampled(c: Any, d: Any) -> Any:
    """Return the elements of a product at the entries of a matrix."""
    return trnsparse.sddmm(sparse(torch.ones(4)), c, d).values


def sampled_in_blocks(c: Any, d: Any) -> Any:
    """Return blocks of a product."""
    pointers, columns = torch.tensor([0, 2, 2, 3]), torch.tensor([0, 1, 1])
    return BSR_SDDMM(pointers, columns, c, d, 3)


def screened(a: Any, b: Any) -> Any:
    """Return a product in which some elements do not count."""
    diagonal = torch.tensor([4.0, 0.01, 1.0, 0.25, 9.0]).to(a)
    return trnsparse.screened_spmm(a, diagonal, b, 0.5)


def tiled(tiles: Any, b: Any) -> Any:
    """Return rows of the product of two rows of tiles, each with one.

    Derivatives with respect to whole tiles would take a minute: ``tiles`` is their beginning.
    """
    whole = torch.nn.functional.pad(tiles, (0, 125, 0, 0, 0, 124))
    pointers, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 0])
    return TILED_SPMM(whole, pointers, columns, b, 200)[126:131]


def gradient(grad: Any, q: Any, k: Any, v: Any) -> Any:
    """Call the gradient's operation with what attention would give it."""
    tables, pattern = _tables(MASK, q), MASK.encoded(1, 2)
    out, logs = attention_operations.ATTENTION(q, k, v, None, tables, pattern, 0.75)
    zeros = torch.zeros_like(logs)
    logs = torch.where(logs == -torch.inf, 0.0, logs)
    return attention_operations.ATTENTION_BACKWARD(
        grad, zeros, q, k, v, out, logs, None, tables, pattern, 0.75
    )[:3]


def solved(blocks: Any, b: Any) -> Any:
    """Return the solution of a system whose matrix is symmetric and far from singular."""
    pointers, columns = torch.tensor([0, 2, 4]), torch.tensor([0, 1, 0, 1])
    diagonal = blocks + blocks.mT + 6 * torch.eye(3).to(blocks)
    both = torch.stack([diagonal[0], blocks[2], blocks[2].mT, diagonal[1]])
    return BSR_CG(both, pointers, columns, b, torch.zeros_like(b), 1e-7, 8)[0]


def numbers(*shape: int, seed: int = 0) -> Any:
    return random_tensor(*shape, 2, seed=seed)


def of_complex(call: Any) -> Any:
    """Return the call of complex operands, for their parts."""
    return lambda *tensors: call(*map(torch.view_as_complex, tensors))


def solved_numbers(blocks: Any, b: Any) -> Any:
    """Return the solution of a system whose matrix is Hermitian and far from singular."""
    pointers, columns = torch.tensor([0, 2, 4]), torch.tensor([0, 1, 0, 1])
    diagonal = blocks + blocks.mH + 8 * torch.eye(3).to(blocks)
    both = torch.stack([diagonal[0], blocks[2], blocks[2].mH, diagonal[1]])
    return BSR_CG(both, pointers, columns, b, torch.zeros_like(b), 1e-7, 10)[0]


class TestSolvers(OperationContract):
    """Solvers have no derivatives."""

    library = LIBRARY
    samples = (
        Sample("bsr_cg", solved, (0.5 * BLOCKS, B)),
        Sample("bsr_cg", of_complex(solved_numbers), (0.5 * numbers(3, 3, 3), numbers(5, 2))),
    )

    def test_every_operation_has_a_sample(self) -> None:
        """The other class asks for both."""


class TestOperations(DerivativeContract):
    library = LIBRARY

    def test_every_operation_has_a_sample(self) -> None:
        known = {sample.operation for sample in (*self.samples, *TestSolvers.samples)}
        assert set(LIBRARY.operations) == known

    samples = (
        Sample("spmm", lambda x, b: sparse(x).matmul(b), (VALUES, B)),
        Sample("tiled_spmm", tiled, (random_tensor(4, 2, 3, seed=8), B), backward_launches=False),
        Sample("sddmm", sampled, (random_tensor(3, 2, seed=9), B)),
        Sample("bsr_sddmm", sampled_in_blocks, (random_tensor(8, 2, seed=9), B)),
        Sample("bsr_spmm", lambda x, b: in_blocks(x).matmul(b), (BLOCKS, B)),
        Sample(
            "screened_spmm",
            screened,
            (random_tensor(5, 5, seed=8), B),
        ),
        Sample(
            "attention",
            lambda q, k, v, bias: block_sparse_attention(q, k, v, MASK, 0.75, bias),
            (Q, K, V, BIAS),
        ),
        *(
            Sample(f"doublefloat_{name}", at_level(name, *more), tuple(tensors), takes_float64=True)
            for name, more, *tensors in (
                ("spmm", (), VALUES[:1], B[:2]),
                ("sddmm", (), B[:2], B[2:4]),
                ("bsr_spmm", (3,), BLOCKS[:1, :2, :2], B[:3]),
                ("bsr_sddmm", (2,), B[:3], B[1:4]),
            )
        ),
        Sample("attention_backward", gradient, (random_tensor(2, 3, 3, seed=4), Q, K, V)),
    )


def screened_numbers(a: Any, b: Any) -> Any:
    diagonal = torch.tensor([4.0, 0.01, 1.0, 0.25, 9.0]).to(a.real)
    return trnsparse.screened_spmm(a, diagonal, b, 0.5)


class TestComplexOperations(ComplexContract):
    library = LIBRARY

    def test_every_operation_has_a_sample(self) -> None:
        known = {sample.operation for sample in (*self.samples, *TestSolvers.samples)}
        assert {name for name, found in LIBRARY.operations.items() if found.by_parts} <= known

    samples = (
        Sample(
            "spmm",
            of_complex(lambda x, b: sparse(x).matmul(b)),
            (numbers(4, seed=5), numbers(5, 3, seed=6)),
        ),
        Sample("sddmm", of_complex(sampled), (numbers(3, 2, seed=9), numbers(5, 2, seed=6))),
        Sample(
            "bsr_sddmm",
            of_complex(sampled_in_blocks),
            (numbers(8, 2, seed=9), numbers(5, 2, seed=6)),
        ),
        Sample(
            "bsr_spmm",
            of_complex(lambda blocks, b: in_blocks(blocks).matmul(b.conj())),
            (numbers(3, 3, 3, seed=7), numbers(5, 2, seed=6)),
        ),
        *(
            Sample(
                f"doublefloat_{name}",
                of_complex(at_level(name, *more)),
                tuple(tensors),
                takes_float64=True,
            )
            for name, more, *tensors in (
                ("spmm", (), numbers(1, seed=5), numbers(2, 1, seed=6)),
                ("sddmm", (), numbers(2, 1, seed=9), numbers(2, 1, seed=6)),
                ("bsr_spmm", (3,), numbers(1, 2, 2, seed=7), numbers(3, 1, seed=6)),
                ("bsr_sddmm", (2,), numbers(3, 1, seed=9), numbers(3, 1, seed=6)),
            )
        ),
        Sample(
            "screened_spmm",
            of_complex(screened_numbers),
            (numbers(5, 5, seed=10), numbers(5, 2, seed=6)),
        ),
    )
