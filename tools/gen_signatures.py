#!/usr/bin/env python
"""Write the public names of one NKI version, with parameters and defaults, from its documentation.

The documentation of every release has stubs: Python files with the signatures of ``nki``,
``nki.language``, ``nki.isa`` and ``nki.collectives``. This script reads them from a tag of a clone
of the documentation's repository and writes one file per version into ``nkisim/versions``. The
simulator takes names, parameters and defaults of a version from its file.

    python tools/gen_signatures.py CLONE v2.32.0 0.6.0
    python tools/gen_signatures.py --differences 0.5.0 0.6.0
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "nkisim" / "versions"

# Functions that the page of nki.isa lists, and the update guide deprecates, but no stub describes.
DEPRECATED = {
    "0.3.0": {
        "tensor_copy_dynamic_dst": "dst, src, engine=engine.unknown, name=None",
        "tensor_copy_dynamic_src": "dst, src, engine=engine.unknown, name=None",
    }
}

MODULES = ("nki", "nki.language", "nki.isa", "nki.collectives")


def main(arguments: list[str]) -> None:
    """Write the file of one version, or print the differences of two."""
    if len(arguments) == 3 and arguments[0] == "--differences":
        older, newer = (json.loads((FOLDER / f"{v}.json").read_text()) for v in arguments[1:])
        print("\n".join(differences(older, newer)))
    elif len(arguments) == 3:
        clone, tag, version = arguments
        found = {module: surface(stub(clone, tag, module)) for module in MODULES}
        older = [path for path in sorted(FOLDER.glob("*.json")) if path.stem < version]
        if older:
            complete(found, json.loads(older[-1].read_text()))
        found["nki.isa"]["functions"] |= DEPRECATED.get(version, {})
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        (FOLDER / f"{version}.json").write_text(text, encoding="utf-8")
    else:
        raise SystemExit(__doc__)


def stub(clone: str, tag: str, module: str) -> str:
    """Return the stub of a module at a tag of the documentation."""
    path = f"nki/api/{module.replace('.', '/')}/__init__.py"
    command = ["git", "-C", clone, "show", f"{tag}:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def surface(text: str) -> dict[str, Any]:
    """Return the public functions, classes and names of a stub."""
    functions, classes, names = {}, {}, []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            functions[node.name] = parameters(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes[node.name] = class_members(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                names.append(target.id)
    return {"functions": functions, "classes": classes, "names": sorted(names)}


def parameters(node: ast.FunctionDef) -> str:
    """Return the parameters of a function with their defaults, without annotations.

    The stubs write some defaults in several ways: ``nl.equal`` and ``equal``,
    ``MemoryRegion.sbuf`` and ``sbuf``, ``'uint8'`` and ``uint8``.
    """
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    text = re.sub(r"\b(nl|MemoryRegion)\.", "", ast.unparse(node.args))
    return text.replace("dtype='uint8'", "dtype=uint8")


def complete(found: dict[str, Any], older: dict[str, Any]) -> None:
    """Take defaults that a stub leaves out (``...``) from the version before."""
    for module, content in found.items():
        for name, text in content["functions"].items():
            for left_out in re.findall(r"(\w+)=\.\.\.", text):
                known = re.search(rf"\b{left_out}=([^,]+)", older[module]["functions"][name])
                text = text.replace(f"{left_out}=...", known[0] if known else left_out)
            content["functions"][name] = text


def class_members(node: ast.ClassDef) -> dict[str, Any]:
    """Return the members of an enum, or the attributes and the methods of a class."""
    values, methods, attributes = [], {}, []
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            if any(ast.unparse(d) == "property" for d in part.decorator_list):
                attributes.append(part.name)
            else:
                methods[part.name] = parameters(part)
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            values.append(part.targets[0].id)
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            attributes.append(part.target.id)
    if any(ast.unparse(base) == "Enum" for base in node.bases):
        return {"members": sorted(values)}
    return {"attributes": sorted([*attributes, *values]), "methods": methods}


def differences(older: dict[str, Any], newer: dict[str, Any], path: str = "") -> list[str]:
    """Return the differences of two versions, one line for each."""
    lines = []
    for name in sorted({*older, *newer}):
        full = f"{path}.{name}" if path else name
        before, after = older.get(name), newer.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            lines += differences(before, after, full)
        elif isinstance(before, list) and isinstance(after, list):
            lines += [f"- {full}: {gone}" for gone in before if gone not in after]
            lines += [f"+ {full}: {new}" for new in after if new not in before]
        elif before != after:
            lines += [] if before is None else [f"- {full}({before})"]
            lines += [] if after is None else [f"+ {full}({after})"]
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
