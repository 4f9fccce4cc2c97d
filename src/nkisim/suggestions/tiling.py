"""Fixes of tiles that are too large: work on a whole tensor becomes a loop over parts of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nkisim.diagnostics import Rewrite
from nkisim.source import Statement, expression, extent_of
from nkisim.spec import OPS
from nkisim.suggestions.staging import PARTITIONS
from nkisim.suggestions.statement import Case, fixes, only_if

_COLUMNS = 2048
"""Columns of a tile; 8 KiB per partition of float32, long enough for efficient DMA."""

_WORK = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)

COLUMNWISE = {
    *("activation", "dma_copy", "memset", "reciprocal", "scalar_tensor_tensor", "tensor_copy"),
    *("tensor_scalar", "tensor_tensor"),
    *("load", "ndarray", "store", "zeros"),
    *OPS,
}
"""Functions that treat every column alike."""


@dataclass
class _Run:
    """A run of statements that becomes the body of a loop over one dimension.

    Attributes:
        case: The finding and its statement, the first of the run.
        axis: The dimension.
        extent: Extent of the dimension, as source text.
        count: Extent of the dimension, as a number.
        step: Extent of one part of the dimension.
        first, last: Names of the bounds of a part.
        hoisted: Statements that make tensors in HBM, which go in front of the loop.
        body: Statements that go into the loop.
        tiles: Tiles that they make.
        cut: Other tensors of which each step uses a part.
    """

    case: Case
    axis: int
    extent: str
    count: int
    step: int
    first: str
    last: str
    hoisted: list[ast.stmt] = field(default_factory=list)
    body: list[ast.stmt] = field(default_factory=list)
    tiles: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)

    def collect(self) -> bool:
        """Find the statements of the run; return whether no tile is used after it."""
        block = self.case.block
        start = end = block.index(self.case.statement)
        for at in range(start, len(block)):
            statement = block[at]
            if not isinstance(statement, _WORK):
                break
            made = _made_in(self.case, statement)
            if made == "hbm":
                self.hoisted.append(statement)
                continue
            if made == "chip" and isinstance(statement, ast.Assign):
                target = statement.targets[0]
                if not isinstance(target, ast.Name):
                    return False
                self.tiles.add(target.id)
            if made != "chip" and not _names(statement) & self.tiles:
                break
            self.body.append(statement)
            end = at
        later: set[str] = set().union(*map(_names, block[end + 1 :]))
        self.cut = {f.name for f in self.case.finding.facts if self._is_cut(f.shape, f.buffer)}
        for one in (Statement(self.case.source, statement) for statement in self.hoisted):
            alike = extent_of(one.arguments.get("shape"), self.axis) == self.extent
            self.cut |= {one.target} if alike and one.target else set()
        return bool(self.body) and not self.tiles & later

    def _is_cut(self, shape: tuple[int, ...], buffer: str) -> bool:
        whole = len(shape) > self.axis and shape[self.axis] == self.count
        return whole and ("hbm" in buffer or self.axis == 1)

    def cuts_all(self) -> bool:
        """Return whether each tensor that the body uses is one of its tiles or cut into parts."""
        shapes = {"shape", "dtype", "buffer"}
        nodes = [node for statement in self.body for node in ast.walk(statement)]
        described = {
            id(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr in shapes
        }
        used = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in described}
        tensors = {f.name for f in self.case.finding.facts if f.name in used} - self.tiles
        return bool(used & self.cut) and tensors <= self.cut

    def rewrite(self) -> Rewrite:
        """Return the loop."""
        body = [self._for_part(statement) for statement in self.body]
        loop = _in_parts(self.first, self.last, self.extent, self.step, body)
        return self.case.rewrite(*map(ast.unparse, self.hoisted), *loop, upto=self.body[-1])

    def _for_part(self, statement: ast.stmt) -> str:
        """Return a statement for one step."""
        run, width = self, expression(f"{self.last} - {self.first}")

        class Slicer(ast.NodeTransformer):
            def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
                whole = ast.unparse(node)
                if f"{whole}[{run.axis}]" != run.extent:
                    return node  # x.shape and x.dtype are no uses of x's elements
                name = node.value.id if isinstance(node.value, ast.Name) else ""
                fact = run.case.variable(name)
                parts: list[ast.expr] = [
                    expression(f"{whole}[{i}]") for i in range(len(fact.shape) if fact else 2)
                ]
                parts[run.axis] = width
                return ast.Tuple(parts, ast.Load())

            def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
                self.generic_visit(node)
                if len(node.elts) > run.axis and ast.unparse(node.elts[run.axis]) == run.extent:
                    node.elts[run.axis] = width
                return node

            def visit_Name(self, node: ast.Name) -> ast.AST:
                if node.id not in run.cut:
                    return node
                part = f"{run.first}:{run.last}"
                return expression(f"{node.id}[{':, ' * run.axis}{part}]")

            def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
                return node if ast.unparse(node) == run.extent else self.generic_visit(node)

        return ast.unparse(Slicer().visit(ast.parse(ast.unparse(statement)).body[0]))


def _in_parts(
    first: str, last: str, extent: str, step: str | int, body: Iterable[str]
) -> Iterator[str]:
    """Yield the lines of a loop over an extent, by parts from ``first`` to ``last``."""
    yield f"for {first} in range(0, {extent}, {step}):"
    yield f"    {last} = min({first} + {step}, {extent})"
    yield from (f"    {line}" for text in body for line in text.splitlines())


def _names(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}


def _made_in(case: Case, statement: ast.stmt) -> str:
    """Return the kind of memory, HBM or on chip, of the tensor that a statement makes, if any."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call):
        return ""
    module, _, name = case.path(call.func).rpartition(".")
    if module != "nki.language":
        return ""
    return "hbm" if "hbm" in ast.unparse(call) and name in ("ndarray", "zeros") else "chip"


def _extent(case: Case, axis: int) -> str:
    """Return the extent of the tile as it is written; empty where it is not."""
    shape = case.arguments.get("shape")
    if isinstance(shape, ast.Attribute | ast.Tuple):
        return extent_of(shape, axis)
    return f"{case.name('src')}.shape[{axis}]" if case.name("src") else ""


@fixes("S001")
def _by_rows(case: Case) -> Rewrite:
    """Work on all rows becomes a loop over 128 rows at a time.

    Only for a run of plain statements that treats every row alike: the tiles made in it have the
    same rows, and tensors in HBM with so many rows are used whole.
    """
    count, extent = case.finding.data["rows"], _extent(case, 0)
    run = _Run(case, 0, extent, count, PARTITIONS, case.fresh("r"), case.fresh("r1"))
    only_if(extent and run.collect() and run.cuts_all())
    return run.rewrite()


@fixes("M009")
def _by_columns(case: Case) -> Rewrite:
    """Work on all columns becomes a loop over some columns at a time.

    Only for a run of instructions that treat every column alike, on whole tensors with as many
    columns and on single columns.
    """
    count, extent = case.finding.data["columns"], _extent(case, 1)
    only_if(count is not None, extent)
    run = _Run(case, 1, extent, count, _COLUMNS, case.fresh("c"), case.fresh("c1"))
    only_if(run.collect() and _is_columnwise(run))
    return run.rewrite()


def _is_columnwise(run: _Run) -> bool:
    modules = {"nki.isa", "nki.language"}
    facts = {f.name: f for f in run.case.finding.facts if not f.argument}
    for statement in run.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                module, _, name = run.case.path(node.func).rpartition(".")
                reduces = any("reduce" in (k.arg or "reduce") for k in node.keywords)
                if module not in modules or name not in COLUMNWISE or reduces:
                    return False
            if isinstance(node, ast.Subscript) and not ast.unparse(node).startswith(run.extent):
                return False
            name = node.id if isinstance(node, ast.Name) else ""
            whole = name in facts and name not in run.cut | run.tiles
            if whole and facts[name].shape[1:] != (1,):
                return False
        if not isinstance(statement, (ast.Assign, ast.Expr)):
            return False
    return True


@fixes("S030")
def _product(case: Case) -> Rewrite:
    """A product with too many columns is computed for some of them at a time."""
    dst, moving = case.known("dst"), case.known("moving")
    only_if(case.is_plain("dst", "stationary", "moving", "accumulate"))
    only_if(case.name("dst"), case.name("moving"))
    only_if(len(dst.shape) == len(moving.shape) == 2 and dst.shape[1] == moving.shape[1])
    first, last, step = case.fresh("c"), case.fresh("c1"), f"{case.nl}.tile_size.gemm_moving_fmax"
    extent = f"{case.text('moving')}.shape[1]"
    given = {name: case.text(name) for name in case.arguments}
    given |= {name: f"{given[name]}[:, {first}:{last}]" for name in ("dst", "moving")}
    return case.rewrite(*_in_parts(first, last, extent, step, [case.with_given(**given)]))
