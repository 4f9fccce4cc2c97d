"""Code that is right stays byte for byte: neither ``upgrade`` nor ``check --fix`` changes it.

The corpus is this tree: its kernels, its examples, which have the kernels of NKI's tutorials in our
own words, the code on its pages, those of the instructions included, and the repaired twin of every
rule.
"""

import re
import sys
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from each_case import each_case
from kernels import GUARDS, TWINS
from nkisim.filecheck import CheckSettings
from nkisim.filecheck.fixes import fix_files
from nkisim.upgrade import TARGETS, upgrade_text

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted(ROOT.glob("src/trn*/_kernels/**/*.py"))
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
PAGES = [
    path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
    # These show old forms and mistakes: of the latter, the repaired twins are in the corpus.
    if path.parent.name != "rules" and path.name not in ("migration.md", "migrate.md")
]
for _path in sorted((ROOT / "tests/kernels").glob("[a-z]*.py")):
    import_module(f"kernels.{_path.stem}")


@cache
def twins():
    """Return the repaired twins and the guards as modules, by file and NKI version."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from rule_examples import example_of
    finally:
        sys.path.pop(0)
    groups = defaultdict(list)
    for twin in TWINS:
        version = twin.options.get("nki", TARGETS[0])
        groups[Path(twin.file).stem, version, twin.on_host].append(twin.good)
    for guard in GUARDS:
        groups[Path(guard.kernel.__code__.co_filename).stem, TARGETS[0], False].append(guard.kernel)
    found = {}
    for (stem, version, on_host), functions in groups.items():
        text = example_of(functions, decorated=False).text + "\n"
        if not on_host:
            names = "|".join(function.__name__ for function in functions)
            text = re.sub(
                rf"(?<!@nki\.jit\n)^def ({names})\(", r"@nki.jit\ndef \1(", text, flags=re.M
            )
            text = "import nki\n" + text.replace("import nki\n", "", 1)
        found[f"{stem} {version} {'host' if on_host else 'kernels'}"] = (text, version)
    return found


def code(page):
    return [
        m[1] for m in re.finditer(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S)
    ]


def assert_same(text, target):
    """``--check`` has status 0: nothing is changed, and nothing is left to do."""
    outcome = upgrade_text(text, "auto", target)
    assert outcome.problem == ""
    assert outcome.changes == []
    assert [f"{f.rule} line {f.line}: {f.message}" for f in outcome.findings] == []
    assert outcome.after == text


def test_upgrade_keeps_the_repaired_twins():
    for text, version in twins().values():
        assert_same(text, version)


@each_case("path", [*KERNELS, *EXAMPLES][::3], ids=lambda path: path.stem)
def test_upgrade_keeps_the_kernels_and_examples(path):
    assert_same(path.read_text(), TARGETS[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_upgrade_to_all_versions_keeps_all_kernels_and_examples(target):
    for path in (*KERNELS, *EXAMPLES):
        assert_same(path.read_text(), target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_upgrade_keeps_the_code_on_the_pages(target):
    for page in PAGES:
        for text in code(page):
            assert_same(text, target)


def fixed(paths):
    _, files = fix_files([(path, None) for path in paths], CheckSettings(), write=False)
    return [str(file.path) for file in files if file.changed or file.problem]


def test_fixes_keep_the_repaired_twins(tmp_path):
    paths = []
    for name, (text, version) in twins().items():
        if version == TARGETS[0]:
            paths.append(tmp_path / f"{name.replace(' ', '_').replace('.', '_')}.py")
            paths[-1].write_text(text)
    assert fixed(paths) == []


@pytest.mark.slow
def test_fixes_keep_the_kernels_and_examples():
    assert fixed([*KERNELS, *EXAMPLES]) == []
