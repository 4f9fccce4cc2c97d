"""A release moves the changes into the changelog, and refuses what is none."""

import datetime
from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]
DATE = datetime.date(2026, 1, 2)


@pytest.fixture
def release():
    return loaded(ROOT / "tools/release.py").main


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("how\n")
    (folder / "b.fixed.md").write_text("A fault\nis gone.\n")
    (folder / "a.added.md").write_text("A thing.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.1.0 (2025-01-01)\n\n- Old.\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0.1.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.1.0\n")
    return tmp_path


def test_changes_move_into_the_changelog(release, tree):
    release("0.2.0", tree, DATE)
    assert (tree / "CHANGELOG.md").read_text() == (
        "# Changes\n\n## 0.2.0 (2026-01-02)\n\n### Added\n\n- A thing.\n\n### Fixed\n\n"
        "- A fault\n  is gone.\n\n## 0.1.0 (2025-01-01)\n\n- Old.\n"
    )
    assert [path.name for path in (tree / "changelog.d").iterdir()] == ["README.md"]
    assert 'version = "0.2.0"' in (tree / "pyproject.toml").read_text()
    assert (tree / "CITATION.cff").read_text() == "cff-version: 1.2.0\nversion: 0.2.0\n"


def test_a_first_release_has_no_earlier_section(release, tree):
    (tree / "CHANGELOG.md").write_text("# Changes\n")
    release("0.1.0", tree, DATE)
    assert (tree / "CHANGELOG.md").read_text().startswith("# Changes\n\n## 0.1.0 (2026-01-02)\n")


@pytest.mark.parametrize(
    ("version", "said"),
    [("2", "accepted: a version"), ("v0.2.0", "accepted: a version"), ("0.1.0", "already")],
)
def test_what_cannot_be_released_changes_nothing(release, tree, version, said):
    before = {path: path.read_text() for path in tree.rglob("*.*") if path.is_file()}
    with pytest.raises(SystemExit, match=said):
        release(version, tree, DATE)
    assert {path: path.read_text() for path in tree.rglob("*.*") if path.is_file()} == before


def test_nothing_to_release_is_said(release, tree):
    for path in (tree / "changelog.d").glob("*.*.md"):
        path.unlink()
    with pytest.raises(SystemExit, match="no change"):
        release("0.2.0", tree, DATE)
