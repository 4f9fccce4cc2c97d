"""Execution of a contraction: operands are prepared, then contracted in pairs, in slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from operator import index
from typing import Any, NamedTuple

from torch import Tensor

from trnsci.core.errors import FlagError
from trntensor._planning.contraction_paths import Minimize, Path, Problem, find_paths, steps_of
from trntensor._planning.memory import Slices, Work, fitted
from trntensor._planning.pairs import Unary, composed, pair_call, prepared, unary_call, unary_of
from trntensor._planning.subscripts import Equation, pointed, sizes_of

Call = Callable[..., Tensor]
PathOptimizer = Callable[[Sequence[frozenset[str]], frozenset[str], Mapping[str, int]], Any]
"""A path optimizer with the interface of opt_einsum and cotengra."""
Contract = Callable[[Tensor, Tensor, str, str, str], Tensor]


@dataclass(eq=False)
class Program:
    """The steps of one contraction of operands of given shapes.

    Attributes:
        equation: The contraction.
        shapes: Shapes of the operands.
        sizes: The size of every index.
        itemsize: Bytes of an element.
        unaries: Preparation of each operand.
        path: Pairs to contract, as positions in the list of remaining tensors.
        slices: Sliced indices, with the sizes of their parts.
        searched: Search method of the path.
        stages: The launches of the kernel path, computed at first use.
    """

    equation: Equation
    shapes: tuple[tuple[int, ...], ...]
    sizes: dict[str, int]
    itemsize: int
    unaries: tuple[Unary, ...]
    path: Path
    slices: Slices
    searched: str
    stages: Any = field(default=None, init=False)
    _calls: dict[tuple[int, ...], Call] = field(default_factory=dict, init=False)

    @cached_property
    def steps(self) -> tuple[tuple[int, int, str], ...]:
        """The pairs of the path by fixed tensor numbers, each with the indices of its result."""
        kept = [unary.kept for unary in self.unaries]
        return tuple(steps_of(kept, self.equation.output, self.path, self.sizes))

    @cached_property
    def _work(self) -> Work:
        return Work(self.unaries, self.steps, self.sizes, self.itemsize)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The indices of every tensor: operands as prepared, then results."""
        return (*(u.kept for u in self.unaries), *(out for _, _, out in self.steps))

    @cached_property
    def parts(self) -> dict[str, int]:
        """The sizes of the indices within one slice."""
        return {**self.sizes, **dict(self.slices)}

    @property
    def slice_count(self) -> int:
        """The number of slices."""
        return self._work.slice_count(dict(self.slices))

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of all slices, counted as opt_einsum does."""
        return self._work.flops(self.parts)

    @cached_property
    def peak_bytes(self) -> int:
        """Peak bytes allocated, the result included."""
        peak, _ = self._work.peak(self.parts)
        if not self.slices:
            return peak
        return peak + self.itemsize * prod(self.sizes[label] for label in self.equation.output)

    @cached_property
    def run(self) -> Call:
        """The function of the operands that computes the result with torch."""
        if self.slices:
            return lambda *operands: self._summed(operands, None)
        return self._whole(self.sizes)

    def computed(
        self, operands: Sequence[Tensor], contract: Callable[[Sequence[Tensor]], Tensor]
    ) -> Tensor:
        """Return the result with each slice computed by ``contract`` from sliced operands."""
        if not self.steps:
            return self.run(*operands)
        return self._summed(operands, contract) if self.slices else contract(operands)

    def _sliced(
        self, operands: Sequence[Tensor], at: Sequence[tuple[str, int, int]]
    ) -> list[Tensor]:
        """Return the views of the operands in a slice."""
        found = list(operands)
        for label, start, length in at:
            for number, unary in enumerate(self.unaries):
                for dim, name in enumerate(unary.labels):
                    if name == label and dim not in unary.dropped:
                        found[number] = found[number].narrow(dim, start, length)
        return found

    def _summed(
        self, operands: Sequence[Tensor], contract: Callable[[Sequence[Tensor]], Tensor] | None
    ) -> Tensor:
        """Return the sum of all slices, each computed by ``contract``, or by torch without it."""
        cuts = [
            [
                (label, at, min(part, self.sizes[label] - at))
                for at in range(0, self.sizes[label], part)
            ]
            for label, part in self.slices
        ]
        output = self.equation.output
        total = None
        for at in product(*cuts):
            parts = self._sliced(operands, at)
            part = self._part(parts, at) if contract is None else contract(parts)
            if total is None:
                total = part.new_zeros([self.sizes[label] for label in output])
            view = total
            for label, start, length in at:
                if label in output:
                    view = view.narrow(output.index(label), start, length)
            view += part
            del part
        if total is None:
            total = operands[0].new_zeros([self.sizes[label] for label in output])
        return total

    def each_pair(self, contract: Contract, operands: Sequence[Tensor]) -> Tensor:
        """Return the result with every pair computed by ``contract(a, b, labels...)``."""
        tensors: list[Any] = prepared(self.unaries, operands)
        for i, j, out in self.steps:
            tensors.append(contract(tensors[i], tensors[j], self.labels[i], self.labels[j], out))
            tensors[i] = tensors[j] = None
        result: Tensor = tensors[-1]
        return result

    def _part(self, operands: Sequence[Tensor], at: Sequence[tuple[str, int, int]]) -> Tensor:
        lengths = tuple(length for _, _, length in at)
        call = self._calls.get(lengths)
        if call is None:
            sizes = {**self.sizes, **{label: length for label, _, length in at}}
            call = self._calls[lengths] = self._whole(sizes)
        return call(*operands)

    def _whole(self, sizes: Mapping[str, int]) -> Call:
        """Return the function that contracts operands of these sizes without slicing."""
        views = [None if u.trivial else unary_call(u) for u in self.unaries]
        labels, output = self.labels, self.equation.output
        if not self.steps:
            unary, prepare = self.unaries[0], views[0]
            return lambda x: _placed(x if prepare is None else prepare(x), unary, output)
        calls = [(i, j, pair_call(labels[i], labels[j], out, sizes)) for i, j, out in self.steps]
        if len(calls) == 1:
            return composed(calls[0][2], *views)
        before = [(at, call) for at, call in enumerate(views) if call is not None]

        def several(*operands: Tensor) -> Tensor:
            tensors: list[Any] = list(operands)
            for at, call in before:
                tensors[at] = call(tensors[at])
            for i, j, pair in calls:
                tensors.append(pair(tensors[i], tensors[j]))
                tensors[i] = tensors[j] = None
            return tensors[-1]

        return several


def _placed(x: Tensor, unary: Unary, output: str) -> Tensor:
    """Return the result of a single operand, permuted, in new memory."""
    x = x.permute([unary.kept.index(label) for label in output])
    return x if unary.summed else x.clone()


class Options(NamedTuple):
    """Options of the path search.

    Attributes:
        memory_limit: Maximum bytes allocated at a time; None for no limit.
        minimize: Objective of the path search.
        path: A path given by the caller, or a path optimizer.
    """

    memory_limit: int | None = None
    minimize: Minimize = "flops"
    path: Sequence[tuple[int, int]] | PathOptimizer | None = None


USUAL = Options()


def make_program(
    function: str,
    equation: Equation,
    shapes: tuple[tuple[int, ...], ...],
    itemsize: int,
    options: Options = USUAL,
    strides: Sequence[tuple[int, ...]] | None = None,
) -> Program:
    """Return the program of a contraction.

    Args:
        function: Name of the public function, for messages.
        equation: The contraction.
        shapes: Shapes of the operands.
        itemsize: Bytes of an element.
        options: How the path is found.
        strides: Strides of the operands, for the limit; None if they are contiguous.

    Raises:
        ShapeError: The shapes are incompatible, or the limit is too small.
        FlagError: The path is invalid for these operands.
    """
    sizes = sizes_of(function, equation, shapes)
    present = [
        {x for x, n in zip(term, shape, strict=True) if n == sizes[x]}
        for term, shape in zip(equation.inputs, shapes, strict=True)
    ]
    unaries = []
    for number, (term, shape) in enumerate(zip(equation.inputs, shapes, strict=True)):
        others = set(equation.output).union(*(p for at, p in enumerate(present) if at != number))
        unary = unary_of(term, shape, "".join(others), sizes)
        unaries.append(unary if strides is None else unary._replace(strides=strides[number]))
    kept = tuple(unary.kept for unary in unaries)
    limit, minimize, path = options
    given = None if path is None else _chosen(function, path, kept, equation, sizes)
    problem = Problem(kept, equation.output, tuple(sizes.items()), minimize, itemsize)
    slices: Slices = ()
    if limit is not None:
        chosen, slices, searched = fitted(function, unaries, problem, limit, given)
    elif given is not None:
        chosen, searched = given, "given"
    else:
        (chosen, *_), searched = find_paths(problem)
    return Program(equation, shapes, sizes, itemsize, tuple(unaries), chosen, slices, searched)


def _chosen(
    function: str,
    path: Sequence[tuple[int, int]] | PathOptimizer,
    kept: Sequence[str],
    equation: Equation,
    sizes: Mapping[str, int],
) -> Path:
    """Return the path given by the caller, validated."""
    if callable(path):
        found = path([frozenset(term) for term in kept], frozenset(equation.output), dict(sizes))
    else:
        found = path
    try:
        pairs = tuple(tuple(sorted(index(at) for at in pair)) for pair in found)
    except TypeError:
        raise FlagError(
            f"{function}: path must be a sequence of pairs of integers, or an optimizer that "
            f"returns one, got {path!r}"
        ) from None
    left = range(len(kept), 1, -1)
    fits = len(pairs) == len(left) and all(
        len(pair) == 2 and 0 <= pair[0] < pair[1] < count
        for pair, count in zip(pairs, left, strict=True)
    )
    if not fits:
        message = (
            f"{function}: path must have {len(left)} pairs of different positions in what is left "
            f"of {len(kept)} operands, got {list(pairs)}"
        )
        raise FlagError(pointed(message, equation.text))
    return tuple((pair[0], pair[1]) for pair in pairs)
