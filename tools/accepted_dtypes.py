"""Accepted dtypes of every operand of every instruction, determined with the static checks.

There is no separate list: a dtype is accepted if a legal call of ``tests/nkisim/samples.py`` stays
legal with it, in one operand or in all operands of the same dtype.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import nkisim
import nkisim.language as nl
from nkisim import NkiValidationError
from nkisim.dtypes import DType
from nkisim.machine.calls.legality import check_call
from nkisim.options import SimOptions
from nkisim.spec.call import Call

GENERATIONS = ("gen2", "gen3", "gen4")
FLOATS = ("float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e4m3fn")
FLOATS += ("float8_e5m2",)
INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
PACKS = ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4")
DTYPES = (*FLOATS, *INTEGERS, *PACKS)
GROUPS = {
    "every dtype": {*FLOATS, *INTEGERS, *PACKS},
    "every dtype but the packs of four": {*FLOATS, *INTEGERS},
    "every float": set(FLOATS),
    "every integer": set(INTEGERS),
    "every pack of four": set(PACKS),
}

Accepted = Mapping[tuple[str, str], Mapping[str, set[str]]]
"""Accepted dtypes by instruction and operand, and by generation."""


def accepted(tests: Path, instructions: Collection[str]) -> Accepted:
    """Return the accepted dtypes of every operand of some instructions on every generation."""
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    samples = [sample for sample in _samples(tests) if sample.instruction in instructions]
    for target in GENERATIONS:
        generation = SimOptions(target=target).generation()

        def ask(unused: Any, target: str = target, generation: Any = generation) -> Any:
            made: dict[Any, Any] = {}
            for sample in samples:
                if target not in sample.targets:
                    continue
                for operand, dtype, tiles in _variants(sample):
                    key = sample.instruction, operand.split("[")[0]
                    if dtype not in found[key][target] and _legal(sample, tiles, generation, made):
                        found[key][target].add(dtype)
            return unused

        nkisim.simulate(ask, target=target)(np.zeros((1, 1), np.float32))
    return found


def _samples(tests: Path) -> list[Any]:
    """Return the legal calls, imported from the tests under a different package name."""
    package = ModuleType("legal_calls")
    package.__path__ = [str(tests / "nkisim")]
    sys.modules.setdefault("legal_calls", package)
    return importlib.import_module("legal_calls.samples").SAMPLES


def _variants(sample: Any) -> Iterator[tuple[str, str, dict[str, tuple[Any, Any]]]]:
    """Yield an operand, a dtype, and the call's operand shapes and dtypes with that dtype."""
    given = {name: (tile, tile.dtype) for name, tile in sample.tiles.items()}
    # Column operands for which the sample has a number or None.
    like = next((tile for tile in sample.tiles.values() if tile.buffer == "sbuf"), None)
    for name, operand in sample.declaration.operands.items():
        if operand.column and name not in given and like is not None:
            column = replace(like, shape=(like.shape[0], 1), values=None)
            for dtype in DTYPES:
                yield name, dtype, given | {name: (column, getattr(nl, dtype))}
    for operand, (tile, old) in given.items():
        for dtype in DTYPES:
            new = getattr(nl, dtype)
            yield operand, dtype, given | {operand: (tile, new)}
            alike = {n: (t, new) for n, (t, kept) in given.items() if kept == old}
            if len(alike) > 1:
                yield operand, dtype, given | alike


def _legal(sample: Any, tiles: Mapping[str, tuple[Any, DType]], generation: Any, made: Any) -> bool:
    arguments: dict[str, Any] = {}
    for name, value in sample.settings.items():
        arguments[name] = value(0) if isinstance(value, type(lambda: 0)) else value
    for name, (tile, dtype) in tiles.items():
        key = name, tile.shape, str(dtype), tile.buffer
        if key not in made:
            made[key] = nl.ndarray(tile.shape, dtype=dtype, buffer=tile.region)
        first, bracket, _ = name.partition("[")
        if bracket:
            arguments.setdefault(first, []).append(made[key])
        else:
            arguments[name] = made[key]
    bound = sample.declaration.signature.bind(**arguments)
    bound.apply_defaults()
    call = Call(sample.declaration, dict(bound.arguments), generation)
    try:
        check_call(sample.declaration, call)
    except NkiValidationError:
        return False
    return all((v.severity or v.rule.severity) != "error" for v in call.violations)


def described(by_generation: Mapping[str, set[str]]) -> str:
    """Describe the dtypes of an operand: those of all generations, then those of some."""
    having = [target for target in GENERATIONS if by_generation.get(target)]
    if not having:
        return "-"
    common = set.intersection(*(by_generation[target] for target in having))
    parts = [_named(common)] if common else []
    for more in dict.fromkeys(frozenset(by_generation[target] - common) for target in having):
        where = [target for target in having if by_generation[target] - common == more]
        if more:
            parts.append(f"on {' and '.join(where)}{' also' if common else ''} {_named(more)}")
    return "; ".join(parts)


def _named(dtypes: Iterable[str]) -> str:
    """Return dtypes as text; complete groups by their name."""
    words, left = [], set(dtypes)
    for name, group in GROUPS.items():
        if group <= left:
            words.append(name)
            left -= group
    return ", ".join([*words, *(dtype for dtype in DTYPES if dtype in left)])
