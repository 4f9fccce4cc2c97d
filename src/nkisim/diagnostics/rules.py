"""Rules, one for each fault that nkisim can report, and the catalogue's faults without a rule.

A rule is declared once, next to the code that checks it, and registers itself here. Ids are stable
and never reused. A fault of the catalogue without a rule cannot be decided on a CPU, because it
depends on an intention, on the compiler's choice or on other programs; or it duplicates another
fault under a second id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]

_REGISTRY: dict[str, Rule] = {}

RULES: Mapping[str, Rule] = MappingProxyType(_REGISTRY)
"""Every declared rule by id."""

_CHECKED: dict[str, Rule] = {}

CHECKED: Mapping[str, Rule] = MappingProxyType(_CHECKED)
"""The rules that a run or a check can find; the others are advice of ``nkisim.profile``."""


class Rule(NamedTuple):
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
        whole_call: True when operands of one call break it for one reason; they are reported as
            one finding.
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
    checks: str,
    matters: str,
    *,
    severity: Severity = "error",
    meaningless: bool = False,
    on_values: bool = False,
    detector: str = "",
    whole_call: bool = False,
    silent: bool | Literal["in part"] = False,
) -> Rule:
    """Register and return a rule; an id can be declared only once."""
    rule = _registered(
        Rule(
            *(id, slug, severity, checks, matters, meaningless, on_values),
            detector=detector,
            whole_call=whole_call,
            silent=silent,
        )
    )
    _CHECKED[id] = rule
    return rule


def declare_advice(id: str, slug: str, checks: str, matters: str) -> Rule:
    """Register and return a rule that ``nkisim.profile`` finds and no check looks for."""
    return _registered(Rule(id, slug, "note", checks, matters))


def _registered(rule: Rule) -> Rule:
    if rule.id in _REGISTRY:
        known = _REGISTRY[rule.id].slug
        raise ValueError(f"rule {rule.id} is declared twice: {known} and {rule.slug}")
    _REGISTRY[rule.id] = rule
    return rule


UNDECIDABLE: Mapping[str, str] = MappingProxyType(
    {
        "S033": "a kernel does not state which of two square operands is meant to be transposed",
        "S069": "an extent from the wrong operand only fails at other sizes, and a kernel does not "
        "state the sizes it supports",
        "M035": "tiles live until their last use here, so a list that holds them needs no memory",
        "M046": "a short DMA run is slow but correct; profiles report it",
        "M047": "legal: written bytes are tracked one by one, whatever type a view has",
        "D044": "whether a comparison relies on equal bits is an intention",
        "A022": "whether a call relied on arguments that were ignored is not in the call",
        "A023": "whether a call relied on a default of an earlier release is not in the call",
        "A024": "the compiler options of other kernels of a model are unknown",
        "C011": "which engine issues a DMA is the compiler's choice",
        "C031": "a collective has ended on both cores when it returns here",
        "R010": "the order that a region is expected to add is an intention",
        "R019": "a kernel does not state which output a framework aliases to an argument",
        "R021": "no document states that a matmul that begins a sum clears more than it writes, "
        "so two sums in one bank are legal in any order",
        "R022": "a sendrecv has ended when it returns here, so two are never in flight",
        "R023": "the state a framework keeps between calls is unknown; L041 finds the globals",
    }
)
"""Faults without a rule, by id, with the reason why no rule decides them."""

REPORTED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "M026": ("M019", "M018", "M022"),
        "M027": ("M019", "M018", "M022"),
        "M034": ("M001",),
        "M045": ("A012", "A014", "C010"),
        "M048": ("M013", "R001"),
        "D041": ("D032",),
        "D048": ("D019", "D020"),
        "A041": (),
        "A047": ("D001",),
        "R005": ("M042",),
        "R016": ("M001",),
        "R020": ("C007", "C008"),
        "W007": ("M029",),
    }
)
"""Rules that report a fault under another id; empty if such a call is refused earlier."""
