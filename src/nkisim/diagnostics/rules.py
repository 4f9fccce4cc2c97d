"""Rules: the faults nkisim can report, one object per catalogue id.

A rule is declared once, next to the code that checks it, and registers itself here. Ids are stable
and never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "warning", "note"]

_REGISTRY: dict[str, Rule] = {}

RULES: Mapping[str, Rule] = MappingProxyType(_REGISTRY)
"""Every declared rule by id."""

_CHECKED: dict[str, Rule] = {}

CHECKED: Mapping[str, Rule] = MappingProxyType(_CHECKED)
"""The rules that a run or a check can find; the others are advice of ``nkisim.profile``."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault that a kernel can have.

    Attributes:
        id: Catalogue id, such as ``"S028"``.
        slug: Short name for people, such as ``"contraction-mismatch"``.
        severity: ``"error"`` (the run fails), ``"warning"`` (suspicious) or ``"note"``.
        checks: One sentence: the fault.
        matters: One sentence: the effect in the compiler or on the device.
        meaningless: True when no natural result exists; the run stops at every strictness level.
        on_values: True when it depends on values; a run without values does not find it.
        silent: True when neither the compiler nor the device refuses the kernel: it runs, and its
            results are wrong. So a kernel with the fault has a time, and a fix may change results.
            ``"in part"`` when some of its faults are refused.
        whole_call: True when several operands of a call that break it have one cause.
        detector: Name of the detector, for rules that a simulation checks only with that detector
            enabled; ``check`` enables all.
        since: Version of nkisim that introduced the rule.
    """

    id: str
    slug: str
    severity: Severity
    checks: str
    matters: str
    meaningless: bool = False
    on_values: bool = False
    detector: str = ""
    whole_call: bool = False
    silent: bool | Literal["in part"] = False
    since: str = "0.1.0"

    def __str__(self) -> str:
        return f"{self.severity}[{self.id}] {self.slug}"


def declare(
    id: str,
    slug: str,
    severity: Severity,
    checks: str,
    matters: str,
    *,
    meaningless: bool = False,
    on_values: bool = False,
    detector: str = "",
    whole_call: bool = False,
    silent: bool | Literal["in part"] = False,
    advice: bool = False,
) -> Rule:
    """Register and return a rule; an id can be declared only once.

    ``advice`` is True for a rule that ``nkisim.profile`` finds and no check looks for.
    """
    if id in _REGISTRY:
        raise ValueError(f"rule {id} is declared twice: {_REGISTRY[id].slug} and {slug}")
    rule = Rule(
        *(id, slug, severity, checks, matters, meaningless, on_values),
        detector=detector,
        whole_call=whole_call,
        silent=silent,
    )
    _REGISTRY[id] = rule
    if not advice:
        _CHECKED[id] = rule
    return rule
