#!/usr/bin/env python
"""Write the type stubs of ``nki.isa``, ``nki.language`` and ``nki``.

Instructions become callable at run time, when they are declared, so type checkers do not see their
parameters; the stubs contain them, from the declarations. Other names are imported from their
defining modules. The files are part of the repository; a test compares them with the output of this
script.

    python tools/gen_stubs.py [FOLDER]     below FOLDER; default: src
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = "# Written by tools/gen_stubs.py.\n"

if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from nki_names import names_and_versions  # noqa: E402

import nkisim.isa  # noqa: E402
import nkisim.language  # noqa: E402
from nkisim.spec import INSTRUCTIONS, Instruction, Operand  # noqa: E402
from nkisim.versions import VERSIONS  # noqa: E402

# Names that a module imports under another name.
ALIASES = {
    "DType": "builtins import str",
    "bool": "nkisim.dtypes import bool_",
    "range": "builtins import range",
}

# Types of non-tensor parameters by name; an enum default implies its members and their names.
KINDS = {
    "name": "str | None",
    "value": "float | int",
    "reverse0": "bool",
    "reverse1": "bool",
}


def main(folder: Path = ROOT / "src") -> None:
    """Write all stubs below ``folder``."""
    for path, text in stubs().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def stubs() -> dict[str, str]:
    """Return the text of each stub, by its path."""
    return {
        "nkisim/isa/__init__.pyi": isa_stub(),
        "nkisim/language/__init__.pyi": HEAD + reexports("language", set()),
        "nki-stubs/__init__.pyi": (
            HEAD + "from nkisim import collectives as collectives\nfrom nkisim import isa as isa\n"
            "from nkisim import jit as jit\nfrom nkisim import language as language\n"
            "from nkisim import simulate as simulate\nfrom nkisim import typing as typing\n"
        ),
        **{
            f"nki-stubs/{name}.pyi": HEAD + f"from nkisim.{name} import *\n"
            for name in ("collectives", "isa", "language", "typing")
        },
        "nki-stubs/py.typed": "partial\n",
    }


def isa_stub() -> str:
    kinds = {
        type(p.default).__name__
        for i in INSTRUCTIONS.values()
        for p in i.signature.parameters.values()
        if isinstance(p.default, Enum)
    }
    others = reexports("isa", set(INSTRUCTIONS))
    hidden = [name for name in sorted(kinds) if f" as {name}\n" not in others]
    imports = "from typing import Any\n\nfrom nkisim.memory import NkiTensor\n"
    imports += "".join(f"from nkisim.spec.enums import {name}\n" for name in hidden)
    body = "\n".join(declaration(i) for _, i in sorted(INSTRUCTIONS.items()))
    return HEAD + imports + others + "\n" + body


def reexports(module: str, leave: set[str]) -> str:
    """Return the imports of a module's public names from their defining modules.

    They are the names of all NKI versions.
    """
    package = getattr(nkisim, module)
    tree = ast.parse(Path(inspect.getsourcefile(package) or "").read_text(encoding="utf-8"))
    exported = sorted(names_and_versions(package))
    lines = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                public = name.asname or name.name
                if public in exported and public not in leave:
                    lines.append(f"from {node.module} import {name.name} as {public}\n")
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            public = node.targets[0].id
            if public in exported:
                lines.append(f"from {ALIASES[public]} as {public}\n")
    names = ",\n    ".join(f'"{name}"' for name in exported)
    return "".join(sorted(lines)) + f"\n__all__ = [\n    {names},\n]\n"


def declaration(instruction: Instruction) -> str:
    """Return an instruction as a typed function.

    It has the parameters of all NKI versions: those of the first in their order, then the others.
    """
    parts = []
    newest = instruction.at(VERSIONS[-1])
    for p in instruction.signature.parameters.values():
        operand = newest.operands.get(p.name)
        kind = of_operand(operand) if operand is not None else of_argument(p)
        parts.append(f"    {p.name}: {kind}" + ("" if p.default is p.empty else " = ...") + ",\n")
    said = textwrap.indent(instruction.documentation(instruction.parameters), "    ")
    return f'def {instruction.name}(\n{"".join(parts)}) -> None:\n    """{said[4:]}\n    """\n'


def of_operand(operand: Operand) -> str:
    if operand.many:
        return "Any"
    kinds = ["NkiTensor"]
    kinds += ["float", "int"] if operand.scalar else []
    kinds += ["None"] if operand.optional else []
    return " | ".join(kinds)


def of_argument(parameter: inspect.Parameter) -> str:
    if isinstance(parameter.default, Enum):
        return f"{type(parameter.default).__name__} | str"
    if isinstance(parameter.default, bool):
        return "bool"
    return KINDS.get(parameter.name, "Any")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
