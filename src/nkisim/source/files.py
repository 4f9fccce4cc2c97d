"""Files of source that are read once, and the definitions in them by line."""

from __future__ import annotations

import ast
import inspect
import linecache
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

from nkisim.diagnostics.syntax import SYNTAX_LOCK
from nkisim.source.names import Names

_READ: dict[str, tuple[list[str], File | None]] = {}
_MOST_READ = 256

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class File(Names):
    """A parsed file.

    Attributes:
        file: Its name.
        globals: The meanings of its global names, once resolved.
        units: Units of its definitions, cached as long as the tree.
    """

    def __init__(self, file: str, text: str) -> None:
        super().__init__(text)
        self.file = file
        self.globals: Any = None
        self.units: dict[tuple[ast.AST, int], Any] = {}

    @cached_property
    def definitions(self) -> list[Definition]:
        """All definitions, nested ones included, in the order of the text."""
        both: list[Definition] = [*self.functions, *self.all(ast.ClassDef)]
        return sorted(both, key=lambda node: node.lineno)

    @cached_property
    def _by_line(self) -> dict[tuple[int, str], Definition]:
        return {(_first_line(node), node.name): node for node in reversed(self.definitions)}

    def at(self, line: int, name: str) -> Definition | None:
        """Return the definition of a name whose first line, decorators included, is ``line``."""
        return self._by_line.get((line, name))

    @cached_property
    def _statements(self) -> dict[int, ast.stmt]:
        kinds = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.For)
        statements = [statement for kind in kinds for statement in self.all(kind)]
        found: dict[int, ast.stmt] = {}
        for statement in sorted(statements, key=lambda s: (s.lineno, s.col_offset)):
            last = statement.lineno if isinstance(statement, ast.For) else statement.end_lineno
            found |= dict.fromkeys(range(statement.lineno, (last or 0) + 1), statement)
        return found

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the last simple statement on a line, or the loop that begins there."""
        return self._statements.get(line)

    def of_class(self, name: str) -> ast.ClassDef | None:
        """Return the class of a dotted name, which is in no function."""
        for node in self.all(ast.ClassDef):
            if self.qualified(node) == name and self.function_of(node) is None:
                return node
        return None

    def qualified(self, node: Definition) -> str:
        """Return the name of a definition with the classes around it, as in ``Class.kernel``."""
        name, outer = node.name, self.outer(node)
        while isinstance(outer, ast.ClassDef):
            name, outer = f"{outer.name}.{name}", self.outer(outer)
        return name

    def outer(self, node: Definition) -> Definition | None:
        """Return the enclosing definition of a definition."""
        return next((a for a in self.ancestors(node) if isinstance(a, Definition)), None)

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """The last value that the module assigns to each of its names."""
        return {
            one.name: statement.value
            for made in self.body(self.module).assignments.values()
            for one in made
            if isinstance(statement := self.parent(one.node), ast.Assign | ast.AnnAssign)
            and statement.value is not None
            and self.parent(statement) is self.module
        }


def _first_line(node: Definition) -> int:
    """Return the first line of a definition; a decorator's, where there is one."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def read_file(file: str) -> File | None:
    """Return a file, or None if its source is unavailable or not valid Python.

    The source is the one used for tracebacks, which notebooks and consoles provide too.
    """
    lines = linecache.getlines(file)
    known = _READ.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    found: File | None = None
    if lines:
        try:
            found = File(file, "".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            found = None
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        # linecache gives the same list until the file is read again.
        _READ[file] = (lines, found)
    return found


def raise_if_unreadable(file: str) -> None:
    """Raise a SyntaxError for a file that is not valid Python.

    Python reads the bytes itself, so that encodings and their marks are as in an import.
    """
    with SYNTAX_LOCK:
        try:
            ast.parse(Path(file).read_bytes(), file)
        except (RecursionError, MemoryError):
            raise SyntaxError("too deeply nested", (file, 1, None, None)) from None
        except ValueError as error:
            raise SyntaxError(str(error), (file, 1, None, None)) from None


def with_parameters(function: Any) -> Any:
    """Return the function whose parameters a call of ``function`` has.

    Of a wrapper with ``__wrapped__`` that takes ``*args`` or ``**kwargs``, that is the function
    that it wraps; of other wrappers the wrapper itself.
    """
    wrapped = getattr(function, "__wrapped__", None)
    code = getattr(function, "__code__", None)
    variable = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if wrapped is None or (code is not None and not code.co_flags & variable):
        return function
    return with_parameters(wrapped)


def definition_of(thing: object) -> tuple[File, Definition] | None:
    """Return the definition of a function or class, or None if its source is unavailable."""
    code = getattr(thing, "__code__", None)
    try:
        name = code.co_filename if isinstance(code, CodeType) else inspect.getsourcefile(thing)  # type: ignore[arg-type]
    except TypeError:  # C code defines it, or it is another object
        return None
    file = None if name is None else read_file(name)
    if file is None:
        return None
    if isinstance(code, CodeType):
        node = file.at(code.co_firstlineno, code.co_name)
    else:
        node = file.of_class(getattr(thing, "__qualname__", ""))
    return None if node is None else (file, node)
