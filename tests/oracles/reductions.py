"""Reductions, scans and statistics of NKI 0.3.0, from their definition.

Everything takes a float32 array of shape (partitions, elements), the elements of a partition in the
order in which the instruction streams them. The order of most reductions is not specified, so sums
and products come back in float64 with the bound on what any float32 order may differ by; a scan's
order is its definition, and that of tensor_reduce's sums is known, so both come back in float32.
"""

from __future__ import annotations

import math

import numpy as np

from oracles.elementwise import BITWISE, alu

#: Half the distance from 1 to the next float32: the largest relative error of one operation.
UNIT = 2.0**-24
#: Half the smallest float32: the largest absolute error of one operation whose result is subnormal.
TINY = 2.0**-150


def reduce(op: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reduction of each row, and by how much a float32 evaluation may differ from it.

    n-1 roundings of partial sums, each at most the sum of magnitudes; n-1 relative errors of
    partial products (those of second order are covered by counting n), plus what is lost when a
    partial product is subnormal.
    """
    wide = np.asarray(rows, np.float64)
    count = wide.shape[1]
    if op in ("add", "subtract"):
        # a subtraction takes the later elements from the first
        signs = np.array([1.0] + [1.0 if op == "add" else -1.0] * (count - 1))
        values = np.array([math.fsum(row) for row in (wide * signs).tolist()])
        return values, count * UNIT * np.abs(wide).sum(axis=1)
    if op == "multiply":
        values = np.array([math.prod(row) for row in wide.tolist()])
        lost = count * TINY * np.maximum(1, np.abs(wide)).prod(axis=1)
        return values, count * UNIT * np.abs(values) + lost
    exact = {
        "maximum": lambda row: max(row),
        "minimum": lambda row: min(row),
        "logical_and": lambda row: float(all(v != 0 for v in row)),
        "logical_or": lambda row: float(any(v != 0 for v in row)),
        "logical_xor": lambda row: float(sum(v != 0 for v in row) % 2),
    }[op]
    values = np.array([exact(row) for row in wide.tolist()], np.float64)
    return values, np.zeros(len(values))


def sum_in_order(rows: np.ndarray) -> np.ndarray:
    """The float32 sum of each row, one element after the other from the first on."""
    total = np.array(rows[:, 0], np.float32)
    for column in rows.T[1:]:
        total = total + column
    return total


def reduce_bits(op: str, rows: np.ndarray) -> np.ndarray:
    """The bitwise reduction of each row of an integer array."""
    mask = 2 ** (8 * rows.dtype.itemsize) - 1
    out = []
    for row in rows.tolist():
        state = row[0] & mask
        for value in row[1:]:
            state = BITWISE[op](state, value & mask)
        out.append(state)
    return np.array(out, f"u{rows.dtype.itemsize}").view(rows.dtype)


#: What ``reduce_cmd.reset_reduce`` puts in the accumulators of tensor_scalar_cumulative.
START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def scan(
    op0: str,
    op1: str,
    data0: np.ndarray,
    data1: np.ndarray,
    initial: np.ndarray,
    reverse0: bool = False,
    reverse1: bool = False,
) -> np.ndarray:
    """tensor_tensor_scan: state = op1(op0(data0[i], state), data1[i]), the state in float32."""
    partitions, count = data0.shape
    state = np.broadcast_to(np.float32(initial), (partitions,))
    out = np.empty((partitions, count), np.float32)
    for i in range(count):
        state = alu(op0, data0[:, i], state, reverse0)
        state = alu(op1, state, data1[:, i], reverse1)
        out[:, i] = state
    return out


def cumulate(
    op0: str, op1: str, data: np.ndarray, operand: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """tensor_scalar_cumulative: reg = op1(op0(data[i], operand), reg); every reg, and the last."""
    partitions, count = data.shape
    operand = np.broadcast_to(np.float32(operand), (partitions,))
    reg = np.broadcast_to(np.float32(start), (partitions,))
    out = np.empty((partitions, count), np.float32)
    for i in range(count):
        reg = alu(op1, alu(op0, data[:, i], operand), reg)
        out[:, i] = reg
    return out, reg


def statistics(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, mean and variance * count of each row, in float64."""
    wide = np.asarray(rows, np.float64)
    count = wide.shape[1]
    means = np.array([math.fsum(row) / count for row in wide.tolist()])
    spread = [
        math.fsum((v - mean) ** 2 for v in row)
        for row, mean in zip(wide.tolist(), means.tolist(), strict=True)
    ]
    return np.full(len(wide), float(count)), means, np.array(spread)


def aggregate(tuples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over all samples described by (count, mean, variance * count) tuples.

    ``tuples`` has shape (partitions, groups, 3). The variance of the union is that inside the
    groups plus that of their means.
    """
    wide = np.asarray(tuples, np.float64)
    means, variances = [], []
    for groups in wide.tolist():
        total = math.fsum(n for n, _, _ in groups)
        mean = math.fsum(n * m for n, m, _ in groups) / total
        inside = math.fsum(s for _, _, s in groups)
        between = math.fsum(n * (m - mean) ** 2 for n, m, _ in groups)
        means.append(mean)
        variances.append((inside + between) / total)
    return np.array(means), np.array(variances)


def accumulated(
    chain: list[str], parts: list[np.ndarray], start: np.ndarray | None = None
) -> np.ndarray:
    """The elements that an accumulator has taken in at the end of a chain of reduce commands.

    ``reset`` and ``reset_reduce`` forget what came before, ``load_reduce`` replaces it by ``start``
    (one element per row), and every command but ``reset`` takes in its part.
    """
    kept: list[np.ndarray] = []
    for command, part in zip(chain, parts, strict=True):
        if command in ("reset", "reset_reduce"):
            kept = []
        if command == "load_reduce":
            assert start is not None
            kept = [start]
        if command != "reset":
            kept.append(part)
    return np.concatenate(kept, axis=1)


def perturbed_sum(values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row sums, and how far a float32 sum of values within ``errors`` of these may be from them."""
    count = values.shape[1]
    totals = np.array([math.fsum(row) for row in values.tolist()])
    magnitudes = (np.abs(values) + errors).sum(axis=1)
    return totals, count * UNIT * magnitudes + errors.sum(axis=1)
