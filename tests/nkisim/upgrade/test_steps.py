"""Properties of every rule between every two releases: one file with the examples of all rules."""

import ast
import dataclasses
import io
import textwrap
import tokenize

import pytest

from each_case import each_case
from nkisim.upgrade import ERAS, RULES, TARGETS, upgrade_text
from nkisim.versions import resolve
from upgrade_examples import rules_with_examples

HEAD = """\
import nki
import nki.language as nl
import nki.isa as nisa
import nki.collectives as ncc
import numpy as np
"""
PAIRS = [
    *(("auto", "0.4.0"), ("beta1", "0.4.0"), ("auto", "0.5.0"), ("beta2", "0.5.0")),
    *((since, to) for since in ERAS[2:-1] for to in TARGETS[1:] if resolve(since) <= to),
]
"""Releases between which files are brought; all steps together have a test of their own."""
EXAMPLES = rules_with_examples()
LATER = [rule for rule in EXAMPLES if rule.to != TARGETS[0]]


def function(number, text):
    """Return an example as a function of its own, with comments above and behind each line."""
    rows = [f"def case_{number}():  # head {number}"]
    for line, row in enumerate(textwrap.indent(text, "    ").splitlines()):
        indent = row[: len(row) - len(row.lstrip())]
        if row.strip():
            rows.append(f"{indent}# above {number}.{line}")
        rows.append(row + (f"  # behind {number}.{line}" if row.strip() else ""))
    return "\n".join(rows) + "\n"


def examples(rules):
    """Return a module with the old form of each rule that is not an import."""
    texts = [rule.before for rule in rules if not rule.before.startswith(("import ", "from "))]
    return HEAD + "\n".join(function(number, text) for number, text in enumerate(texts))


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sorted(t.string for t in tokens if t.type == tokenize.COMMENT)


def check_upgrade(text, since, target):
    first = upgrade_text(text, since, target)
    assert first.problem == ""
    ast.parse(first.after)
    assert comments(first.after) == comments(text)
    versions = {RULES[change.rule].to for change in first.changes}
    assert all(version <= target for version in versions)
    second = upgrade_text(first.after, since, target)
    assert second.after == first.after
    assert second.changes == []
    if since != "auto":  # names of the new release make it a file of that release
        assert [f.rule for f in second.findings] == [f.rule for f in first.findings]


@each_case("since, target", PAIRS, group=lambda since, target: since)
def test_an_upgrade_parses_keeps_comments_and_is_done_once(since, target):
    check_upgrade(examples(LATER), since, target)


@pytest.mark.parametrize("since", ["auto", pytest.param("beta1", marks=pytest.mark.slow), "beta2"])
def test_an_upgrade_over_all_steps(since):
    check_upgrade(examples(EXAMPLES), since, TARGETS[-1])


@each_case("rule", LATER, ids=lambda rule: rule.id)
def test_the_example_of_a_rule(rule):
    known = rule.certain and not (rule.same_as or rule.deprecated or rule.refused)
    since = "auto" if known else rule.since
    whole = rule.before.startswith("import ")
    head = "" if whole else HEAD
    text = head + rule.before + "\n"
    outcome = upgrade_text(text, since, rule.to)
    assert outcome.after == head + (rule.after or rule.before) + "\n"
    left = outcome.options if rule.kind == "optional" else outcome.findings
    found = outcome.changes if rule.after else left
    assert rule.id in {one.rule for one in found}
    windows = upgrade_text(text.replace("\n", "\r\n"), since, rule.to)
    assert windows.after == outcome.after.replace("\n", "\r\n")


@each_case("rule", LATER, ids=lambda rule: rule.id)
def test_a_rule_is_used_for_the_steps_that_it_belongs_to(rule):
    """Not before its target, and not for files of its target or later."""
    if rule.before.startswith("import "):
        return
    text = HEAD + rule.before + "\n"
    older = TARGETS[TARGETS.index(rule.to) - 1]
    for since, target in ((rule.since, older), (rule.to.removesuffix(".0"), TARGETS[-1])):
        outcome = upgrade_text(text, since, target)
        assert rule.id not in {one.rule for one in (*outcome.changes, *outcome.findings)}


@each_case("rule", LATER, ids=lambda rule: rule.id)
def test_a_name_that_is_not_nki_is_never_touched(rule):
    others = HEAD.replace("import nki\n", "import nkiplus as nki\n").replace("nki.", "other.")
    if rule.before.startswith("import "):
        return
    outcome = upgrade_text(others + rule.before + "\n", rule.since, rule.to)
    assert outcome.after == others + rule.before + "\n"
    assert outcome.findings == []


def test_a_rule_is_not_used_where_its_old_form_works_again(monkeypatch):
    rule = dataclasses.replace(RULES["MG-604"], to="0.4.0", since="0.3", until="0.5.0")
    monkeypatch.setitem(RULES, "MG-604", rule)
    (before,) = (one.before for one in EXAMPLES if one.id == rule.id)
    text = HEAD + before + "\n"
    changed = [bool(upgrade_text(text, "0.3", target).changes) for target in TARGETS]
    assert changed == [False, True, False, False, False]


def test_every_rule_declares_its_step():
    for rule in EXAMPLES:
        assert rule.to in TARGETS
        assert rule.until == "" or rule.until in TARGETS[TARGETS.index(rule.to) + 1 :]
        if rule.to != TARGETS[0]:
            assert resolve(rule.since) == TARGETS[TARGETS.index(rule.to) - 1]
        assert rule.same_as == "" or rule.same_as in RULES
        assert bool(rule.after) == (rule.kind not in ("report", "optional"))
