"""The contract of operations, for every operation of trnsparse that has a kernel."""

from __future__ import annotations

from typing import Any

import torch

from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import DerivativeContract, Sample
from trnsparse import _attention_operations as operations
from trnsparse._attention_dispatch import _tables
from trnsparse._library import LIBRARY
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


def gradient(grad: Any, q: Any, k: Any, v: Any) -> Any:
    """Call the gradient's operation with what attention would give it."""
    tables, pattern = _tables(MASK, q), MASK.encoded(1, 2)
    out, logs = operations.ATTENTION(q, k, v, None, tables, pattern, 0.75)
    zeros = torch.zeros_like(logs)
    logs = torch.where(logs == -torch.inf, 0.0, logs)
    return operations.ATTENTION_BACKWARD(
        grad, zeros, q, k, v, out, logs, None, tables, pattern, 0.75
    )[:3]


class TestOperations(DerivativeContract):
    library = LIBRARY
    samples = (
        Sample(
            "attention",
            lambda q, k, v, bias: block_sparse_attention(q, k, v, MASK, 0.75, bias),
            (Q, K, V, BIAS),
        ),
        Sample("attention_backward", gradient, (random_tensor(2, 3, 3, seed=4), Q, K, V)),
    )
