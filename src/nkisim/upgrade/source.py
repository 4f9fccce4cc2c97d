"""A parsed module: spans, parents, the NKI names that expressions stand for, arguments of calls."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from nkisim.rewriting import Edit
from nkisim.upgrade.scopes import Assignment, Scope, Tree

__all__ = ["Source", "literal_integer"]

_OLD = "neuronxcc."
_SHORT = {"nki.isa": "nisa", "nki.language": "nl", "nki": "nki"}

N = TypeVar("N", bound=cst.CSTNode)


class _Wrapper(MetadataWrapper):
    """Does not visit the tree for no visitors, as ``resolve`` does for spans."""

    def visit_batched(
        self, visitors: Iterable[cst.BatchableCSTVisitor], *around: Any, **named: Any
    ) -> cst.CSTNode:
        return super().visit_batched(visitors, *around, **named) if visitors else self.module


class Source:
    """One module, parsed once for all rules."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        wrapper = _Wrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = wrapper.module
        self._spans: Mapping[cst.CSTNode, Any] = wrapper.resolve(ByteSpanPositionProvider)
        self._tree = Tree(self.module)
        self._starts: dict[type[cst.CSTNode], list[int]] = {}
        self._bounds: dict[cst.CSTNode, tuple[int, int]] = {}
        self._names: dict[cst.CSTNode, str | None] = {}
        self._calls: dict[str, list[tuple[str, cst.Call]]] = {}
        self._aliases: dict[str, str | None] = {}
        self._kernels: list[cst.FunctionDef] | None = None
        self._device: list[cst.FunctionDef] | None = None
        for nodes in self._tree.nodes.values():
            nodes.sort(key=lambda node: self._spans[node].start)

    # -- nodes --------------------------------------------------------------------------------

    def all(self, kind: type[N]) -> Sequence[N]:
        """Return the nodes of one type, in the order of the text."""
        return self._tree.nodes.get(kind, [])  # type: ignore[return-value]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node that contains ``node`` directly."""
        return self._tree.parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes that contain ``node``, the innermost first."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def within(self, outer: cst.CSTNode, kind: type[N]) -> list[N]:
        """Return the nodes of one type that lie inside ``outer``."""
        start, stop = self.span(outer)
        nodes = self.all(kind)
        if kind not in self._starts:
            self._starts[kind] = [self.span(node)[0] for node in nodes]
        starts = self._starts[kind]
        inside = nodes[bisect_left(starts, start) : bisect_left(starts, stop)]
        return [node for node in inside if self.span(node)[1] <= stop]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first byte of a node and the byte behind its last one, with parentheses."""
        known = self._bounds.get(node)
        if known is None:
            found = self._spans[node]
            start, length = found.start, found.length
            before = after = ""
            if isinstance(node, cst.BaseExpression):
                before = "".join(map(self.module.code_for_node, node.lpar))
                after = "".join(map(self.module.code_for_node, node.rpar))
            known = start - len(before.encode()), start + length + len(after.encode())
            self._bounds[node] = known
        return known

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node as it is written."""
        start, stop = self.span(node)
        return self.data[start:stop].decode()

    def line(self, node: cst.CSTNode) -> int:
        """Return the line of a node, counted from 1."""
        return self.data.count(b"\n", 0, self.span(node)[0]) + 1

    def replaced(self, node: cst.CSTNode, text: str) -> Edit:
        """Return the edit that replaces a node."""
        return Edit(*self.span(node), text)

    # -- names --------------------------------------------------------------------------------

    def scope(self, node: cst.CSTNode) -> Scope | None:
        """Return the scope in which a node is evaluated."""
        return self._tree.scopes.get(node)

    def name(self, node: cst.CSTNode) -> str | None:
        """Return the full name (``"nki.language.load"``) that an expression imports, or None.

        The namespace of Beta 1 counts as ``nki``. A name that is also bound to anything else in
        its scope has no full name: nothing is known about it.
        """
        if node not in self._names:
            self._names[node] = self._name(node)
        return self._names[node]

    def _name(self, node: cst.CSTNode) -> str | None:
        base, tail = node, ""
        while isinstance(base, cst.Attribute):
            tail, base = f".{base.attr.value}{tail}", base.value
        scope = self.scope(base)
        if not isinstance(base, cst.Name) or scope is None:
            return None
        bound = scope.lookup(base.value)
        names = {one.imported and one.imported + tail for one in bound}
        full = names.pop() if len(names) == 1 else ""
        if len(bound) == 1 and not full:
            full = self._aliased(bound[0]) + tail
            full = full if full.startswith("nki.") else ""
        return full.removeprefix(_OLD) or None

    def _aliased(self, bound: Assignment) -> str:
        """Return the full name in ``run = nki.simulate_kernel`` at the top of a file, or ""."""
        target = self.parent(bound.node)
        statement = None if target is None else self.parent(target)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return ""
        whole = statement.targets[0].target is bound.node and bound.scope.parent is None
        value = statement.value
        return (self.name(value) or "") if whole and isinstance(value, cst.Attribute) else ""

    def is_alias(self, node: cst.CSTNode) -> bool:
        """Return whether a name stands for one of NKI because it is assigned to it."""
        scope = self.scope(node)
        if not isinstance(node, cst.Name) or scope is None or self.name(node) is None:
            return False
        return not any(one.imported for one in scope.lookup(node.value))

    def nki_name(self, node: cst.CSTNode, module: str) -> str | None:
        """Return ``"load"`` for ``nl.load`` if ``module`` is ``"nki.language"``, else None."""
        full = self.name(node)
        head = module + "."
        if full is None or not full.startswith(head) or "." in full[len(head) :]:
            return None
        return full[len(head) :]

    def calls(self, module: str, *names: str) -> Iterator[cst.Call]:
        """Yield the calls of functions of a module of NKI; of all of them without ``names``."""
        if module not in self._calls:
            named = ((self.nki_name(call.func, module), call) for call in self.all(cst.Call))
            self._calls[module] = [(name, call) for name, call in named if name is not None]
        for name, call in self._calls[module]:
            if not names or name in names:
                yield call

    def alias(self, module: str) -> str | None:
        """Return the expression for a module of NKI at the top of the file, if it is imported."""
        if module not in self._aliases:
            self._aliases[module] = self._alias(module)
        return self._aliases[module]

    def _alias(self, module: str) -> str | None:
        wanted = {module, _OLD + module}
        scope = self.scope(self.module)
        if scope is None:
            return None
        bound = {name: {one.imported for one in made} for name, made in scope.assignments.items()}
        for name in sorted(bound, key=lambda n: (n != _SHORT.get(module), n)):
            if bound[name] <= wanted:
                return name
        if module != "nki" and "nki" in bound:
            tail = module.removeprefix("nki.")
            node_names = {self.code(a) for a in self.all(cst.Attribute) if self.name(a) == module}
            if f"nki.{tail}" in node_names:
                return f"nki.{tail}"
        return None

    def import_of(self, module: str) -> tuple[str, list[Edit]] | None:
        """Return an expression for a module of NKI and the edits that import it.

        None if its usual short name already means something else in this file.
        """
        known = self.alias(module)
        if known is not None:
            return known, []
        short = _SHORT[module]
        if any(name.value == short and not self._names_module(name) for name in self.all(cst.Name)):
            return None
        for line in self.all(cst.SimpleStatementLine):
            imports = [s for s in line.body if isinstance(s, cst.Import | cst.ImportFrom)]
            if not imports or not isinstance(self.parent(line), cst.Module):
                continue
            if re.search(r"\bnki\b", self.code(line)):
                start = self.span(line)[0]
                text = "import nki" if module == "nki" else f"import {module} as {short}"
                return short, [Edit(start, start, text + self.newline)]
        return None

    def _names_module(self, name: cst.Name) -> bool:
        """Return whether a name is a part of the name of a module that is imported."""
        for above in self.ancestors(name):
            if isinstance(above, cst.AsName):
                return False
            if isinstance(above, cst.Import | cst.ImportFrom):
                scope = self.scope(above)
                made = [] if scope is None else scope.assignments[name.value]
                return all(one.node is not above for one in made)
        return False

    @property
    def newline(self) -> str:
        """The line ending of the file."""
        return self.module.default_newline

    # -- functions ----------------------------------------------------------------------------

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost function that contains a node."""
        for above in self.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                return above
        return None

    def kernels(self) -> list[cst.FunctionDef]:
        """Return the functions decorated with ``nki.jit`` and the ones passed to it by name."""
        if self._kernels is None:
            given = {
                self.code(call.args[0].value)
                for call in self.calls("nki", "jit", "simulate")
                if call.args and isinstance(call.args[0].value, cst.Name)
            }
            self._kernels = [
                function
                for function in self.all(cst.FunctionDef)
                if function.name.value in given
                or any(
                    self.name(
                        d.decorator.func if isinstance(d.decorator, cst.Call) else d.decorator
                    )
                    in ("nki.jit", "nki.trace", "nki.baremetal", "nki.benchmark", "nki.profile")
                    for d in function.decorators
                )
            ]
        return self._kernels

    def device_functions(self) -> list[cst.FunctionDef]:
        """Return the kernels and the functions of the file that they call."""
        if self._device is not None:
            return self._device
        wanted = list(self.kernels())
        by_name: dict[str, list[cst.FunctionDef]] = {}
        for function in self.all(cst.FunctionDef):
            by_name.setdefault(function.name.value, []).append(function)
        for function in wanted:
            for call in self.within(function.body, cst.Call):
                if isinstance(call.func, cst.Name):
                    for callee in by_name.get(call.func.value, []):
                        if callee not in wanted:
                            wanted.append(callee)
        self._device = wanted
        return wanted

    def in_device_code(self, node: cst.CSTNode) -> bool:
        """Return whether a node is in the body of a kernel or of a function that one calls."""
        function = self.function_of(node)
        return function is not None and function in self.device_functions()

    # -- statements ---------------------------------------------------------------------------

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the line that consists of the one simple statement around ``node``, if it does."""
        for above in (node, *self.ancestors(node)):
            if isinstance(above, cst.SimpleStatementLine):
                return above if len(above.body) == 1 else None
            if isinstance(above, cst.BaseCompoundStatement | cst.Lambda | cst.BaseComp):
                return None
        return None

    def indent(self, line: cst.SimpleStatementLine) -> str:
        """Return the white space in front of a line."""
        start = self.span(line)[0]
        return self.data[self.data.rfind(b"\n", 0, start) + 1 : start].decode()

    def before(self, line: cst.SimpleStatementLine, *statements: str) -> Edit:
        """Return the edit that inserts statements in front of a line."""
        start, indent = self.span(line)[0], self.indent(line)
        return Edit(start, start, "".join(s + self.newline + indent for s in statements))

    def without(self, line: cst.SimpleStatementLine) -> Edit | None:
        """Return the edit that removes a line, or None where that would lose something.

        A line with a comment behind it, and the only line of a block, stay.
        """
        block = self.parent(line)
        if line.trailing_whitespace.comment is not None:
            return None
        if not isinstance(block, cst.IndentedBlock | cst.Module) or len(block.body) < 2:
            return None
        start, stop = self.span(line)
        start = self.data.rfind(b"\n", 0, start) + 1
        stop = self.data.find(b"\n", stop) + 1 or len(self.data)
        return Edit(start, stop, "")

    def emptied(self, line: cst.SimpleStatementLine) -> Edit:
        """Return the edit that removes a line; a comment behind it and its block stay."""
        whole = self.without(line)
        if whole is not None:
            return whole
        start, stop = self.span(line.body[0])
        comment = line.trailing_whitespace.comment
        block = self.parent(line)
        alone = isinstance(block, cst.IndentedBlock) and len(block.body) < 2
        if comment is None or alone:
            return Edit(start, stop, "pass")
        return Edit(start, self.span(comment)[0], "")

    def is_bare(self, line: cst.SimpleStatementLine | None, call: cst.CSTNode) -> bool:
        """Return whether a line is one call and nothing else."""
        return (
            line is not None and isinstance(line.body[0], cst.Expr) and line.body[0].value is call
        )

    def unconditional(self, node: cst.CSTNode) -> bool:
        """Return whether a node is always evaluated, and once, by its simple statement."""
        for above in self.ancestors(node):
            if isinstance(above, cst.BaseSmallStatement):
                return True
            if isinstance(above, cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.BaseComp):
                return False
        return False

    def fresh(self, wish: str) -> str:
        """Return a name that the file does not use yet."""
        used = {name.value for name in self.all(cst.Name)}
        number, name = 2, wish
        while name in used:
            name, number = f"{wish}_{number}", number + 1
        return name

    # -- values -------------------------------------------------------------------------------

    def values(self, name: cst.CSTNode) -> list[cst.BaseExpression] | None:
        """Return the expressions that a name is assigned, or None if something else binds it.

        Tuples on the left, loop variables, parameters and augmented assignments are others.
        """
        scope = self.scope(name)
        if not isinstance(name, cst.Name) or scope is None:
            return None
        found = []
        for assignment in scope.lookup(name.value):
            target = self.parent(assignment.node)
            statement = None if target is None else self.parent(target)
            if (
                isinstance(target, cst.AssignTarget)
                and isinstance(statement, cst.Assign)
                and target.target is assignment.node
            ):
                found.append(statement.value)
            elif isinstance(target, cst.AnnAssign) and target.value is not None:
                found.append(target.value)
            elif not isinstance(target, cst.AugAssign):
                return None
        return found or None

    def arguments(
        self, call: cst.Call, parameters: Sequence[str]
    ) -> dict[str, cst.BaseExpression] | None:
        """Return the arguments of a call by parameter, or None if they cannot be told apart."""
        found: dict[str, cst.BaseExpression] = {}
        for position, argument in enumerate(call.args):
            if argument.star:
                return None
            if argument.keyword is not None:
                key = argument.keyword.value
            elif position < len(parameters):
                key = parameters[position]
            else:
                return None
            if key in found:
                return None
            found[key] = argument.value
        return found

    def without_import(self, item: cst.ImportAlias) -> Edit | None:
        """Return the edit that removes one name from a ``from`` import, or its statement."""
        statement = self.parent(item)
        if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
            return None
        names = list(statement.names)
        index = names.index(item)
        if len(names) == 1:
            line = self.statement(statement)
            return None if line is None else self.emptied(line)
        if index + 1 < len(names):
            return Edit(self.span(item)[0], self.span(names[index + 1])[0], "")
        before = names[index - 1]
        end = self.span(before.asname or before.name)[1]
        return Edit(end, self.span(item.asname or item.name)[1], "")

    def unused_imports(self, *modules: str) -> Iterator[cst.SimpleStatementLine]:
        """Yield the lines that import only modules of these packages, which nothing uses."""
        for line in self.all(cst.SimpleStatementLine):
            statement = line.body[0]
            if len(line.body) > 1 or not isinstance(statement, cst.Import | cst.ImportFrom):
                continue
            scope = self.scope(statement)
            made = () if scope is None else scope.assignments.values()
            bound = [one for several in made for one in several if one.node is statement]
            heads = tuple(f"{module}." for module in modules)
            if bound and not any(
                one.references or not f"{one.imported.removeprefix(_OLD)}.".startswith(heads)
                for one in bound
            ):
                yield line

    def keyword(self, call: cst.Call, name: str) -> cst.Arg | None:
        """Return the argument that is passed to a call by this keyword."""
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value == name:
                return argument
        return None

    def without_argument(self, call: cst.Call, argument: cst.Arg) -> Edit:
        """Return the edit that removes an argument and its comma."""
        index = call.args.index(argument)
        start, stop = self.span(argument)
        if index + 1 < len(call.args):
            return Edit(start, self.span(call.args[index + 1])[0], "")
        if index > 0:
            return Edit(self.span(call.args[index - 1].value)[1], self.span(argument.value)[1], "")
        stop = self.span(argument.value)[1]
        rest = re.match(rb"\s*,", self.data[stop:])
        return Edit(start, stop + (rest.end() if rest else 0), "")


def literal_integer(node: cst.CSTNode) -> int | None:
    """Return the value of an integer literal, also of a negative one."""
    if isinstance(node, cst.Integer):
        return int(node.value.replace("_", ""), 0)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = literal_integer(node.expression)
        return None if inner is None else -inner
    return None
