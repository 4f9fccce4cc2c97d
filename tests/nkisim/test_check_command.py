"""``nkisim check``: what it checks, how it says it, and with which exit status it ends."""

import json
import py_compile
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fresh_process import nkisim_command
from nkisim import Finding
from nkisim.arch import GENERATIONS
from nkisim.cli import commands
from nkisim.diagnostics import CHECKED, RULES, Place
from nkisim.diagnostics.findings import MOST_SHOWN
from nkisim.diagnostics.formats import ledger_text
from nkisim.diagnostics.ledger import Ledger
from nkisim.filecheck import CheckSettings, Selection, all_rules, check_files

from .checker_cases import COMPREHENSION, EXAMPLES, GOOD, HEAD, UNWRITTEN, WARNED, write


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Runs the command in an empty folder; returns exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("NKISIM_TARGET", "NKISIM_STRICT", "NKISIM_REPORT", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, command="check"):
        done = CliRunner().invoke(commands, [command, *map(str, arguments)], standalone_mode=False)
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.stdout, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return run


SHAPES = ("--shapes", "x=f32[4,8]")


def test_a_clean_kernel_is_status_0_and_says_what_was_checked(check, tmp_path):
    status, out, _ = check(write(tmp_path, GOOD), *SHAPES)
    assert status == 0
    instructions = 3 * 3  # three instructions on three generations
    assert out == (
        "ran doubled(x=float32[4,8]) on gen2, gen3, gen4, NKI 0.3.0\n"
        f"no findings; checked 1 kernel, {instructions} instructions, {len(CHECKED)} rules on "
        "gen2, gen3, gen4 by NKI 0.3.0\n"
    )


def test_what_holds_on_one_generation_only_says_so(check, tmp_path):
    kernel = GOOD.replace("nisa.tensor_scalar(", "nisa.activation_reduce(").replace(
        "op0=nl.multiply, operand0=2.0", "op=nl.copy, reduce_op=nl.add, reduce_res=t[:, 0:1]"
    )
    file = write(tmp_path, kernel.replace("x.shape, dtype=x.dtype, buffer=nl.sbuf", WIDE))
    findings = json.loads(check(file, *SHAPES, "--format", "json")[1])["findings"]
    assert {tuple(f["targets"]) for f in findings if f["rule"] == "M009"} == {("gen2",)}


WIDE = "(x.shape[0], 50000), dtype=nl.float32, buffer=nl.sbuf"  # 200,000 bytes: too many for gen2


def test_the_hint_names_the_parameters_and_the_file(check, tmp_path):
    kernel = GOOD.replace("(x)", "(x, w: nt.tensor[4, 8], n: int, scale: float, flag=True)")
    _, out, _ = check(write(tmp_path, kernel))
    assert "doubled: only the source was checked, x, n and scale have no value" in out
    assert 'nkisim check kernels.py::doubled --shapes "x=f32[128,512] n=1 scale=1.0"' in out
    hint = re.search(r'--shapes "([^"]*)"', out)[1]
    assert "checked 1 kernel, 9 instructions" in check("kernels.py", "--shapes", hint)[1]


def test_the_hint_keeps_what_was_given_and_knows_a_count_by_its_use(check, tmp_path):
    kernel = GOOD.replace("(x)", "(x, size, y)").replace(
        "    return", "    half = size // 2\n    return"
    )
    _, out, _ = check(write(tmp_path, kernel), "--shapes", "x=bf16[4,8]")
    assert '--shapes "x=bfloat16[4,8] size=1 y=f32[128,512]"' in out
    hint = re.search(r'--shapes "([^"]*)"', out)[1]
    assert "checked 1 kernel, 9 instructions" in check("kernels.py", "--shapes", hint)[1]


def test_a_run_can_be_required(check, tmp_path):
    file = write(tmp_path, GOOD)
    assert check(file)[0] == 0
    status, out, _ = check(file, "--require-run", "--format", "json")
    (finding,) = json.loads(out)["findings"]
    assert (status, finding["rule"], finding["line"]) == (1, "X003", 8)
    assert "doubled was not run: x has no value" in finding["message"]
    assert finding["fix"].startswith("nkisim check kernels.py::doubled --shapes ")
    assert check(file, "--require-run", *SHAPES)[0] == 0
    (tmp_path / "pyproject.toml").write_text("[tool.nkisim]\nrequire-run = true\n")
    assert check(file)[0] == 1
    missing = write(tmp_path, GOOD, "import no_such_module_at_all\n")
    status, out, _ = check(missing, *SHAPES)
    assert (status, "X003" in out) == (1, True)
    assert "was not run: kernels.py cannot be imported: ModuleNotFoundError: No module" in out


LOUD = """\
import os
print("while imported")
os.write(1, b"to the descriptor\\n")


def nkisim_examples():
    print("in the examples")
    yield doubled, (np.ones((4, 8), np.float32),)
"""


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_only_the_report_is_on_stdout(check, tmp_path, form, capfd):
    kernel = GOOD.replace("    return out", '    print("in the kernel")\n    return out')
    status, out, err = check(write(tmp_path, kernel, LOUD), "--format", form)
    assert status == 0
    json.loads(out)
    for said in ("while imported", "in the examples", "in the kernel"):
        assert said in err
    below = capfd.readouterr()
    assert (below.out, below.err) == ("", "to the descriptor\n")


LATE = """\
import atexit
import threading
import time

atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("in a thread"))).start()
"""


def test_what_is_printed_late_is_not_on_stdout(tmp_path):
    file = write(tmp_path, GOOD.replace("(x)", "(x: nt.tensor[4, 8])"), LATE)
    done = nkisim_command("check", file, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
    assert "at exit" in done.stderr
    assert "in a thread" in done.stderr


def test_a_kernel_of_a_class(check, tmp_path):
    lines = UNWRITTEN.replace("MARK", "").splitlines()
    inner = "\n".join(f"    {line}" for line in ("@staticmethod", *lines))
    file = write(tmp_path, f"class Group:\n{inner}\n", GOOD)
    status, out, _ = check(f"{file}::Group.unwritten", *SHAPES)
    assert (status, "error[M001]" in out) == (1, True)
    data = json.loads(check(file, *SHAPES, "--format", "json")[1])
    assert {k["name"]: k["runs"] for k in data["kernels"]} == {"Group.unwritten": 3, "doubled": 3}
    assert "did you mean Group.unwritten?" in check(f"{file}::Group.unwriten")[2]


def test_several_files_and_folders(check, tmp_path):
    write(tmp_path, GOOD, name="a.py")
    write(tmp_path, UNWRITTEN, name="b.py")
    status, out, _ = check(tmp_path, *SHAPES)
    assert status == 1
    assert "checked 2 kernels" in out


# A table of commands


ENDLESS = """\
@nki.jit
def endless(x):
    t = nl.load(x)
    while True:
        BODY
"""
MADE = GOOD + 'exec("def made(x):\\n    return x")\nmade = nki.jit(made)\n\n\n'
NOT_IN_SOURCE = ("M001", "L028", "A026")
RUN = "--shapes x=f32[4,8]"


def example(call, kernel=GOOD):
    """A file whose examples are this expression or statement."""
    return f"{kernel}\n\ndef nkisim_examples():\n    {call}\n"


def ignoring(rules):
    """The unwritten tile with a comment on the line of its finding."""
    return UNWRITTEN.replace("MARK", f"  # nkisim: ignore{rules}")


ONES = "np.ones((4, 8), np.float32)"
SPREAD = "nisa.dma_copy(\n        dst=out,\n        src=t,  # nkisim: ignore[M]\n    )"
# A file, options or a kernel with options, the exit status, and texts of the output, or with "not "
# before them texts that it does not have.
COMMANDS = {
    "a finding": (
        UNWRITTEN,
        RUN,
        1,
        "error[M001]",
        "--> kernels.py:11   nisa.dma_copy(dst=out, src=t)",
        "\n  on    gen2, gen3, gen4\n",
    ),
    "a target": (GOOD, f"{RUN} --target trn2", 0, "rules on gen3 by NKI 0.3.0\n"),
    "two targets": (GOOD, f"{RUN} --target trn1,trn3", 0, "rules on gen2, gen4 by NKI 0.3.0\n"),
    "no shapes": (
        UNWRITTEN,
        "",
        0,
        "unwritten: only the source was checked, x has no value",
        "checked 1 kernel (1 by source alone), 0 instructions",
    ),
    "source alone": (COMPREHENSION, "", 1, "error[L006]"),
    "examples of a bad kernel": (example(f"yield unwritten, ({ONES},)", UNWRITTEN), "", 1),
    "examples of a good one": (example(f"yield doubled, ({ONES},)"), "", 0),
    "a grid and keywords": (example(f"yield doubled[1], {{'x': {ONES}}}"), "", 0, "9 instructions"),
    "a dictionary": (example(f"return {{'doubled': ({ONES},)}}"), "", 0, "9 instructions"),
    "an annotation": (UNWRITTEN.replace("(x)", "(x: nt.tensor[4, 8, nl.bfloat16])"), "", 1),
    "a default": (UNWRITTEN.replace("(x)", f"(x={ONES})"), "", 1),
    "a name": ("Tile = nt.tensor[4, 8]\n" + UNWRITTEN.replace("(x)", "(x: Tile)"), "", 1),
    "one kernel": (GOOD + UNWRITTEN, f"kernels.py::doubled {RUN}", 0),
    "the other": (GOOD + UNWRITTEN, f"kernels.py::unwritten {RUN}", 1),
    "ignore": (UNWRITTEN, f"{RUN} --ignore M001", 0),
    "only others": (UNWRITTEN, f"{RUN} --only L,S006", 0),
    "only a family": (UNWRITTEN, f"{RUN} --only M", 1),
    "only no rule": (UNWRITTEN, f"{RUN} --only Q777", 2, "'Q777' is no rule"),
    "only advice": (GOOD, f"{RUN} --only P002", 2, "'P002' is no rule of checks"),
    "a warning": (WARNED, RUN, 0),
    "fail on a warning": (WARNED, f"{RUN} --fail-on warning", 1),
    "a comment": (ignoring("[M001]"), RUN, 0, "\nno findings; ", "not error"),
    "a comment in a statement": (
        UNWRITTEN.replace("nisa.dma_copy(dst=out, src=t)", SPREAD),
        RUN,
        0,
    ),
    "an unused comment": (
        ignoring("[M001, S028]"),
        RUN,
        0,
        "warning[X001] unused-ignore: nothing on this line breaks S028",
        "not breaks M001",
    ),
    "an unused comment, strictly": (ignoring("[M001, S028]"), f"{RUN} --fail-on warning", 1),
    "a comment without an id": (ignoring(""), RUN, 1, "the comment names no rule"),
    **{f"{id} without a run": (ignoring(f"[{id}]"), "", 0, "not X001") for id in NOT_IN_SOURCE},
    "a rule of the source": (ignoring("[L006]"), "", 0, "X001"),
    "a tile that is too large": (GOOD, "--shapes x=f32[300,8]", 1, "300"),
    "no file": (GOOD, "absent.py", 2),
    "no kernel": (
        GOOD,
        "kernels.py::halved",
        2,
        "kernels.py defines no function halved; it has doubled",
    ),
    "nearly a kernel": (GOOD, "kernels.py::doubl", 2, "did you mean doubled?"),
    "no import": (
        GOOD + "import no_such_module_at_all\n",
        RUN,
        0,
        "cannot be imported: ModuleNotFoundError",
    ),
    "a grid": (GOOD, f"kernels.py::doubled[2] {RUN} --target trn2", 0),
    **{
        f"the grid {grid}": (GOOD, f"kernels.py::doubled{grid} {RUN}", 2, "must be [1] or [2]")
        for grid in ("[7]", "[x", "[]")
    },
    "an exception": (
        GOOD.replace("2.0)", "1 / 0)"),
        RUN,
        1,
        "stopped by ZeroDivisionError: division by zero at kernels.py:12",
    ),
    "instructions without end": (
        ENDLESS.replace("BODY", "nisa.tensor_copy(dst=t, src=t)"),
        f"{RUN} --max-instructions 100 --target trn2",
        1,
        "endless: not checked to its end on gen3: stopped by the limit of 100 instr",
    ),
    "a loop without end": (
        ENDLESS.replace("BODY", "pass"),
        f"{RUN} --max-seconds 0.2 --target trn2",
        1,
        "stopped by the limit of 0.2 seconds",
    ),
    "no source": (MADE + EXAMPLES.replace("NAME", "made"), "", 1, "error[L065]"),
    "commands of GitHub": (
        UNWRITTEN,
        f"{RUN} --format github",
        1,
        "::error file=kernels.py,line=11,title=M001 unwritten-sbuf",
        "%0Afix: ",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_status_and_output(check, tmp_path, name):
    text, options, status, *said = COMMANDS[name]
    write(tmp_path, text)
    words = options.split()
    file = [] if words and words[0][0] != "-" else ["kernels.py"]
    got, out, err = check(*file, *words)
    assert got == status
    for text in said:
        assert (text.removeprefix("not ") in out + err) != text.startswith("not "), text


@pytest.mark.parametrize(
    ("table", "file", "status"),
    [
        ('ignore = ["M001"]', UNWRITTEN, 0),
        ('per-file-ignores = {"ker*.py" = ["M001"]}', UNWRITTEN, 0),
        ('per-file-ignores = {"other.py" = ["M001"]}', UNWRITTEN, 1),
        ('only = ["S"]', UNWRITTEN, 0),
        ('target = "trn2"', UNWRITTEN, 1),
        ('fail-on = "warning"', WARNED, 1),
        *((line, GOOD, 2) for line in ("ignor = []", 'ignore = "M001"', 'fail-on = "never"')),
        ("x = [", GOOD, 2),
    ],
)
def test_pyproject_says_the_same(check, tmp_path, table, file, status):
    (tmp_path / "pyproject.toml").write_text(f"[tool.nkisim]\n{table}\n")
    got, _, err = check(write(tmp_path, file), *SHAPES)
    assert (got, "pyproject.toml" in err) == (status, status == 2)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ("x=f32[4,", "cannot read"),
        ("x=f99[4,8]", "dtype 'f99'"),
        ("x=f32[4,-8]", "positive integers"),
        ("x=f32[]", "positive integers"),
        ("x=f32[4,8] x=f32[4,8]", "given twice"),
        ("x=many", "neither dtype[extents] nor a number"),
        ("4,8", "cannot read '4,8'"),
        (" ", "empty"),
        ("y=f32[4,8]", "no kernel of kernels.py has a parameter 'y'; they have: x"),
    ],
)
def test_shapes_that_cannot_be_read_are_usage(check, tmp_path, shapes, said):
    status, _, err = check(write(tmp_path, GOOD), "--shapes", shapes)
    assert status == 2
    assert said in err


DEEP = "x = " + "-" * 20_000 + "1\n"
BROKEN = {
    "syntax": (b"x = 1\ndef f(:\n", "broken.py:2", "not valid Python: "),
    "nesting": (DEEP.encode(), "broken.py:1", "too deeply nested"),
    "bytes": (b"x = '\xff'\n", "broken.py:1", "not valid Python: "),
    "encoding": (b"# coding: klingon\n", "broken.py:1", "unknown encoding: klingon"),
    "zero": (b"x = 1\0\n", "broken.py:1", "null bytes"),
    "exit": (b"RUN\nraise SystemExit(0)\n", "broken.py:16", "cannot be imported: SystemExit: 0"),
    "import": (b"RUN\n1 / 0\n", "broken.py:16", "cannot be imported: ZeroDivisionError"),
    "examples": (
        b"RUN\ndef nkisim_examples():\n    return [1 / 0]\n",
        "broken.py:17",
        "nkisim_examples() raised ZeroDivisionError: division by zero",
    ),
    "exiting examples": (
        b"RUN\ndef nkisim_examples():\n    raise SystemExit(3)\n",
        "broken.py:17",
        "nkisim_examples() raised SystemExit: 3",
    ),
    "no pairs": (
        b"RUN\ndef nkisim_examples():\n    return [np.ones(4)]\n",
        "broken.py:16",
        "nkisim_examples() must return pairs of a kernel and a tuple or a dict",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_one_finding_and_the_others_are_checked(check, tmp_path, kind):
    text, place, said = BROKEN[kind]
    good = GOOD.replace("(x)", "(x: nt.tensor[4, 8])")
    file = write(tmp_path, good, name="whole.py")
    head = HEAD + good.replace("doubled", "held").replace(": nt.tensor[4, 8]", "")
    (tmp_path / "broken.py").write_bytes(text.replace(b"RUN", head.encode()))
    status, out, _ = check("broken.py", file, *SHAPES, "--format", "json")
    data = json.loads(out)
    assert status == 4
    assert not data["ok"]
    (finding,) = data["findings"]
    assert (finding["rule"], finding["severity"]) == ("X002", "error")
    assert f"{finding['file']}:{finding['line']}" == place
    assert said in finding["message"]
    assert "doubled" in [k["name"] for k in data["kernels"] if k["runs"]]
    write(tmp_path, UNWRITTEN, name="whole.py")
    assert check("broken.py", file, *SHAPES)[0] == 1  # findings come first


@pytest.mark.parametrize(
    "text",
    [b"\xef\xbb\xbfTEXT", b"# coding: latin-1\n# \xe9\nTEXT", b"# \xc3\xa9\nTEXT"],
)
def test_every_encoding_that_python_reads_is_read(check, tmp_path, text):
    kernel = (HEAD + UNWRITTEN).replace("(x)", "(x: nt.tensor[4, 8])").replace("MARK", "")
    comment = kernel.replace("src=t)", "src=t)  # nkisim: ignore[M001]")
    for body, status in ((kernel, 1), (comment, 0)):
        (tmp_path / "kernels.py").write_bytes(text.replace(b"TEXT", body.encode()))
        assert check("kernels.py")[0] == status


def test_a_shape_may_be_for_one_of_several_files(check, tmp_path):
    write(tmp_path, GOOD, name="a.py")
    write(tmp_path, GOOD.replace("x", "y"), name="b.py")
    status, out, _ = check("a.py", "b.py", "--shapes", "x=f32[4,8] y=f32[4,8]")
    assert (status, "checked 2 kernels, 18 instructions" in out) == (0, True)


def test_a_file_without_kernels_is_nothing_checked(check, tmp_path):
    (tmp_path / "plain.py").write_text("x = 1\n")
    status, _, err = check("plain.py")
    assert status == 3
    assert "nothing was checked" in err
    assert check("plain.py", "--allow-none")[0] == 0


@pytest.mark.slow
def test_a_million_findings_are_folded_or_counted():
    ledger = Ledger()
    rule = RULES["M001"]
    same = Finding(rule, "m", Place("k.py", 1))
    ledger.add([same] * 500_000)
    assert len(ledger.findings) == 1
    ledger.add(Finding(rule, "m", Place("k.py", n)) for n in range(1_000_000))
    text = ledger_text(ledger)
    assert text.count("\n  --> ") == MOST_SHOWN
    assert f"... and {1_000_000 - MOST_SHOWN:,} more" in text
    assert "1000000 findings: 1000000 errors" in text


# Formats


def test_json_has_stable_keys(check, tmp_path):
    _, out, _ = check(write(tmp_path, UNWRITTEN), *SHAPES, "--format", "json")
    data = json.loads(out)
    assert list(data) == ["schema", "tool", "ok", "checked", "kernels", "findings", "fixed"]
    assert data["schema"] == 1
    assert not data["ok"]
    (finding,) = data["findings"]
    assert (finding["rule"], finding["file"], finding["line"]) == ("M001", "kernels.py", 11)
    assert Ledger.from_dict(data).to_dict() == data


def test_sarif_has_rules_results_and_places(check, tmp_path):
    _, out, _ = check(write(tmp_path, UNWRITTEN), *SHAPES, "--format", "sarif")
    (run,) = json.loads(out)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["M001"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels.py"
    assert place["region"]["startLine"] == 11


def test_output_goes_to_a_file(check, tmp_path):
    file = write(tmp_path, GOOD)
    assert check(file, *SHAPES, "--format", "json", "--output", "out.json")[:2] == (0, "")
    assert json.loads((tmp_path / "out.json").read_text())["ok"]


def test_checking_leaves_nothing_behind(check, tmp_path):
    path, modules = list(sys.path), set(sys.modules)
    check(write(tmp_path, GOOD), *SHAPES)
    assert sys.path == path
    assert not {name for name in set(sys.modules) - modules if name.startswith("kernels")}
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == ["kernels.py"]


@pytest.mark.parametrize("package", [False, True])
def test_what_runs_is_the_text_and_not_the_bytecode_of_another(package, check, tmp_path):
    """Python takes bytecode that is marked as unchecked for any text."""
    if package:
        (tmp_path / "__init__.py").touch()
    file = write(tmp_path, GOOD)
    py_compile.compile(
        str(file), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    write(tmp_path, UNWRITTEN)
    status, out, _ = check(file, *SHAPES)
    assert status == 1
    assert "ran unwritten" in out


def test_the_hook_of_pre_commit_is_a_command_that_exists(check, tmp_path):
    hook = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    (entry,) = re.findall(r"entry: nkisim (.*)", hook)
    command, *options = entry.split()
    (tmp_path / "plain.py").write_text("x = 1\n")
    assert check(*options, "plain.py", command=command)[0] == 0


# The catalogue


def test_rules_lists_and_rule_prints_offline(check):
    _, out, _ = check(command="rules")
    known = [rule for _, rule in sorted(all_rules().items())]
    assert out.splitlines() == [f"{r.id}  {r.severity:8}{r.slug:32}{r.checks}" for r in known]
    _, out, _ = check("S028", command="rules")
    assert out.count("\n") == 1
    for name in ("M004", "m004", RULES["M004"].slug):
        _, out, _ = check(name, command="rule")
        assert out.startswith(f"# M004 {RULES['M004'].slug}\n")
    for name in ("P002", "software-descriptors"):
        _, out, _ = check(name, command="rule")
        assert out.startswith("# P002 software-descriptors\n")
        assert "GpSimd makes descriptors at kernel.py:" in out
    _, out, _ = check("S033", command="rule")
    assert "Not decidable on a CPU" in out
    _, out, _ = check("M026", command="rule")
    assert out == "# M026\n\nFound as M019, M018, M022.\n"
    _, out, _ = check("unused-ignore", command="rule")
    assert out.startswith("# X001 unused-ignore\n")
    status, _, err = check("M0004", command="rule")
    assert status == 2
    assert "did you mean 'M004'?" in err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (("barrier",), None),
        (("psum", "bank"), "M011"),
        (("ACCUMULATE-after",), "M004"),
        (("M", "accumulation"), "M004"),
        (("unwritten",), "M001"),
    ],
)
def test_rules_are_searched_in_names_and_texts(check, text, found):
    status, out, _ = check(*text, command="rules")
    ids = [line.split()[0] for line in out.splitlines()]
    assert status in (0, None)
    assert 0 < len(ids) < len(RULES) / 4
    assert found is None or found in ids


# The moving free size of a matmul


@pytest.mark.parametrize("generation", GENERATIONS, ids=str)
def test_info_and_the_lesson_give_one_moving_size(check, generation):
    most = generation.moving_free_max
    _, out, _ = check("--target", generation.name, command="info")
    assert re.search(rf"matmul moving free size +at most {most}\s", out)
    pages = Path(__file__).parents[2] / "docs"
    for page in ("start/the-chip.md", "guides/run-existing-code.md"):
        rows = [r for r in (pages / page).read_text().splitlines() if "| `trn" in r]
        (row,) = [r for r in rows if f"trn{generation.number - 1}" in r]
        assert f"| {most} |" in row
        others = {g.moving_free_max for g in GENERATIONS} - {most}
        assert not any(f"| {other} |" in row for other in others)


class CountedNames(tuple):
    """Names of rules that count how often they are read."""

    reads = 0

    def __iter__(self):
        CountedNames.reads += 1
        return super().__iter__()


def test_a_rule_is_matched_with_the_selection_once_for_all_files(tmp_path):
    marked = UNWRITTEN.replace("MARK", "  # nkisim: ignore[L0]")
    files = [(write(tmp_path, marked, COMPREHENSION, name=f"k{i}.py"), None) for i in range(9)]
    reads = {}
    for count in (1, 9):
        CountedNames.reads = 0
        settings = CheckSettings(selection=Selection(ignore=CountedNames(("M", "D"))))
        assert len(check_files(files[:count], settings).findings) >= count
        reads[count] = CountedNames.reads
    assert reads[9] == reads[1] <= len(CHECKED) + 1  # one more for the check of the names
