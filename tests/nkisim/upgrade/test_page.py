"""docs/migration.md is what its script writes."""

from pathlib import Path

from scripts import loaded

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date():
    page = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    assert loaded(ROOT / "tools/gen_migration.py").page() == page
