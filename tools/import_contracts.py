"""Additional import-linter contracts: no imports of private modules, no import cycles."""

from __future__ import annotations

from collections.abc import Iterator
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

    Imports inside functions and those for type checkers count.
    """

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        whole = grimp.build_graph(*self.packages, cache_dir=None)
        imports = {
            module: sorted(whole.find_modules_directly_imported_by(module))
            for module in sorted(whole.modules)
        }
        circles = [sorted(part) for part in _components(imports) if len(part) > 1]
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for circle in check.metadata["circles"]:
            output.print_error(f"a circle of imports: {', '.join(circle)}")


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
