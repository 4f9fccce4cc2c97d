"""A release moves the changes into the changelog, and refuses what is none."""

import datetime
from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]
DATE = datetime.date(2026, 1, 2)
SECTION = (
    "### nkisim\n\n- Fixed: Another: gone.\n\n"
    "### trnfft\n\n- Added: A thing.\n- Fixed: A fault is gone.\n"
)


@pytest.fixture
def release():
    return loaded(ROOT / "tools/release.py").main


@pytest.fixture
def missing():
    return loaded(ROOT / "tools/release.py").missing


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("how\n")
    (folder / "a.fixed.md").write_text("trnfft: A fault is gone.\nnkisim: Another: gone.\n")
    (folder / "b.added.md").write_text("trnfft: A thing.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.1.0 (2025-01-01)\n\n- Old.\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0.1.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.1.0\n")
    for package in ("nkisim", "trnsci"):
        (tmp_path / "src" / package).mkdir(parents=True)
        (tmp_path / "src" / package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    return tmp_path


def test_changes_move_into_the_changelog(release, tree):
    release("0.2.0", tree, DATE)
    assert (tree / "CHANGELOG.md").read_text() == (
        f"# Changes\n\n## 0.2.0 (2026-01-02)\n\n{SECTION}\n## 0.1.0 (2025-01-01)\n\n- Old.\n"
    )
    assert [path.name for path in (tree / "changelog.d").iterdir()] == ["README.md"]
    assert 'version = "0.2.0"' in (tree / "pyproject.toml").read_text()
    assert (tree / "CITATION.cff").read_text() == "cff-version: 1.2.0\nversion: 0.2.0\n"
    for package in ("nkisim", "trnsci"):
        text = (tree / "src" / package / "__init__.py").read_text()
        assert text == '__version__ = "0.2.0"\n'


def test_a_first_release_has_no_earlier_section(release, tree):
    (tree / "CHANGELOG.md").write_text("# Changes\n")
    release("0.1.0", tree, DATE)
    assert (tree / "CHANGELOG.md").read_text().startswith("# Changes\n\n## 0.1.0 (2026-01-02)\n")


@pytest.mark.parametrize(
    ("version", "said"),
    [("2", "accepted: a version"), ("v0.2.0", "accepted: a version"), ("0.1.0", "already")],
)
def test_what_cannot_be_released_changes_nothing(release, tree, version, said):
    before = contents(tree)
    with pytest.raises(SystemExit, match=said):
        release(version, tree, DATE)
    assert contents(tree) == before


def contents(folder):
    return {path: path.read_text() for path in folder.rglob("*.*") if path.is_file()}


def test_without_a_version_the_section_is_printed_and_nothing_written(release, tree, capsys):
    before = contents(tree)
    release(root=tree)
    assert capsys.readouterr().out == f"## Unreleased\n\n{SECTION}"
    assert contents(tree) == before


def test_what_is_missing_for_a_tag_is_said(release, missing, tree):
    (tree / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.0.9\n")
    assert missing(tree) == [
        "CITATION.cff: version 0.0.9, pyproject.toml has 0.1.0",
        "changelog.d: 2 changes that are in no section",
    ]
    release("0.2.0", tree, DATE)
    assert missing(tree) == []
    (tree / "CHANGELOG.md").write_text("# Changes\n")
    assert missing(tree) == ["CHANGELOG.md: no section of 0.2.0"]


@pytest.mark.parametrize("line", ["A thing.", "torch: A thing.", "  and its second line", ""])
def test_a_line_without_a_package_is_refused_with_its_place(release, tree, line):
    (tree / "changelog.d" / "c.changed.md").write_text(f"trnfft: Fine.\n{line}\n")
    before = contents(tree)
    with pytest.raises(SystemExit, match=r"c\.changed\.md:2: got .*accepted: PACKAGE: what"):
        release("0.2.0", tree, DATE)
    assert contents(tree) == before


def test_a_file_of_another_kind_is_refused(release, tree):
    (tree / "changelog.d" / "c.news.md").write_text("trnfft: Fine.\n")
    with pytest.raises(SystemExit, match=r"got c\.news\.md, accepted: SLUG"):
        release("0.2.0", tree, DATE)


def test_the_changes_of_this_repository_have_the_form(release, capsys):
    if not list((ROOT / "changelog.d").glob("*.*.md")):
        pytest.skip("nothing changed since the last release")
    release()
    assert capsys.readouterr().out.startswith("## Unreleased\n\n### ")


def test_nothing_to_release_is_said(release, tree):
    for path in (tree / "changelog.d").glob("*.*.md"):
        path.unlink()
    with pytest.raises(SystemExit, match="no change"):
        release("0.2.0", tree, DATE)
