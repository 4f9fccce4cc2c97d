"""The commands of the first pages: which blocks fail, which are left out and why."""

import re

import pytest

from docs.pages import ROOT, Page
from scripts import loaded

CHECK = loaded(ROOT / "tools/release_check.py")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/start").glob("*.md"))]
SHELL = [(page, block) for page in PAGES for block in Page.read(page).blocks if block.is_shell]


@pytest.fixture
def failures(tmp_path, capfd):
    """A function that runs the blocks of a README, and returns those that failed and the output."""

    def run(text):
        (tmp_path / "README.md").write_text(text)
        return CHECK.failures(tmp_path, tmp_path / "environment"), capfd.readouterr().out

    return run


def block(command, output=None):
    shown = "" if output is None else f"\n```text\n{output}\n```\n"
    return f"```sh\n{command}\n```\n{shown}"


def test_blocks_that_do_what_is_shown_pass(failures):
    assert failures(block("echo 1; echo 2", "1  \n2") + block("echo not compared"))[0] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (block("echo before; false\necho after"), "exit status 1\nbefore\n"),
        (block("false | cat"), "exit status 1"),
        (block("cat"), None),  # reads nothing, and does not wait
        (block("echo 1", "2"), "printed\n1\nbut the page shows\n2\n"),
        (block("no-such-command"), "exit status 127"),
    ],
)
def test_a_block_that_fails_is_named_with_what_it_printed(failures, text, said):
    failed, printed = failures(f"# Page\n\n{text}")
    assert failed == ([] if said is None else ["README.md:4"])
    assert said is None or (said in printed and "after" not in printed.partition("exit")[2])


def test_commands_come_from_the_environment(failures, tmp_path):
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    command = tmp_path / "environment" / "bin" / "nkisim"
    command.write_text("#!/bin/sh\necho the environment\n")
    command.chmod(0o755)
    assert failures(block("nkisim", "the environment"))[0] == []


def test_a_block_that_is_not_run_has_its_reason_printed(failures):
    comment = "<!-- not run: a server -->\n\n"
    failed, printed = failures(comment + block("false") + "\n" + block("true"))
    assert failed == []
    assert re.search(r"README.md:4 +0 s  not run: a server\n", printed)
    with pytest.raises(SystemExit, match="got 6 blocks that are not run, accepted: 5"):
        failures((comment + block("false")) * 6)


def test_the_first_pages_name_files_that_exist():
    named = [name for _, b in SHELL for name in re.findall(r"[\w./-]+\.(?:py|txt)\b", b.text)]
    written = {name for _, b in SHELL for name in re.findall(r"cat > ([\w./-]+)", b.text)}
    assert len(named) > 5
    assert [x for x in named if x not in written and not (ROOT / x).is_file()] == []


def test_few_blocks_of_the_first_pages_are_not_run():
    assert len([b for _, b in SHELL if b.not_run]) <= CHECK.NOT_RUN_AT_MOST
    assert not [b for _, b in SHELL if re.search(r"\bserve\b|test-all", b.text) and not b.not_run]
