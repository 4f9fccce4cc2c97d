"""Recorders that tell more than the one of a run."""

from __future__ import annotations

from collections.abc import Hashable

from nkisim import Finding
from nkisim.diagnostics import Recorder


class EachTime(Recorder):
    """Takes down every finding as rule and message, also those of one line that are alike."""

    def __init__(self) -> None:
        super().__init__("check")
        self.heard: list[tuple[str, str]] = []

    def add(self, finding: Finding, cause: Hashable = None) -> Finding:
        """Note a finding."""
        self.heard.append((finding.rule.id, finding.message))
        return finding
