"""The rules of ``nkisim upgrade``, each with its example of ``tests/data/upgrade_pairs.toml``."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

from nkisim.upgrade import RULES

_PAIRS = Path(__file__).parent / "data" / "upgrade_pairs.toml"


def rules_with_examples():
    """Return the rules with ``before`` and ``after``; that is empty for a rule that only finds."""
    pairs = tomllib.loads(_PAIRS.read_text(encoding="utf-8"))
    assert pairs.keys() == RULES.keys()
    return [
        SimpleNamespace(**vars(RULES[id]), before=pair["before"], after=pair.get("after", ""))
        for id, pair in sorted(pairs.items())
    ]
