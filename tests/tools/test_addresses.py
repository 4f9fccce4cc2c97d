"""What a package says of its home, and where the links of its description lead."""

import re
import shutil
import subprocess
from email import message_from_string
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.spec import get_core_metadata_constructors
from hatchling.plugin.manager import PluginManager

from scripts import loaded

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
HOME = "https://forge.example.org/owner/project"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def hook():
    return loaded(ROOT / "hatch_build.py")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of what metadata needs, with a remote if one is named."""
    monkeypatch.delenv("TRNSCI_REPOSITORY_URL", raising=False)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in NEEDED:
        shutil.copy(ROOT / name, folder)
    (folder / "examples").mkdir()
    (folder / "docs" / "design").mkdir(parents=True)
    git(folder, "init", "--quiet")
    return folder


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


def built(folder):
    """The metadata that a wheel of the folder would have."""
    project = ProjectMetadata(str(folder), PluginManager())
    made = get_core_metadata_constructors()["2.4"](project)
    return message_from_string(made)


def described(message):
    return message.get_payload()


def test_a_remote_on_the_web_gives_addresses_and_links(checkout):
    git(
        checkout,
        "remote",
        "add",
        "origin",
        "https://name:secret@forge.example.org/owner/project.git",
    )
    made = built(checkout)
    urls = dict(line.split(", ") for line in made.get_all("Project-URL"))
    tag = f"v{made['Version']}"
    assert urls == {
        "Homepage": HOME,
        "Documentation": f"{HOME}/blob/{tag}/docs/index.md",
        "Source": f"{HOME}/tree/{tag}",
        "Issues": f"{HOME}/issues",
        "Changelog": f"{HOME}/blob/{tag}/CHANGELOG.md",
    }
    assert "secret" not in made.as_string()
    links = LINK.findall(described(made))
    targets = [target for _, target in LINK.findall((ROOT / "README.md").read_text())]
    assert len(links) == len(targets) > 20
    for (picture, link), target in zip(links, targets, strict=True):
        kind = "raw" if picture else "tree" if (ROOT / target).is_dir() else "blob"
        assert link == f"{HOME}/{kind}/{tag}/{target}"
        assert (ROOT / target).exists()


def test_without_an_address_nothing_leads_nowhere(checkout):
    git(checkout, "remote", "add", "origin", "/srv/git/project.git")
    made = built(checkout)
    assert made.get_all("Project-URL") is None
    text = described(made)
    assert LINK.findall(text) == []
    assert made["Description-Content-Type"] == "text/markdown"
    assert "a page per rule; the site" in text
    assert "*A kernel's source with a finding" in text
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^```.*?^```$", text, re.M | re.S) == re.findall(
        r"^```.*?^```$", readme, re.M | re.S
    )


def test_the_variable_comes_before_the_remote(checkout, monkeypatch, hook):
    git(checkout, "remote", "add", "origin", f"{HOME}.git")
    monkeypatch.setenv("TRNSCI_REPOSITORY_URL", "git@other.example.org:owner/project.git")
    assert "Homepage, https://other.example.org/owner/project" in built(checkout).as_string()
    monkeypatch.setenv("TRNSCI_REPOSITORY_URL", "")
    assert built(checkout).get_all("Project-URL") is None
    monkeypatch.setenv("TRNSCI_REPOSITORY_URL", "https://name:secret@project")
    with pytest.raises(ValueError, match="accepted: an address such as") as caught:
        built(checkout)
    assert "secret" not in str(caught.value)


def test_an_archive_inside_another_checkout_has_no_address(checkout, hook):
    git(checkout, "remote", "add", "origin", f"{HOME}.git")
    inside = checkout / "inside"
    inside.mkdir()
    assert hook.repository_address(checkout, {}) == HOME
    assert hook.repository_address(inside, {}) is None
    assert hook.repository_address(checkout / "gone", {}) is None


def test_a_source_distribution_keeps_what_it_was_made_with(checkout, tmp_path):
    git(checkout, "remote", "add", "origin", f"{HOME}.git")
    made = built(checkout)
    archive = tmp_path / "unpacked"
    archive.mkdir()
    for name in NEEDED:
        shutil.copy(ROOT / name, archive)
    (archive / "PKG-INFO").write_text(made.as_string())
    again = built(archive)
    assert again.get_all("Project-URL") == made.get_all("Project-URL")
    assert described(again).strip() == described(made).strip()


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://forge.example.org/owner/project", HOME),
        ("https://forge.example.org/owner/project.git/", HOME),
        ("https://token@forge.example.org/owner/project.git", HOME),
        ("git@forge.example.org:owner/project.git", HOME),
        ("forge.example.org:owner/project", HOME),
        ("ssh://git@forge.example.org:2222/owner/project.git", HOME),
        ("git://forge.example.org/owner/project.git", HOME),
        (
            "http://forge.example.org:8080/owner/project.git",
            "http://forge.example.org:8080/owner/project",
        ),
        ("", None),
        ("/srv/git/project.git", None),
        ("../project", None),
        ("C:\\work\\project", None),
        ("file:///srv/git/project.git", None),
        ("http://localhost:3000/owner/project.git", None),
        ("http://127.0.0.1:3000/owner/project.git", None),
        ("work:owner/project.git", None),
        ("https://forge.example.org/", None),
        ("https://forge.example.org:port/owner", None),
        ("s3://forge.example.org/owner/project", None),
    ],
)
def test_only_places_on_the_web_are_addresses(hook, remote, address):
    assert hook.web_address(remote) == address


def test_only_relative_links_are_rewritten(hook):
    text = "[a](https://x.org) [b](#there) `[c](d.md)` [`e[0]`](f.md#g)\n```\n[h](i.md)\n```\n"
    kept = "[a](https://x.org) [b](#there) `[c](d.md)` {}\n```\n[h](i.md)\n```\n"
    is_folder = {"f.md#g": False}.__getitem__
    linked = hook.index_page(text, HOME, "v1", is_folder=is_folder)
    assert linked == kept.format(f"[`e[0]`]({HOME}/blob/v1/f.md#g)")
    assert hook.index_page(text, None, "v1", is_folder=is_folder) == kept.format("`e[0]`")
