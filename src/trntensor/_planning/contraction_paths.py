"""Contraction path search: the order in which a tensor network is contracted, pair by pair.

Up to ``EXACT`` tensors all orders are compared, outer products included: the path is optimal. Above
that, greedy orders are improved by simulated annealing.

Flops are counted as opt_einsum does: two for each multiply-add, one for each product without a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from math import inf, prod
from random import Random
from typing import Any, Literal, NamedTuple

from trnsci.core.tiles.hardware import BANK, CORES, DEFAULT_GENERATION, TILE
from trntensor._planning.annealing import Network, Price, annealed, linear_path, tree_of, trees_of
from trntensor._planning.pairs import groups_of, result_labels

Path = tuple[tuple[int, int], ...]
"""Pairs of positions in the list of tensors; both are removed and the result is appended."""

Minimize = Literal["flops", "time", "size"]

EXACT = 8
_KEPT = 4
_CORE = CORES[DEFAULT_GENERATION]


class Problem(NamedTuple):
    """A network whose path is searched.

    Attributes:
        inputs: The indices of each tensor, without repeated ones and ones summed in it alone.
        output: The indices of the result.
        extents: Every index, with its size.
        minimize: ``"flops"``, with ties broken by time; ``"time"`` on a NeuronCore, from bytes,
            tiles of 128 and residency in SBUF; or ``"size"``, the largest intermediate.
        itemsize: Bytes of one element.
    """

    inputs: tuple[str, ...]
    output: str
    extents: tuple[tuple[str, int], ...]
    minimize: Minimize
    itemsize: int

    @property
    def sizes(self) -> dict[str, int]:
        """The size of every index; 1 for an empty one, so that paths have different costs."""
        return {label: max(size, 1) for label, size in self.extents}


@lru_cache(maxsize=256)
def find_paths(problem: Problem) -> tuple[tuple[Path, ...], str]:
    """Return a few good paths, the best first, and the search method.

    They are cached, since several plans may share them.
    """
    if len(problem.inputs) <= 2:
        return (((0, 1),) * (len(problem.inputs) - 1),), "nothing to order"
    if len(problem.inputs) <= EXACT:
        return (_best_path(problem),), "all orders compared"
    network = Network(problem.inputs, problem.output, problem.sizes)
    found = trees_of(network, _mask_price(network, problem))
    paths = dict.fromkeys(linear_path(network, tree) for _, tree in found[: 2 * _KEPT])
    return tuple(paths)[:_KEPT], f"the best of {len(found)} annealed orders"


def reordered(problem: Problem, path: Path, seed: int) -> Path:
    """Return a path that is at least as good as the given one."""
    if len(problem.inputs) <= EXACT:
        return find_paths(problem)[0][0]
    network = Network(problem.inputs, problem.output, problem.sizes)
    price = _mask_price(network, problem)
    return linear_path(network, annealed(tree_of(network, path), price, Random(seed)))


def _mask_price(network: Network, problem: Problem) -> Price:
    """Return the price of a pair in annealing; for ``"size"`` it is the elements of its result."""
    if problem.minimize == "flops":
        return network.flops
    volume, itemsize = network.volume, problem.itemsize
    if problem.minimize == "size":
        return lambda a, b, out: volume(out)

    @cache
    def time(a: int, b: int, out: int) -> float:
        shared = a & b
        batch, depth = volume(shared & out), volume(shared & ~out)
        return gemm_ns(batch, volume(a & ~b), volume(b & ~a), depth, itemsize, 0)

    return time


def steps_of(
    inputs: Sequence[str], output: str, path: Path, sizes: Mapping[str, int] | None = None
) -> list[tuple[int, int, str]]:
    """Convert a path to fixed tensor numbers: operands first, results after them.

    Each step has its two tensors and the indices of its result, in the cheaper order if sizes are
    known.
    """
    live = list(range(len(inputs)))
    labels = list(inputs)
    steps = []
    for pair in path:
        i, j = sorted(pair)
        second, first = live.pop(j), live.pop(i)
        rest = set(output).union(*(labels[slot] for slot in live))
        out = output
        if live:
            needed = "".join(x for x in (labels[first] + labels[second]) if x in rest)
            out = result_labels(labels[first], labels[second], needed, sizes)
        steps.append((first, second, out))
        live.append(len(labels))
        labels.append(out)
    return steps


def pair_flops(a: str, b: str, out: str, sizes: Mapping[str, int]) -> int:
    """Return the flops of one pair."""
    union = set(a).union(b)
    return prod(sizes[x] for x in union) * (2 if union - set(out) else 1)


def pair_ns(a: str, b: str, out: str, sizes: Mapping[str, int], itemsize: int, stays: int) -> float:
    """Return the modelled time of one pair on a NeuronCore, from tiles and bytes.

    Operands and results that stay in SBUF move no bytes.
    """
    return gemm_ns(*groups_of(a, b, out, sizes).extents(sizes), itemsize, stays)


def gemm_ns(
    batch: float, rows: float, columns: float, depth: float, itemsize: int, stays: int
) -> float:
    """Return the modelled time of a batch of matrix products on a NeuronCore."""
    passes = 4 if itemsize == 4 else 1
    cycles = min(
        _tiles(m) * _tiles(depth) * (passes * n + _CORE.product_cycles * -(-n // BANK))
        for m, n in ((rows, columns), (columns, rows))
    )
    volume = batch * (rows * depth + depth * columns + rows * columns) * itemsize - stays
    return max(batch * cycles / _CORE.tensor_ghz, volume / _CORE.dma_bytes_per_ns)


def _tiles(extent: float) -> float:
    return -(-extent // TILE)


# -- all orders ------------------------------------------------------------------------------------


def _best_path(problem: Problem) -> Path:
    """Return the best of all paths, by dynamic programming over sets of tensors."""
    inputs, output, minimize = problem.inputs, problem.output, problem.minimize
    count = len(inputs)
    every = (1 << count) - 1
    labels: dict[int, str] = {1 << i: term for i, term in enumerate(inputs)}
    best: dict[int, tuple[Any, ...]] = {1 << i: (0.0, 0.0, None) for i in range(count)}
    price = _prices(problem)
    for chosen in sorted(range(1, every + 1), key=int.bit_count):
        if chosen in labels:
            continue
        outside = set(output)
        for i in range(count):
            if not chosen >> i & 1:
                outside |= set(inputs[i])
        lowest = chosen & -chosen
        rest = chosen ^ lowest
        found: tuple[Any, ...] = (inf, inf, None)
        out, part = None, rest
        while True:  # over all proper subsets that hold the lowest tensor
            part = (part - 1) & rest
            left, right = part | lowest, rest ^ part
            a, b = labels[left], labels[right]
            if out is None:
                out = output
                if chosen != every:
                    out = result_labels(a, b, "".join(outside & set(a + b)))
                labels[chosen] = out
            behind = max(best[left][0], best[right][0])
            if behind <= found[0]:
                own, tie = price(a, b, out, left & (left - 1) != 0, right & (right - 1) != 0)
                worth = own + best[left][0] + best[right][0]
                if minimize == "size":
                    worth = max(own, behind)
                cost = worth, tie + best[left][1] + best[right][1]
                if cost < found[:2]:
                    found = (*cost, left)
            if not part:
                break
        best[chosen] = found
    return _linear(every, best, count)


def _linear(every: int, best: Mapping[int, tuple[Any, ...]], count: int) -> Path:
    """Convert a tree of sets to a path."""
    live = [1 << i for i in range(count)]
    path: list[tuple[int, int]] = []

    def contract(chosen: int) -> None:
        left = best[chosen][2]
        if left is None:
            return
        contract(left)
        contract(chosen ^ left)
        i, j = sorted((live.index(left), live.index(chosen ^ left)))
        path.append((i, j))
        del live[j], live[i]
        live.append(chosen)

    contract(every)
    return tuple(path)


def _prices(problem: Problem) -> Callable[..., tuple[float, float]]:
    """Return the cost function of a pair: the objective, then the tie-breaker."""
    sizes, minimize, itemsize = problem.sizes, problem.minimize, problem.itemsize

    @cache
    def volume(labels: str) -> int:
        return prod(sizes[x] for x in labels) * itemsize

    capacity = TILE * _CORE.sbuf_bytes // 4

    def price(a: str, b: str, out: str, made_a: bool, made_b: bool) -> tuple[float, float]:
        stays = sum(
            volume(x) for x, made in ((a, made_a), (b, made_b)) if made and volume(x) <= capacity
        )
        time = pair_ns(a, b, out, sizes, itemsize, stays)
        if minimize == "time":
            return time, 0.0
        if minimize == "size":
            return float(volume(out)), float(pair_flops(a, b, out, sizes))
        return float(pair_flops(a, b, out, sizes)), time

    return price
