"""Contraction plans for given subscripts, shapes and dtype: print, pickle, execute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import tensor as check_tensor
from trnsci.core.arguments import whole
from trnsci.core.backend.explanation import Prediction, explain
from trnsci.core.backend.plan import Cost, Plan
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.numbers.values import autocast_on
from trnsci.core.tiles.hardware import SMALLEST_SBUF, TILE
from trntensor._library import LIBRARY
from trntensor._paths.arguments import check_operands, read_arguments
from trntensor._paths.dispatch import contracted, lowered, moved
from trntensor._paths.operations import CONTRACT
from trntensor._paths.precision import Precision, checked_precision, with_precision
from trntensor._planning.contraction_paths import Minimize, Path, pair_flops
from trntensor._planning.pairs import Groups, groups_of
from trntensor._planning.plan_cache import PlanCache
from trntensor._planning.program import Options, PathOptimizer, Program, make_program
from trntensor._planning.subscripts import Equation, parse, sizes_of

__all__ = [
    "ContractionPlan",
    "clear_plan_cache",
    "estimate_flops",
    "plan_cache_info",
    "plan_contraction",
]

_MOST_PLANS = 1024


@dataclass(frozen=True)
class ContractionPlan(Plan):
    """Steps and cost of a contraction; printing it shows a table.

    Attributes:
        subscripts: The subscripts of the call.
        strategy: ``"matmul"`` or ``"bmm"`` for one matrix product or a batch of them, ``"path"``
            for three or more operands, ``"torch"`` without a sum of products.
        transA: Whether the first operand of a product has its contracted index first.
        transB: Whether the second has it last.
        contraction_indices, batch_indices, output_indices: Indices of a pair. For three or more
            operands they are the summed indices, none, and the indices of the result.
        estimated_flops: Multiply-adds of all steps.
        contraction_path: Pairs of positions in the list of remaining tensors; results are appended.
        precision: Precision of the computation.
        dtype: Dtype of the operands.
        shapes: Shapes of the operands.
        memory_limit: Maximum bytes allocated at a time, or None.
        minimize: Objective of the path search.
    """

    subscripts: str
    strategy: str
    transA: bool
    transB: bool
    contraction_indices: tuple[str, ...]
    batch_indices: tuple[str, ...]
    output_indices: tuple[str, ...]
    estimated_flops: int
    contraction_path: Path
    precision: Precision
    dtype: torch.dtype
    shapes: tuple[tuple[int, ...], ...]
    memory_limit: int | None
    minimize: Minimize
    program: Program = field(compare=False, repr=False)

    @property
    def flops(self) -> int:
        """Multiply-adds of all steps, the same as ``estimated_flops``."""
        return self.estimated_flops

    @property
    def backend(self) -> str:
        """Backend of an execution now: ``"pytorch"``, ``"nki"`` or ``"simulator"``."""
        return self._backend_and_reason[0]

    @property
    def dispatch(self) -> str:
        """The same as ``backend``."""
        return self.backend

    @property
    def peak_bytes(self) -> int:
        """Peak bytes allocated, the result included, for dense operands."""
        return self.program.peak_bytes

    @property
    def slices(self) -> dict[str, int]:
        """The sliced indices, each with the size of its parts."""
        return dict(self.program.slices)

    @property
    def cost(self) -> Cost:
        """Flops and HBM bytes of one execution on a NeuronCore; chains need fewer bytes."""
        program = self.program
        elements, launches = moved(program)
        slices = program.slice_count
        nbytes = slices * elements * program.itemsize
        return Cost(program.flops, nbytes, slices * len(launches))

    def execute(self, *operands: Tensor) -> Tensor:
        """Return the contraction of operands with the plan's shapes and dtype.

        Raises:
            ShapeError: The shapes differ from the shapes of the plan.
            DTypeError: The dtype differs from the dtype of the plan.
        """
        for number, x in enumerate(operands):
            check_tensor("execute", f"operand {number}", x)
        shapes = tuple(tuple(x.shape) for x in operands)
        if shapes != self.shapes:
            raise ShapeError(f"execute: operands must have shapes {self.shapes}, got {shapes}")
        for number, x in enumerate(operands):
            if x.dtype is not self.dtype:
                raise DTypeError(f"execute: operand {number} must be {self.dtype}, got {x.dtype}")
        return self.run(*operands)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the plan: its functions cannot be pickled."""
        options = Options(self.memory_limit, self.minimize, self.contraction_path)
        strides = (unary.strides for unary in self.program.unaries)
        layouts = tuple(zip(self.shapes, strides, strict=True))
        searched = self.program.searched
        return _remade, (self.subscripts, layouts, self.dtype, self.precision, options, searched)

    @cached_property
    def run(self) -> Any:
        """The function of the operands, without checks."""
        program, precision = self.program, self.precision
        compute, wanted = program.run, LIBRARY.kernels_wanted

        def fast(*operands: Tensor) -> Tensor:
            if wanted():
                return contracted(program, operands, precision)
            return lowered(program, operands) if autocast_on(operands[0]) else compute(*operands)

        if precision == "fast":
            return fast
        if precision == "dd" and len(self.shapes) > 2:
            return self._step_by_step
        return lambda *operands: with_precision(precision, fast, operands)

    def _step_by_step(self, *operands: Tensor) -> Tensor:
        """Return the result with each pair computed in the plan's precision."""

        def pair(a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
            equation = Equation((left, right), out, self.subscripts)
            shapes = (tuple(a.shape), tuple(b.shape))
            step = make_program("einsum", equation, shapes, a.element_size())

            def fast(x: Tensor, y: Tensor) -> Tensor:
                if LIBRARY.kernels_wanted():
                    return contracted(step, (x, y), self.precision)
                return step.run(x, y)

            return with_precision(self.precision, fast, (a, b))

        program = self.program
        return program.computed(operands, lambda parts: program.each_pair(pair, parts))

    def decisions(self) -> list[tuple[str, str]]:
        """Return the rows of the plan's table."""
        program = self.program
        shapes = " x ".join(str(shape) for shape in self.shapes)
        rows = [
            ("contraction", program.equation.plain),
            ("operands", f"{shapes}, {dtype_name(self.dtype)}, precision {self.precision}"),
            ("path", f"{_steps(len(program.steps))}, by {self.minimize}: {program.searched}"),
        ]
        for number, (i, j, out) in enumerate(program.steps):
            rows.append((f"  step {number + 1}", self._step(i, j, out)))
        rows.append(("work", f"{self.estimated_flops:,} multiply-adds"))
        limit = "" if self.memory_limit is None else f", at most {self.memory_limit:,} allowed"
        rows.append(("memory", f"{self.peak_bytes:,} bytes at a time{limit}"))
        if program.slices:
            cut = ", ".join(f"{label} by {part}" for label, part in program.slices)
            rows.append(("slices", f"{program.slice_count:,}: {cut}"))
        name, reason = self._backend_and_reason
        rows.append(("backend", f"{name}: {reason}"))
        if name != "pytorch" and not program.slices:
            rows.append(("model", str(self._time)))
        return rows

    @cached_property
    def _time(self) -> Prediction:
        """Predicted device time of an execution."""

        def call() -> Tensor:
            return self.execute(*(torch.empty(shape, dtype=self.dtype) for shape in self.shapes))

        with LIBRARY.backend("simulator"):
            return explain(call).predict()

    def _step(self, i: int, j: int, out: str) -> str:
        program = self.program
        a, b, sizes = program.labels[i], program.labels[j], program.parts
        batch, rows, columns, depth = groups_of(a, b, out, sizes).extents(sizes)
        count = len(self.shapes)
        names = [f"#{at}" if at < count else f"step {at - count + 1}" for at in (i, j)]
        kind = "product" if depth == 1 and not set(a) & set(b) - set(out) else "GEMM"
        nbytes = prod(sizes[x] for x in out) * program.itemsize
        fits = nbytes <= TILE * SMALLEST_SBUF
        stays = ", fits SBUF" if fits and out is not program.steps[-1][2] else ""
        return (
            f"{a},{b}->{out}  ({' with '.join(names)}) {kind} {batch} x {rows} x {columns} x "
            f"{depth}, {pair_flops(a, b, out, sizes):,} flops, {nbytes:,} bytes{stays}"
        )

    @property
    def _products(self) -> list[Groups]:
        """The index groups of the steps that are matrix products."""
        program = self.program
        found = (
            groups_of(program.labels[i], program.labels[j], out, program.sizes)
            for i, j, out in program.steps
        )
        return [groups for groups in found if groups.depth]

    @property
    def _backend_and_reason(self) -> tuple[str, str]:
        choice = LIBRARY.choice()
        if choice.path == "pytorch":
            return choice.path, choice.reason
        if self.precision == "kahan":
            return "pytorch", "kahan is float64, which the kernels do not take"
        doublefloat = self.precision == "doublefloat"
        numbers = self.dtype.is_floating_point or self.dtype.is_complex
        if not (numbers if doublefloat else self.dtype in CONTRACT.dtypes):
            return "pytorch", f"the kernels do not take {self.dtype}"
        if not self._products:
            return "pytorch", "there is nothing to multiply and sum"
        launches = moved(self.program)[1]
        if doublefloat or self.dtype.is_complex:  # nothing is fused
            launches = ["doublefloat_gemm" if doublefloat else "contract"] * len(self._products)
        return choice.path, f"{', '.join(launches)} for {_steps(len(self.program.steps))}"


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _remade(
    text: str,
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...],
    dtype: torch.dtype,
    precision: Precision,
    options: Options,
    searched: str,
) -> ContractionPlan:
    """Return an unpickled plan for operands of these shapes and strides."""
    tensors = [
        torch.empty(shape, dtype=dtype, device="meta")
        if strides is None
        else torch.empty_strided(shape, strides, dtype=dtype, device="meta")
        for shape, strides in layouts
    ]
    plan = make_plan("plan_contraction", text, tensors, precision, options)
    plan.program.searched = searched
    return plan


# -- making and caching ----------------------------------------------------------------------------


PLANS: PlanCache[ContractionPlan] = PlanCache(_MOST_PLANS)


def plan_contraction(
    subscripts: str | Tensor,
    *operands: Any,
    precision: str | None = None,
    memory_limit: int | None = None,
    minimize: Minimize = "flops",
    path: Sequence[tuple[int, int]] | PathOptimizer | None = None,
) -> ContractionPlan:
    """Return the plan of ``einsum(subscripts, *operands)``; equal calls return the cached plan.

    Args:
        subscripts: As for ``einsum``.
        *operands: Tensors; only shape and dtype are used, and the strides with ``memory_limit``.
        precision: As for ``einsum``.
        memory_limit: Maximum bytes that an execution allocates at a time, the result included;
            larger contractions are computed in slices. It holds for operands with these strides.
        minimize: Objective of the path search: ``"flops"``; ``"time"`` on a NeuronCore, from bytes,
            tiles of 128 and residency in SBUF; or ``"size"`` of the largest intermediate.
        path: A path instead of a search: pairs of positions in the list of remaining tensors, with
            results appended; or an optimizer of opt_einsum or cotengra,
            ``path(inputs, output, sizes)``.

    Raises:
        ShapeError, FlagError, DTypeError, DeviceError: As ``einsum``; or the limit is too small.

    Example:
        >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
        >>> plan_contraction("ij,jk->ik", a, b).estimated_flops
        24
    """
    function = "plan_contraction"
    text, tensors = read_arguments(function, subscripts, operands)
    check_operands(function, text, tensors)
    chosen = checked_precision(function, precision)
    options = Options(memory_limit, minimize, path)
    return (cached_plan if path is None else make_plan)(function, text, tensors, chosen, options)


def cached_plan(
    function: str, text: str, tensors: Sequence[Tensor], precision: Precision, options: Options
) -> ContractionPlan:
    """Return the plan for validated operands, cached or new."""
    shapes = tuple([x.shape for x in tensors])
    layout = None if options[0] is None else _strides_of(tensors)
    key = text, precision, options, tensors[0].dtype, shapes, layout
    try:
        found = PLANS.get(key)
    except TypeError:  # symbolic sizes have no hash
        return make_plan(function, text, tensors, precision, options)
    if found is not None:
        return found
    return PLANS.keep(key, make_plan(function, text, tensors, precision, options))


def make_plan(
    function: str, text: str, tensors: Sequence[Tensor], precision: Precision, options: Options
) -> ContractionPlan:
    """Return a new plan for validated operands."""
    memory_limit, minimize, _ = options
    if minimize not in ("flops", "time", "size"):
        raise FlagError(f"{function}: minimize must be flops, time or size, got {minimize!r}")
    if memory_limit is not None:
        memory_limit = whole(function, "memory_limit", memory_limit, 0, error=ShapeError)
        options = options._replace(memory_limit=memory_limit)
    equation = parse(function, text, tuple(x.ndim for x in tensors))
    shapes = tuple(tuple(x.shape) for x in tensors)
    itemsize = tensors[0].element_size()
    strides = None if memory_limit is None else _strides_of(tensors)
    program = make_program(function, equation, shapes, itemsize, options, strides)
    inputs, output = equation.inputs, equation.output
    batch = contraction = ""
    strategy, transposed = "path", (False, False)
    if len(inputs) == 2:
        left, right = program.labels[:2]
        groups = groups_of(left, right, output, program.sizes)
        batch, contraction = groups.batch, groups.depth
        strategy = "torch" if not contraction else "bmm" if batch else "matmul"
        transposed = _transposed(inputs, contraction, batch)
    elif len(inputs) == 1:
        strategy = "torch"
    if not contraction:
        contraction = "".join(x for x in program.sizes if x not in output)
    return ContractionPlan(
        text,
        strategy,
        *transposed,
        tuple(contraction),
        tuple(batch),
        tuple(output),
        _multiply_adds(program),
        program.path,
        precision,
        tensors[0].dtype,
        shapes,
        memory_limit,
        minimize,
        program,
    )


def _strides_of(tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], ...] | None:
    """Return the strides of operands, or None if all are contiguous."""
    if all(x.is_contiguous() for x in tensors):
        return None
    return tuple(x.stride() for x in tensors)


def _transposed(inputs: tuple[str, ...], contraction: str, batch: str) -> tuple[bool, bool]:
    """Return whether each operand of a product is transposed relative to GEMM."""
    left, right = ("".join(x for x in term if x not in batch) for term in inputs)
    return left[:1] != "" and left[0] in contraction and len(left) > 1, (
        right[:1] != "" and right[-1] in contraction and len(right) > 1
    )


def _multiply_adds(program: Program) -> int:
    total = 0
    for i, j, _ in program.steps:
        total += prod(program.parts[x] for x in {*program.labels[i], *program.labels[j]})
    if not program.steps:
        total = prod(program.sizes.values())
    return total * program.slice_count


def clear_plan_cache() -> None:
    """Clear the plan cache and its hit and miss counts."""
    PLANS.clear()


def plan_cache_info() -> dict[str, int]:
    """Return size, capacity, hits and misses of the plan cache."""
    return PLANS.info()


def estimate_flops(subscripts: str | Tensor, *operands: Any) -> int:
    """Return the multiply-adds of a contraction evaluated over all indices at once.

    It is the product of the sizes of all indices: M K N for a matrix product. A plan of three or
    more operands needs fewer: see its ``estimated_flops``.

    Raises:
        ShapeError, FlagError: As ``einsum``.
    """
    text, tensors = read_arguments("estimate_flops", subscripts, operands)
    check_operands("estimate_flops", text, tensors)
    equation = parse("estimate_flops", text, tuple(x.ndim for x in tensors))
    return prod(sizes_of("estimate_flops", equation, [x.shape for x in tensors]).values())
