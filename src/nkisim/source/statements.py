"""Statements with the call that they make, its arguments, and what is around them."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TypeVar

from nkisim.source.files import File
from nkisim.source.meaning import FileGlobals
from nkisim.source.names import nki_arguments
from nkisim.source.scopes import Function

N = TypeVar("N", bound=ast.AST)


class Statement:
    """A statement of a file, and one of its calls.

    Attributes:
        source: The names of the file.
        statement: The statement.
        instruction: The function whose call is meant; empty for the outermost call.
    """

    def __init__(self, source: FileGlobals, statement: ast.stmt, instruction: str = "") -> None:
        self.source = source
        self.statement = statement
        self.instruction = instruction

    @property
    def tree(self) -> File:
        """The whole file."""
        return self.source.tree

    @property
    def block(self) -> list[ast.stmt]:
        """The list of statements that contains the statement."""
        return self.tree.siblings(self.statement)

    def all(self, kind: type[N]) -> list[N]:
        """Return the nodes of one type in the function that contains the statement."""
        return [node for f in self.functions()[-1:] for node in self.tree.within(f, kind)]

    @property
    def target(self) -> str:
        """The name that the statement assigns; empty if it is no assignment to a name."""
        made = self.statement.targets[0] if isinstance(self.statement, ast.Assign) else None
        return made.id if isinstance(made, ast.Name) else ""

    @property
    def value(self) -> ast.expr | None:
        """The expression that the statement assigns, evaluates or returns."""
        return getattr(self.statement, "value", None)

    def maker(self, name: str) -> ast.Assign | None:
        """Return the assignment of a variable in the function; None unless there is one."""
        makers = [s for s in self.all(ast.Assign) if ast.unparse(s.targets[0]) == name]
        return makers[0] if len(makers) == 1 else None

    def loops(self) -> list[ast.For]:
        """Return the loops of the function around the statement, outermost first."""
        found: list[ast.For] = []
        for above in self.tree.ancestors(self.statement):
            if isinstance(above, Function):
                break
            found += [above] if isinstance(above, ast.For) else []
        return found[::-1]

    def functions(self) -> list[Function]:
        """Return the functions that contain the statement, outermost first."""
        around = (self.statement, *self.tree.ancestors(self.statement))
        return [node for node in around if isinstance(node, Function)][::-1]

    # -- names -------------------------------------------------------------------------------------

    @cached_property
    def nisa(self) -> str:
        """Name of ``nki.isa`` in the file."""
        return self.source.alias("nki.isa")

    @cached_property
    def nl(self) -> str:
        """Name of ``nki.language`` in the file."""
        return self.source.alias("nki.language")

    def path(self, node: ast.AST) -> str:
        """Return the full name of a dotted name of the statement or of a copy of it, if known."""
        return self.source.of(node, self.tree.scope(self.statement)).path

    def isa(self, instruction: str, **given: str) -> str:
        """Return a call of an instruction."""
        return f"{self.nisa}.{instruction}({', '.join(f'{k}={v}' for k, v in given.items())})"

    def tile(
        self, name: str, like: str = "", *, shape: str = "", dtype: str = "", buffer: str = "sbuf"
    ) -> str:
        """Return the statement that makes a tensor, of the shape and dtype of another one."""
        shape, dtype = shape or f"{like}.shape", dtype or f"{like}.dtype"
        return f"{name} = {self.nl}.ndarray({shape}, dtype={dtype}, buffer={self.nl}.{buffer})"

    # -- the call ----------------------------------------------------------------------------------

    @cached_property
    def call(self) -> ast.Call | None:
        """The call of the function that is meant; without one, the outermost."""
        calls = [n for n in ast.walk(self.statement) if isinstance(n, ast.Call)]
        for node in calls:
            if self.instruction and self._called(node)[1] == self.instruction:
                return node
        return calls[0] if calls and not self.instruction else None

    def _called(self, call: ast.Call) -> tuple[str, str]:
        """Return the module and the name of a called function; no module where it is unknown."""
        module, _, name = self.path(call.func).rpartition(".")
        return module, name or (call.func.attr if isinstance(call.func, ast.Attribute) else "")

    @cached_property
    def function(self) -> str:
        """Name of the called function, without its module."""
        return "" if self.call is None else self._called(self.call)[1]

    @cached_property
    def arguments(self) -> dict[str, ast.expr]:
        """The arguments of the call, by parameter; empty where they are not plain."""
        if self.call is None:
            return {}
        module, name = self._called(self.call)
        modules = [module] if module else ["nki.isa", "nki.language"]
        found = (nki_arguments(self.call, f"{module}.{name}") for module in modules)
        return next(filter(None, found), {})

    def name(self, argument: str) -> str:
        """Return the variable that is passed for a parameter; empty for another expression."""
        node = self.arguments.get(argument)
        return node.id if isinstance(node, ast.Name) else ""

    def text(self, argument: str) -> str:
        """Return an argument as it is written; empty where it is not given."""
        node = self.arguments.get(argument)
        return "" if node is None else ast.unparse(node)
