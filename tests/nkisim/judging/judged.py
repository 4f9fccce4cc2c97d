"""Verdicts on kernels whose text a test writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nkisim.judging import Settings, Verdict, verdict_on
from nkisim.judging.child import Limits

KERNELS = Path(__file__).parent / "kernels"
RIGHT = (KERNELS / "right.py").read_text()
QUICK: dict[str, Any] = {"advice": False, "seed": 1}


def verdict_of(
    folder: Path, text: str, kernel: str, reference: Any, *cases: Any, **settings: Any
) -> Verdict:
    """Verdict on a kernel of a text, with a reference's file beside it."""
    file = folder / "cheat.py"
    file.write_text(text)
    beside = folder / "reference.py"
    beside.write_text("def matmul(a, b):\n    return a.T @ b\n")
    limits = Limits(**settings.pop("limits", {}))
    given = Settings(limits=limits, **{**QUICK, **settings})
    return verdict_on(file, kernel, reference, given, cases)
