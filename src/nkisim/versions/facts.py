"""Additions, changes and removals of each version, with their evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nkisim.versions import VERSIONS, names_of
from nkisim.versions.rules import CHANGES

ASSUMED: Mapping[str, Mapping[str, str]] = {
    "0.7.0": {
        "U7-01": "instructions that no page names behave as in 0.6.0",
        "U7-02": "no name was removed",
        "U7-03": "trn3 is the target without a device; trn1 is accepted",
        "U7-04": "topk ascends without sorted and descends with it; other columns are not written",
        "U7-05": "tiles of alloc_tiles lie side by side on chip, row by row",
        "U7-06": "the body of a compiled loop runs in each iteration of a simulation",
        "U7-07": "while_loop takes registers only",
        "U7-08": "with_schedule adds edges; one against the program's order has no effect",
        "U7-09": "== of objects compared fields before",
        "U7-10": "dynamic_range is an error with constant bounds too",
        "U7-11": "a scalar in Python control flow raises TypeError",
        "U7-12": "scalars have + - * only",
        "U7-13": "the index of fori_loop between integers is an int32 scalar",
        "U7-14": "a scalar may be an index of a tensor, never an extent",
        "U7-15": "rg_partition_op has three members",
        "U7-16": "SDK 2.33.1 does not change NKI",
        "U7-17": "the wheel is for Python 3.12 to 3.14",
        "U7-18": "parser is custom and tracer the default of NKI_COMPILER_FRONTEND",
    }
}
"""Open questions of the documentation by version, with the answer that is used."""

DEDUCED: Mapping[str, tuple[str, ...]] = {
    "0.7.0": ("nki.collectives.all_gather_v_trigger", "nki.language.NkiTensor.data")
}
"""Names whose signature or existence follows from other pages."""


def differences(version: str) -> dict[str, list[str]]:
    """Return the names that a version adds, changes and removes against the one before."""
    place = VERSIONS.index(version)
    found: dict[str, list[str]] = {"adds": [], "changes": [], "removes": []}
    older = _flat(VERSIONS[place - 1]) if place else _flat(version)
    newer = _flat(version)
    for name in sorted({*older, *newer}):
        if name not in older:
            found["adds"].append(name)
        elif name not in newer:
            found["removes"].append(name)
        elif older[name] != newer[name]:
            found["changes"].append(name)
    return found


def _flat(version: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for module, content in names_of(version).items():
        names |= {f"{module}.{name}": text for name, text in content["functions"].items()}
        names |= {f"{module}.{name}": "" for name in content["names"]}
        for name, parts in content["classes"].items():
            names[f"{module}.{name}"] = ""
            for method, text in parts.get("methods", {}).items():
                names[f"{module}.{name}.{method}"] = text
            names |= {f"{module}.{name}.{a}": "" for a in parts.get("attributes", ())}
    return names


def evidence(version: str) -> Counter[str]:
    """Return the number of stated, deduced and assumed facts of a version.

    A fact is a name that differs from the version before, or a rule of the language.
    """
    differing = [name for names in differences(version).values() for name in names]
    deduced = set(DEDUCED.get(version, ()))
    counts = Counter("deduced" if name in deduced else "stated" for name in differing)
    counts.update(held[version].basis for held in CHANGES.values() if version in held)
    counts["assumed"] += len(ASSUMED.get(version, ()))
    return counts
