"""What names mean: modules and functions of NKI, values, arguments of calls, kernels."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from nkisim import versions
from nkisim.source.nodes import Nodes
from nkisim.source.scopes import Assignment, Function

# Functions of nki.language that give no tensor.
_NO_TENSOR = {
    *("abs_max", "abs_min", "affine_range", "device_print", "ds", "dynamic_range", "fori_loop"),
    *("is_hbm", "is_on_chip", "is_psum", "is_sbuf", "no_reorder", "num_programs", "program_id"),
    *("program_ndim", "random_seed", "sequential_range", "static_range", "store", "while_loop"),
}


@cache
def tensor_functions() -> frozenset[str]:
    """Return the functions of nki.language that give a tensor, in any version."""
    known = (versions.names_of(v)["nki.language"]["functions"] for v in versions.VERSIONS)
    return frozenset().union(*known) - _NO_TENSOR


@cache
def writes_tile(name: str) -> bool:
    """Return whether a function of nki.isa writes to ``dst``, so that its Beta 1 form gave a tile.

    Functions that return a generation or a register do not, nor do enums.
    """
    known = (versions.parameter_names(v, "nki.isa", name) for v in versions.VERSIONS)
    return name == "builtin_custom_op" or any("dst" in parameters for parameters in known)


def _parameters(path: str) -> tuple[str, ...] | None:
    """Return the parameters of a function of NKI in the version in force, or in the next with it.

    None for another function.
    """
    module, _, name = path.rpartition(".")
    if module not in ("nki.collectives", "nki.isa", "nki.language"):
        return None
    for version in (versions.in_force(), *versions.VERSIONS):
        if versions.parameters(version, module, name) is not None:
            return versions.parameter_names(version, module, name)
    return None


def arguments_of(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter, or none if they cannot be told apart.

    They cannot if there are stars, too many arguments, or two for one parameter.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(parameters):
        return {}
    found = dict(zip(parameters, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in found:
            return {}
        found[keyword.arg] = keyword.value
    return found


def nki_arguments(call: ast.Call, path: str) -> dict[str, ast.expr]:
    """Return the arguments of a function of NKI by parameter; none if that is not certain."""
    parameters = _parameters(path)
    return {} if parameters is None else arguments_of(call, parameters)


_OUTPUTS = ("dst", "dst_idx", "dst_scale", "idx_dst", "reduce_res", "val_dst")
"""Parameters of NKI that are written."""

_STATE = {
    *("activation_reduce", "core_barrier", "dropout", "rand2", "rand_get_state", "rand_set_state"),
    *("register_alloc", "register_load", "register_move", "register_store", "rng", "sendrecv"),
    *("set_rng_seed",),
}
"""Functions of nki.isa with effects on more than their operands."""


def written_operands(call: ast.Call, path: str) -> list[ast.expr]:
    """Return the operands that a function of NKI writes; none if that is not certain."""
    given = nki_arguments(call, path)
    return [given[name] for name in _OUTPUTS if name in given]


def keeps_state(call: ast.Call, path: str) -> bool:
    """Return whether a call uses state of its core: random numbers, registers, running sums."""
    command = nki_arguments(call, path).get("reduce_cmd")
    continues = command is not None and not ast.unparse(command).endswith("reset_reduce")
    return continues or path.removeprefix("nki.isa.") in _STATE


RANGES = ("range", *(f"nki.language.{kind}_range" for kind in ("affine", "sequential", "static")))
"""Functions whose loops have numbers as indices."""


def range_of(loop: ast.For, path: Callable[[ast.AST], str]) -> tuple[str, str, str] | None:
    """Return start, stop and step of a loop over numbers, as expressions; None of another loop."""
    call = loop.iter
    if not isinstance(call, ast.Call) or path(call.func) not in RANGES or call.keywords:
        return None
    given = arguments_of(call, ("start", "stop", "step"))
    if not given or not isinstance(loop.target, ast.Name):
        return None
    first, *others = map(ast.unparse, given.values())
    start, stop = (first, others[0]) if others else ("0", first)
    return start, stop, others[1] if len(others) > 1 else "1"


OLD_PACKAGE = "neuronxcc."
SHORT_NAMES = {
    "nki.collectives": "ncc",
    "nki.isa": "nisa",
    "nki.language": "nl",
    "nki": "nki",
}
"""The usual names of the modules of NKI."""


class Argument(NamedTuple):
    """One argument of a call.

    Attributes:
        node: The argument as it is written, with its keyword or stars.
        value: The expression.
        keyword: Its keyword, if it has one.
        star: ``"*"`` or ``"**"`` in front of it, else empty.
    """

    node: ast.expr | ast.keyword
    value: ast.expr
    keyword: str | None = None
    star: str = ""


class Names(Nodes):
    """A module whose names are resolved as far as its text shows what they are."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[ast.AST, str | None] = {}
        self._calls: dict[str, list[tuple[str, ast.Call]]] = {}
        self._aliases: dict[str, str | None] = {}
        self._given: dict[ast.Call, list[Argument]] = {}
        self._kernels: list[Function] | None = None
        self._device: list[Function] | None = None

    def name(self, node: ast.AST) -> str | None:
        """Return the full name (``"nki.language.load"``) that an expression imports, or None.

        The namespace of Beta 1 counts as ``nki``. A name that is also bound to anything else in
        its scope has no full name: nothing is known about it.
        """
        if node not in self._names:
            self._names[node] = self._name(node)
        return self._names[node]

    def _name(self, node: ast.AST) -> str | None:
        base, tail = node, ""
        while isinstance(base, ast.Attribute):
            tail, base = f".{base.attr}{tail}", base.value
        if not isinstance(base, ast.Name):
            return None
        bound = self.bound(base)
        names = {one.imported and one.imported + tail for one in bound}
        full = names.pop() if len(names) == 1 else ""
        if len(bound) == 1 and not full:
            full = self._aliased(bound[0]) + tail
            full = full if full.startswith("nki.") else ""
        return full.removeprefix(OLD_PACKAGE) or None

    def path(self, node: ast.AST) -> str:
        """Return the full name of an expression, or that of a builtin; empty if unknown."""
        if isinstance(node, ast.Name) and not self.bound(node):
            return node.id if hasattr(builtins, node.id) else ""
        return self.name(node) or ""

    def _aliased(self, bound: Assignment) -> str:
        """Return the full name in ``run = nki.simulate_kernel`` at the top of a file, or ""."""
        statement = self.parent(bound.node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return ""
        value, outermost = statement.value, bound.scope.parent is None
        return (self.name(value) or "") if outermost and isinstance(value, ast.Attribute) else ""

    def imported_names(self) -> Iterator[str]:
        """Yield the full names of imports whose local name has no other binding."""
        for item in self.all(ast.alias):
            name = item.asname or item.name.split(".")[0]
            full = {one.imported for one in self.scope(item).lookup(name)}
            if len(full) == 1:
                yield full.pop().removeprefix(OLD_PACKAGE)

    def is_alias(self, node: ast.AST) -> bool:
        """Return whether a name is an alias of one of NKI by assignment, not by import."""
        if not isinstance(node, ast.Name) or self.name(node) is None:
            return False
        return not any(one.imported for one in self.bound(node))

    def nki_name(self, node: ast.AST, module: str) -> str | None:
        """Return ``"load"`` for ``nl.load`` if ``module`` is ``"nki.language"``, else None."""
        full = self.name(node)
        head = module + "."
        if full is None or not full.startswith(head) or "." in full[len(head) :]:
            return None
        return full[len(head) :]

    def alias(self, module: str) -> str | None:
        """Return the expression for a module of NKI at the top of the file, if it is imported."""
        if module not in self._aliases:
            self._aliases[module] = self._alias(module)
        return self._aliases[module]

    def _alias(self, module: str) -> str | None:
        wanted = {module, OLD_PACKAGE + module}
        made = self.body(self.module).assignments
        bound = {name: {one.imported for one in several} for name, several in made.items()}
        for name in sorted(bound, key=lambda n: (n != SHORT_NAMES.get(module), n)):
            if bound[name] <= wanted:
                return name
        if module != "nki" and "nki" in bound:
            written = {self.code(a) for a in self.all(ast.Attribute) if self.name(a) == module}
            if module in written or (bound["nki"] == {"nki"} and module in self.imported):
                return module
        return None

    @cached_property
    def imported(self) -> set[str]:
        """The modules that imports name, with the packages that they are in."""
        names = {item.name for one in self.all(ast.Import) for item in one.names}
        names |= {one.module or "" for one in self.all(ast.ImportFrom) if not one.level}
        return {name[: dot.start()] for name in names for dot in re.finditer(r"\.|\Z", name)}

    def values(self, name: ast.AST) -> list[ast.expr] | None:
        """Return the expressions that a name is assigned, or None if something else binds it.

        Tuples on the left, loop variables, parameters and augmented assignments are such bindings.
        """
        found = []
        for assignment in self.bound(name) if isinstance(name, ast.Name) else ():
            statement = self.parent(assignment.node)
            if isinstance(statement, ast.AugAssign):
                continue
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                return None
            found.append(statement.value)
        return found or None

    # -- calls -------------------------------------------------------------------------------

    def calls(self, module: str, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of functions of a module of NKI; of all of them without ``names``."""
        if module not in self._calls:
            named = ((self.nki_name(call.func, module), call) for call in self.all(ast.Call))
            self._calls[module] = [(name, call) for name, call in named if name is not None]
        for name, call in self._calls[module]:
            if not names or name in names:
                yield call

    def given(self, call: ast.Call) -> list[Argument]:
        """Return the arguments of a call, in the order of the text."""
        if call not in self._given:
            found = [
                Argument(a, a.value, star="*") if isinstance(a, ast.Starred) else Argument(a, a)
                for a in call.args
            ]
            found += [Argument(k, k.value, k.arg, "" if k.arg else "**") for k in call.keywords]
            self._given[call] = sorted(found, key=lambda a: self.span(a.node)[0])
        return self._given[call]

    def call_of(self, value: ast.AST) -> ast.Call | None:
        """Return the call that an expression is an argument of, if it is one."""
        call = self.parent(value)
        if isinstance(call, ast.keyword | ast.Starred):
            value, call = call, self.parent(call)
        return call if isinstance(call, ast.Call) and call.func is not value else None

    def arguments(self, call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
        """Return the arguments of a call by parameter, or none if they cannot be told apart."""
        return arguments_of(call, parameters)

    def keyword(self, call: ast.Call, name: str) -> Argument | None:
        """Return the argument that is passed to a call by this keyword."""
        for argument in self.given(call):
            if argument.keyword == name:
                return argument
        return None

    # -- functions ---------------------------------------------------------------------------

    def parameters(self, function: Function) -> list[str]:
        """Return the names of the parameters that are passed by position."""
        return [p.arg for p in (*function.args.posonlyargs, *function.args.args)]

    def kernels(self) -> list[Function]:
        """Return the functions decorated with ``nki.jit`` and the ones passed to it by name."""
        if self._kernels is None:
            passed = {
                given[0].value.id
                for call in self.calls("nki", "jit", "simulate")
                if (given := self.given(call)) and isinstance(given[0].value, ast.Name)
            }
            self._kernels = [
                function
                for function in self.functions
                if function.name in passed
                or any(
                    self.name(d.func if isinstance(d, ast.Call) else d)
                    in ("nki.jit", "nki.trace", "nki.baremetal", "nki.benchmark", "nki.profile")
                    for d in function.decorator_list
                )
            ]
        return self._kernels

    def device_functions(self) -> list[Function]:
        """Return the kernels and the functions of the file that they call."""
        if self._device is not None:
            return self._device
        wanted = list(self.kernels())
        by_name: dict[str, list[Function]] = {}
        for function in self.functions:
            by_name.setdefault(function.name, []).append(function)
        for function in wanted:
            for call in self.within(function.body, ast.Call):
                if isinstance(call.func, ast.Name):
                    for callee in by_name.get(call.func.id, []):
                        if callee not in wanted:
                            wanted.append(callee)
        self._device = wanted
        return wanted

    def in_device_code(self, node: ast.AST) -> bool:
        """Return whether a node is in the body of a kernel or of a function that one calls."""
        function = self.function_of(node)
        return function is not None and function in self.device_functions()
