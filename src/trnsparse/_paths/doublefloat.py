"""Launches of sparse products at doublefloat, on planes of float32 and in slices of bfloat16.

Each term of a row is scaled by the largest one: entries of A take the powers of two of the rows of
the dense operand that they multiply. So the scale of a row, its sums of moduli and its error follow
its terms, and operands may be anywhere in the range of float64. Scales are applied here, in
float64. NaN and infinities do not enter kernels: results that they reach are float64's.

A product by rows has an error of at most 2**-44 |A| |B|. One in blocks has it for a vector; for a
matrix it is 2**-45 of the 2-norms of a row of A and a column of B. Importing this module imports
NKI.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trnblas.nki.launches import doublefloat_product, doublefloat_stack
from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.doublefloat import joined, planes, row_exponents, times_power
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.doublefloat_spmm import doublefloat_spmm as by_rows
from trnsparse._paths.blocks import BSR_SPMM
from trnsparse._paths.operands import MOST_DEPTH, host_numbers, unsigned
from trnsparse._paths.rows import SDDMM, SPMM
from trnsparse._products.block_products import cut

Numbers = npt.NDArray[np.int64]

_MOST_ENTRIES = 128  # of a row on the kernel
_SMALLEST = 2.0**-60  # product of the smallest scaled operands of a sum
_NO_EXPONENT = -4000  # of a term that is 0: below that of every product


def spmm(
    launch: Launcher, values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> Tensor:
    operands = _finite(values), host_numbers(row_ptrs), col_indices, _finite(b)
    return _checked(SPMM, _row_product(launch, *operands), values, row_ptrs, col_indices, b)


def sddmm(launch: Launcher, row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor) -> Tensor:
    # An entry is the product of a row of c, on the pattern of a row of d, and all of d as a vector.
    width = c.shape[1]
    rows = torch.repeat_interleave(row_ptrs.diff())
    places = col_indices.unsqueeze(1) * width + torch.arange(width, device=c.device)
    ends = width * np.arange(len(rows) + 1)
    values, vector = _finite(c)[rows].flatten(), _finite(d).reshape(-1, 1)
    found = _row_product(launch, values, ends, places.flatten(), vector)
    return _checked(SDDMM, found.squeeze(1), row_ptrs, col_indices, c, d)


def bsr_spmm(
    launch: Launcher, blocks: Tensor, pointers: Tensor, indices: Tensor, b: Tensor, rows: int
) -> Tensor:
    count, size, width = len(pointers) - 1, blocks.shape[-1], b.shape[1]
    ends, owners = _cut(host_numbers(pointers), MOST_DEPTH // size)
    piece = torch.from_numpy(np.repeat(np.arange(len(owners)), np.diff(ends))).to(blocks.device)
    left, right = _finite(blocks), cut(_finite(b), size)[indices]
    if width == 1:
        of_b = row_exponents(right)
        left, of_rows = _scaled(left.mT, of_b, right != 0, piece, len(owners))
        right, of_columns = times_power(right, -of_b), torch.zeros_like(of_rows[:, :1])
    else:
        left, of_rows = _scaled(left.mT, 0, True, piece, len(owners))
        right, of_columns = _scaled(right, 0, True, piece, len(owners))
    edges = tuple((ends * size).tolist())
    found = doublefloat_stack(launch, left.flatten(0, 1), right.flatten(0, 1), edges, width == 1)
    found = times_power(found, of_rows.unsqueeze(-1) + of_columns.unsqueeze(1))
    total = found.new_zeros(count, size, width).index_add(0, owners.to(found.device), found)
    result = total.flatten(0, 1)[:rows]
    return _checked(BSR_SPMM, result, blocks, pointers, indices, b, rows)


def bsr_sddmm(
    launch: Launcher, pointers: Tensor, indices: Tensor, c: Tensor, d: Tensor, size: int
) -> Tensor:
    rows = torch.repeat_interleave(pointers.diff())
    return doublefloat_product(launch, cut(c, size)[rows], cut(d, size)[indices].mT)


def _row_product(
    launch: Launcher, values: Tensor, pointers: Numbers, indices: Tensor, b: Tensor
) -> Tensor:
    """Return the product of a finite matrix by rows and a finite dense one, in float64."""
    rows, width, entries = len(pointers) - 1, b.shape[1], len(values)
    ends, owners = _cut(pointers, _MOST_ENTRIES)
    lengths = np.diff(ends)
    row = torch.from_numpy(np.repeat(np.arange(len(owners)), lengths)).to(values.device)
    of_b = row_exponents(b)
    right = times_power(b, -of_b)
    used = (b != 0).any(1)[indices]
    terms, others = (x.reshape(-1, 1, 1) for x in (values, used))
    scaled, of_rows = _scaled(terms, of_b[indices].unsqueeze(2), others, row, len(owners))
    left = scaled.flatten()
    if width > 1 and _least(left, used & (values != 0)) * _least(right, b != 0) < _SMALLEST:
        # Columns that differ so much are scaled apart: as vectors of one larger system.
        apart = torch.arange(width, device=b.device).unsqueeze(1) * len(b)
        starts = pointers[:-1] + entries * np.arange(width)[:, None]
        ends = np.append(starts, entries * width)
        places, vector = (indices + apart).flatten(), b.mT.reshape(-1, 1)
        found = _row_product(launch, values.repeat(width), ends, places, vector)
        return found.reshape(width, rows).mT
    order = np.argsort(-lengths, kind="stable")
    slots = lengths[order][::TILE]
    # The row of each partition and slot, and the number of its entry within the row.
    place = TILE * np.repeat(np.arange(len(slots)), slots) + np.arange(TILE)[:, None]
    number = np.arange(slots.sum()) - np.repeat(slots.cumsum() - slots, slots)
    own = order[np.minimum(place, len(order) - 1)]
    stored = (number < lengths[own]) & (place < len(order))
    at = torch.from_numpy(np.where(stored, ends[own] + number, 0)).to(values.device)
    filled = left[at].where(torch.from_numpy(stored).to(values.device), 0.0)
    operands = *planes(filled), unsigned(indices[at]), torch.cat(planes(right), 1)
    high, low = launch(by_rows, *operands, tuple(slots.tolist()), len(order))
    first = torch.from_numpy(order).to(values.device)
    found = joined(high, low, of_rows[first], torch.float64)
    return found.new_zeros(rows, width).index_add(0, owners.to(found.device)[first], found)


def _cut(pointers: Numbers, most: int) -> tuple[Numbers, Tensor]:
    """Return the pointers of rows of up to ``most`` entries, and the row that each is a part of."""
    lengths = np.diff(pointers)
    counts = np.maximum(1, -(-lengths // most))
    owners = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(owners)) - np.repeat(counts.cumsum() - counts, counts)
    return np.append(pointers[owners] + most * number, pointers[-1]), torch.from_numpy(owners)


def _scaled(
    terms: Tensor, of_others: Any, used: Any, group: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    """Return terms (b, K, M) below 1, and the exponents (groups, M) of the powers they lost.

    Args:
        terms: Finite numbers.
        of_others: Exponents of what they are multiplied with, of which they take the powers.
        used: Whether that is not 0; other terms have no effect and become 0.
        group: The group of each of the b; the largest terms of its columns are at least 1/2.
        groups: Number of groups.
    """
    terms = terms.where((terms != 0) & used, 0.0)
    fraction, exponent = torch.frexp(terms)
    exponent = (exponent.long() + of_others).where(terms != 0, _NO_EXPONENT)
    own = exponent.amax(1)
    largest = own.new_full((groups, own.shape[1]), _NO_EXPONENT)
    largest = largest.scatter_reduce(0, group.unsqueeze(1).expand_as(own), own, "amax")
    largest = largest.where(largest != _NO_EXPONENT, 0)
    return times_power(fraction, exponent - largest[group].unsqueeze(1)), largest


def _least(values: Tensor, counted: Tensor) -> float:
    """Return the smallest modulus of the elements that are counted, 1 if none is."""
    return float(values.abs().where(counted, 1.0).min())


def _finite(values: Tensor) -> Tensor:
    """Return values in float64, with zeros for those that are not finite."""
    return values.double().where(torch.isfinite(values), 0.0)


def _checked(operation: Any, found: Tensor, *args: Any) -> Tensor:
    """Return a result of an operation, that of float64 where NaN or infinities enter it."""
    operands = [x for x in args if isinstance(x, Tensor) and x.is_floating_point()]
    if not all(bool(torch.isfinite(x).all()) for x in operands):
        wide = (x.double() if any(x is operand for operand in operands) else x for x in args)
        exact = operation.reference(*wide)
        found = found.where(torch.isfinite(exact), exact)
    return found.to(operands[0].dtype)
