"""Kernels with an edited source, made in memory: module-level statements do not run again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import linecache
import os
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from nkisim.api import Kernel
from nkisim.source import File, definition_of

EDITED = "<edit "
"""Beginning of the name of an edited file."""

_NUMBERS = itertools.count(1)


class KernelFile:
    """A kernel and the file that defines it.

    Attributes:
        kernel: The kernel.
        file: The parsed file.
    """

    def __init__(self, kernel: Kernel, file: File) -> None:
        self.kernel = kernel
        self.file = file

    def edited(self, text: str) -> Kernel:
        """Return the kernel as another text of its file defines it.

        The functions of the file get the code of the new text; their defaults, closures and
        decorators stay, and so do all other values of the module. The text is known to
        ``linecache`` under a name of its own until ``forget``.

        Raises:
            SyntaxError: The text is not valid Python.
        """
        name = f"{EDITED}{next(_NUMBERS)}>/{os.path.basename(self.file.file)}"
        made = _Twins(self.file, text, name).of(self.kernel)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        assert isinstance(made, Kernel)
        return made

    def forget(self, kernel: Kernel) -> None:
        """Remove the text of an edited kernel from ``linecache``."""
        linecache.cache.pop(_code(kernel.function).co_filename, None)


def kernel_file(kernel: Kernel) -> KernelFile | None:
    """Return a kernel with its file, None if its source is not available."""
    function = kernel.function
    if not isinstance(function, FunctionType | MethodType):
        return None
    found = definition_of(_plain(function))
    return None if found is None else KernelFile(kernel, found[0])


def _plain(function: Any) -> Any:
    return function.__func__ if isinstance(function, MethodType) else function


def _code(function: Any) -> CodeType:
    code: CodeType = _plain(function).__code__
    return code


class _Twins:
    """Copies of the functions of a file, with the code of another text."""

    def __init__(self, file: File, text: str, name: str) -> None:
        self._file = file.file
        # private: a change is tried by running the user's own file with the change applied; no
        # other way shows what it does. Nothing else is executed.
        old, new = (compile(t, name, "exec", dont_inherit=True) for t in (file.text, text))
        codes = dict(_codes(new))
        self._codes = {
            (code.co_firstlineno, code.co_qualname): codes[key]
            for key, code in _codes(old)
            if key in codes
        }
        self._made: dict[int, Any] = {}

    def of(self, thing: Any) -> Any:
        """Return the copy of a function, method or kernel of the file, anything else unchanged."""
        if isinstance(thing, Kernel):
            function = self.of(thing.function)
            same = function is thing.function
            return thing if same else dataclasses.replace(thing, func=function)
        if isinstance(thing, MethodType):
            function = self.of(thing.__func__)
            return thing if function is thing.__func__ else MethodType(function, thing.__self__)
        if not isinstance(thing, FunctionType) or thing.__code__.co_filename != self._file:
            return thing
        known = self._made.get(id(thing))
        return self._function(thing) if known is None else known

    def _function(self, old: FunctionType) -> FunctionType:
        code = self._codes.get((old.__code__.co_firstlineno, old.__code__.co_qualname))
        if code is None:
            return old
        around = dict(zip(old.__code__.co_freevars, old.__closure__ or (), strict=True))
        if not around.keys() >= set(code.co_freevars):
            return old
        cells = tuple(self._cell(around[name]) for name in code.co_freevars)
        names = self._made.get(id(old.__globals__))
        first = names is None
        if names is None:
            names = self._made[id(old.__globals__)] = {}
        new = FunctionType(code, names, old.__name__, old.__defaults__, cells)
        self._made[id(old)] = new
        new.__kwdefaults__ = old.__kwdefaults__
        new.__qualname__, new.__module__, new.__doc__ = (
            old.__qualname__,
            old.__module__,
            old.__doc__,
        )
        new.__annotations__ = old.__annotations__
        new.__dict__.update(old.__dict__)
        if first:
            names.update({name: self.of(value) for name, value in old.__globals__.items()})
        return new

    def _cell(self, old: CellType) -> CellType:
        """Return the copy of a variable of a closure."""
        known = self._made.get(id(old))
        if known is None:
            known = self._made[id(old)] = CellType()
            with contextlib.suppress(ValueError):  # not assigned yet
                known.cell_contents = self.of(old.cell_contents)
        assert isinstance(known, CellType)
        return known


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yield the code objects in one, each with its qualified name and its number among equals."""
    found: dict[str, int] = {}
    waiting = [code]
    while waiting:
        inner = [part for part in waiting.pop().co_consts if isinstance(part, CodeType)]
        for part in sorted(inner, key=lambda part: part.co_firstlineno):
            number = found[part.co_qualname] = found.get(part.co_qualname, -1) + 1
            yield (part.co_qualname, number), part
        waiting += inner
