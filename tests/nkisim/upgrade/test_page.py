"""docs/migration.md is what its script writes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libcst")

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/gen_migration.py", tmp_path], check=True)
    page = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    assert (tmp_path / "migration.md").read_text(encoding="utf-8") == page
