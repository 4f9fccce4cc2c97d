"""Contraction order search for many tensors: greedy trees, improved by simulated annealing.

An order is a tree with the tensors as leaves. Annealing repeatedly visits its nodes and changes
((a b) c) into ((a c) b) if that is cheaper or, with decreasing probability, more expensive
(Kalachev, Panteleev and Yung, arXiv:2108.05665). A set of indices is an integer bit mask, so the
indices of a result are one bitwise expression.

Seeds are fixed and the search is limited by moves, not seconds: a network has the same path in
every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import heappop, heappush
from itertools import count
from math import copysign, log
from operator import or_
from random import Random
from typing import NamedTuple

Price = Callable[[int, int, int], float]
"""Cost of contracting two index sets to a third."""

_AGREED = 3
"""Number of starts that must reach the best price before the search stops."""
_TEMPERATURES, _SWEEPS = 25, 20
_HOT, _COLD = 0.3, 0.05
_MOVES, _MORE_MOVES = 300_000, 1_000_000
_MANY_FLOPS = 1e9
"""Flops of a contraction from which on the search may take longer."""
_NOISE = 0.5


class Network:
    """A tensor network with index sets as bit masks.

    Attributes:
        terms: The indices of each tensor.
        output: The indices of the result.
    """

    def __init__(self, inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> None:
        names = list(dict.fromkeys("".join(inputs)))
        bits = {name: 1 << at for at, name in enumerate(names)}
        self.terms = [_union(bits[name] for name in term) for term in inputs]
        self.output = _union(bits[name] for name in output)
        self._extents = [float(sizes[name]) for name in names]
        self._volumes: dict[int, float] = {}

    def volume(self, labels: int) -> float:
        """Return the number of elements of a tensor with these indices."""
        found = self._volumes.get(labels)
        if found is None:
            found = 1.0
            for bit in _bits(labels):
                found *= self._extents[bit.bit_length() - 1]
            self._volumes[labels] = found
        return found

    def flops(self, a: int, b: int, out: int) -> float:
        """Return the flops of a pair: two for each multiply-add, one for a product alone."""
        union = a | b
        volume = self._volumes.get(union) or self.volume(union)
        return volume if union == out else 2 * volume


class Tree(NamedTuple):
    """A contraction tree: the tensors, then one node per contraction; the last is the root.

    Attributes:
        left, right: Children of each node; -1 for a tensor.
        labels: The indices of each node.
    """

    left: list[int]
    right: list[int]
    labels: list[int]

    def total(self, price: Price) -> float:
        """Return the sum of all prices."""
        found = 0.0
        for node, first in enumerate(self.left):
            if first >= 0:
                second = self.right[node]
                found += price(self.labels[first], self.labels[second], self.labels[node])
        return found


def trees_of(network: Network, price: Price) -> list[tuple[float, Tree]]:
    """Return trees with their prices, the cheapest first.

    New starts are made until the best tree was found three times, or the allowed number of moves is
    reached: for 40 tensors that is about 15 starts, 50 if the contraction is large, and fewer if it
    has less than 30,000 flops.
    """
    found: list[tuple[float, Tree]] = []
    moves = 0
    for start in count():
        generator = Random(start)
        tree = greedy_tree(network, _NOISE if start else 0.0, generator)
        tree = annealed(tree, price, generator)
        found.append((tree.total(price), tree))
        found.sort(key=lambda entry: entry[0])
        least = found[0][0]
        if sum(cost <= least * (1 + 1e-9) for cost, _ in found) == _AGREED:
            break
        moves += _TEMPERATURES * _SWEEPS * len(network.terms)
        flops = found[0][1].total(network.flops)
        if moves >= (_MORE_MOVES if flops > _MANY_FLOPS else min(_MOVES, 10 * flops)):
            break
    return found


def greedy_tree(network: Network, noise: float, generator: Random) -> Tree:
    """Return the greedy tree: first the pairs whose result is small relative to their operands."""
    labels, volume = list(network.terms), network.volume
    left, right = [-1] * len(labels), [-1] * len(labels)
    live = set(range(len(labels)))
    holders: dict[int, set[int]] = {}
    for at, term in enumerate(labels):
        for bit in _bits(term):
            holders.setdefault(bit, set()).add(at)
    queue: list[tuple[float, int, int]] = []

    def result(i: int, j: int) -> int:
        kept = union = labels[i] | labels[j]
        for bit in _bits(union & ~network.output):
            if holders[bit] <= {i, j}:
                kept ^= bit
        return kept

    def push(i: int, j: int) -> None:
        grown = volume(result(i, j)) - volume(labels[i]) - volume(labels[j])
        if noise:
            chance = log(-log(1 - generator.random()))
            grown = copysign(log(abs(grown) + 1), grown) + noise * chance
        heappush(queue, (grown, i, j))

    def neighbours(term: int) -> list[int]:
        return sorted(set().union(*(holders[bit] for bit in _bits(term))))

    for at, term in enumerate(network.terms):
        for other in neighbours(term):
            if other > at:
                push(at, other)
    while len(live) > 1:
        pair = None
        while queue and pair is None:
            _, i, j = heappop(queue)
            if i in live and j in live:
                pair = i, j
        if pair is None:  # no remaining pair has an index in common
            i, j = sorted(live, key=lambda at: (volume(labels[at]), at))[:2]
        node = len(labels)
        labels.append(result(i, j))
        left.append(i)
        right.append(j)
        live -= {i, j}
        live.add(node)
        for old in (i, j):
            for bit in _bits(labels[old]):
                holders[bit].discard(old)
        for other in neighbours(labels[node]):
            push(other, node)
        for bit in _bits(labels[node]):
            holders[bit].add(node)
    return Tree(left, right, labels)


def annealed(tree: Tree, price: Price, generator: Random, hot: float = _HOT) -> Tree:
    """Return the best tree found by annealing; never worse than the given one."""
    left, right, labels = (list(column) for column in tree)
    leaves, root = left.count(-1), len(left) - 1
    costs = [0.0] * len(left)
    for node in range(leaves, len(left)):
        costs[node] = price(labels[left[node]], labels[right[node]], labels[node])
    best, least = tree, sum(costs)
    random = generator.random
    for step in range(_TEMPERATURES):
        power = -1 / (hot * (_COLD / hot) ** (step / (_TEMPERATURES - 1)))
        for _ in range(_SWEEPS):
            nodes = [root]
            while nodes:
                node = nodes.pop()
                inner, c = left[node], right[node]
                if inner < leaves or (c >= leaves and random() < 0.5):
                    inner, c = c, inner
                if inner < leaves:
                    continue
                a, b = left[inner], right[inner]
                if random() < 0.5:
                    a, b = b, a
                # ((a b) c) to ((a c) b): a and c keep the indices that b or the node has.
                kept = (labels[a] | labels[c]) & (labels[b] | labels[node])
                below = price(labels[a], labels[c], kept)
                above = price(kept, labels[b], labels[node])
                ratio = (below + above) / (costs[inner] + costs[node])
                if ratio <= 1 or random() < ratio**power:
                    left[inner], right[inner], labels[inner] = a, c, kept
                    left[node], right[node] = inner, b
                    costs[inner], costs[node] = below, above
                if left[node] >= leaves:
                    nodes.append(left[node])
                if right[node] >= leaves:
                    nodes.append(right[node])
        cost = sum(costs)
        if cost < least:
            best, least = Tree(list(left), list(right), list(labels)), cost
    return best


def tree_of(network: Network, path: Iterable[tuple[int, int]]) -> Tree:
    """Convert a path (pairs of positions in the list of remaining tensors) to a tree."""
    labels = list(network.terms)
    live = list(range(len(labels)))
    left, right = [-1] * len(labels), [-1] * len(labels)
    for pair in path:
        i, j = sorted(pair)
        second, first = live.pop(j), live.pop(i)
        outside = reduce(or_, (labels[at] for at in live), network.output)
        left.append(first)
        right.append(second)
        live.append(len(labels))
        labels.append((labels[first] | labels[second]) & outside)
    return Tree(left, right, labels)


def linear_path(network: Network, tree: Tree) -> tuple[tuple[int, int], ...]:
    """Convert a tree to pairs of positions in the list of remaining tensors.

    The child of a node that comes first is the one that gives the lower peak memory.
    """
    left, right, labels = tree
    leaves = len(network.terms)
    peaks = [0.0] * len(left)
    order: list[int] = []
    waiting = [len(left) - 1]
    while waiting:  # every node before its children
        node = waiting.pop()
        if node >= leaves:
            order.append(node)
            waiting += (left[node], right[node])
    ordered: dict[int, tuple[int, int]] = {}
    for node in reversed(order):
        held = {
            x: network.volume(labels[x]) if x >= leaves else 0.0 for x in (left[node], right[node])
        }
        first, second = left[node], right[node]
        if max(peaks[second], held[second] + peaks[first]) < max(
            peaks[first], held[first] + peaks[second]
        ):
            first, second = second, first
        ordered[node] = first, second
        peaks[node] = max(
            peaks[first],
            held[first] + peaks[second],
            held[first] + held[second] + network.volume(labels[node]),
        )
    live = list(range(leaves))
    path = []
    waiting = [len(left) - 1]
    while waiting:
        node = waiting.pop()
        if node < 0:  # both children are done
            i, j = sorted(live.index(side) for side in ordered[~node])
            path.append((i, j))
            del live[j], live[i]
            live.append(~node)
        elif node >= leaves:
            waiting += (~node, *reversed(ordered[node]))
    return tuple(path)


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _bits(labels: int) -> Iterator[int]:
    """Yield each bit of a number, as a number."""
    while labels:
        bit = labels & -labels
        yield bit
        labels ^= bit
