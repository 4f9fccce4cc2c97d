"""Codes of the compiler: the page, ``nkisim find`` and ``nkisim explain-log``."""

import json
import sys
from importlib import import_module
from pathlib import Path

from click.testing import CliRunner

from each_case import each_case
from nkisim.cli.group import commands
from nkisim.diagnostics.codes import CODES
from nkisim.filecheck.settings import all_rules

ROOT = Path(__file__).parents[2]


def ran(*arguments):
    """Exit status and output of a command."""
    found = CliRunner().invoke(commands, arguments, standalone_mode=False)
    return found.return_value, found.output


LOGS = {
    "an address": (
        'File "/home/u/attention.py", line 57, in kernel\n'
        "ERROR [NCC_INLA001] Dynamic Access is not allowed in the instruction.\n",
        [("NCC_INLA001", ("M050", "M053"), "/home/u/attention.py:57")],
    ),
    "an argument in a collective": (
        "checkCollective at /k/sums.py:12\n"
        "NCC_INLA001: Collective instruction cannot read / write IO tensors\n",
        [("NCC_INLA001", ("C043",), "/k/sums.py:12")],
    ),
    "two codes without a place": (
        "NCC_IXGM002 Expected function sg0000 to have 49 basic blocks, but on core 1 it has 1\n"
        "\n\n\n\n\n"
        "NCC_IBIR440\nNCC_IBIR440\n",
        [("NCC_IXGM002", ("C040", "C041"), ""), ("NCC_IBIR440", ("C044",), "")],
    ),
}


@each_case("log, wanted", LOGS.values(), ids=list(LOGS))
def test_a_log_is_explained(tmp_path, log, wanted):
    path = tmp_path / "build.log"
    path.write_text(log)
    status, output = ran("explain-log", str(path), "--format", "json")
    assert status == 0
    codes = json.loads(output)["codes"]
    found = [(c["code"], tuple(c["faults"][0]["rules"]), c["place"]) for c in codes]
    assert found == wanted
    status, text = ran("explain-log", str(path))
    assert status == 0
    for code, rules, place in wanted:
        assert code in text
        assert place in text
        assert f"nkisim rule {rules[0]}" in text


@each_case("log", ["compiled in 3.2 s\n", "", "ERROR NCC_IXYZ123 something new\n"])
def test_a_log_without_a_known_code_has_its_own_status(tmp_path, log):
    path = tmp_path / "build.log"
    path.write_text(log)
    status, output = ran("explain-log", str(path))
    assert status == 1
    assert "no code that nkisim knows" in output
    assert ("NCC_IXYZ123" in output) == ("NCC_IXYZ123" in log)


@each_case("raw", [bytes(range(256)), b"text\0NCC_IBIR440", None], ids=["binary", "zero", "none"])
def test_what_is_no_log_is_refused(tmp_path, raw):
    path = tmp_path / "build.log"
    if raw is not None:
        path.write_bytes(raw)
    status, output = ran("explain-log", str(path))
    assert status == 4
    assert "is not a log" in output


@each_case("name", ["NCC_IBIR440", "IBIR440", "ncc_ibir440"])
def test_a_code_is_found(name):
    status, output = ran("find", name)
    assert status == 0
    assert "C044" in output


def test_an_unknown_code_is_not_found():
    assert ran("find", "NCC_IXYZ123")[0] == 1


def test_the_faults_of_codes_have_rules_or_a_reason():
    rules = all_rules()
    for code in CODES:
        assert set(code.rules) <= set(rules), code
        assert code.rules or code.way, code
    names = [code.name for code in CODES]
    for name in {name for name in names if names.count(name) > 1}:
        same = [code for code in CODES if code.name == name]
        assert sum(not code.words for code in same) <= 1, f"{name}: words tell faults apart"


def test_rules_about_refusals_name_their_code():
    """A rule whose text names a code is that code's rule on the page."""
    by_rule = {}
    for code in CODES:
        for rule in code.rules:
            by_rule.setdefault(rule, set()).add(f"NCC_{code.name}")
    named = [rule for rule in all_rules().values() if "NCC_" in rule.matters]
    assert len(named) >= 9
    for rule in named:
        assert any(code in rule.matters for code in by_rule[rule.id]), rule


def test_the_page_is_current(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    gen_codes = import_module("gen_codes")
    assert gen_codes.PAGE.read_text() == gen_codes.page(), "run python tools/gen_codes.py"
