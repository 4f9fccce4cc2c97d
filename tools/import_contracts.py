"""Additional import-linter contracts: no imports of private modules, no import cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["AcyclicContract", "PublicContract"]


class PublicContract(Contract):
    """Packages do not import private modules of each other.

    A module is private if a part of its path has a leading underscore, or if it is below the top
    level of a ``sealed`` package.
    """

    packages = fields.ListField(subfield=fields.StringField())
    sealed = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        packages, sealed = list(self.packages), list(self.sealed or [])
        known = {*packages, *sealed}
        found = [
            (module, other)
            for module in sorted(graph.modules)
            for other in sorted(graph.find_modules_directly_imported_by(module))
            if _root(module) in packages
            and _root(other) in known - {_root(module)}
            and (_is_private(other) or (_root(other) in sealed and "." in other))
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, other in check.metadata["found"]:
            output.print_error(f"{module} imports {other}, which is private")


class AcyclicContract(Contract):
    """The packages have no import cycle.

    Imports inside functions and those for type checkers count. So does a look-up by name,
    ``LIBRARY.operations["gemm"]``: as an import of each module of the package that declares the
    operation, ``GEMM = Operation(LIBRARY, "gemm", ...)``; with a name that is computed, of each
    module with a declaration of this form.
    """

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        whole = grimp.build_graph(*self.packages, cache_dir=None)
        imports = {
            module: sorted(whole.find_modules_directly_imported_by(module))
            for module in sorted(whole.modules)
        }
        for module, others in _look_ups(sorted(whole.modules)).items():
            imports[module] = sorted({*imports[module], *others} - {module})
        circles = [sorted(part) for part in _components(imports) if len(part) > 1]
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for circle in check.metadata["circles"]:
            output.print_error(f"a circle of imports: {', '.join(circle)}")


def _look_ups(modules: list[str]) -> dict[str, set[str]]:
    """Return, for each module that looks operations up by name, the modules that declare them."""
    trees = {module: _tree(module) for module in modules}
    declared = {module: _declared(tree) for module, tree in trees.items()}
    found: dict[str, set[str]] = {}
    for module, tree in trees.items():
        for name in _looked_up(tree):
            found.setdefault(module, set()).update(
                other
                for other in modules
                if _root(other) == _root(module)
                and (name in declared[other] if name else declared[other])
            )
    return found


def _tree(module: str) -> ast.Module:
    """Return the syntax tree of a module, without importing it."""
    root, *rest = module.split(".")
    spec = find_spec(root)
    assert spec is not None, f"{root} is not found"
    folder = Path(spec.submodule_search_locations[0], *rest)
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _looked_up(tree: ast.Module) -> set[str]:
    """Return the names in subscripts of ``.operations``; an empty one for what is computed."""
    return {
        str(getattr(node.slice, "value", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "operations"
    }


def _declared(tree: ast.Module) -> set[str]:
    """Return the texts that calls assigned to upper-case names have as arguments."""
    return {
        argument.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
        for argument in node.value.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


def _components(imports: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected components of a graph (Tarjan, 1972), without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for start in imports:
        if start in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _visit(start, number, lowest, path, on_path, work, imports)
        while work:
            module, rest = work[-1]
            for other in rest:
                if other not in number:
                    _visit(other, number, lowest, path, on_path, work, imports)
                    break
                if other in on_path:
                    lowest[module] = min(lowest[module], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[module])
                if lowest[module] == number[module]:
                    place = path.index(module)
                    yield path[place:]
                    on_path.difference_update(path[place:])
                    del path[place:]


def _visit(
    module: str,
    number: dict[str, int],
    lowest: dict[str, int],
    path: list[str],
    on_path: set[str],
    work: list[tuple[str, Iterator[str]]],
    imports: dict[str, list[str]],
) -> None:
    number[module] = lowest[module] = len(number)
    path.append(module)
    on_path.add(module)
    work.append((module, iter(imports[module])))
