"""An option wins, every report says what ran, and reading the source imports nothing."""

import json
import os
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

import nkisim
from each_case import each_case
from fresh_process import nkisim_command, pytest_command
from nkisim.cli import commands
from nkisim.filecheck import all_rules
from nkisim.filecheck.settings import OWN_RULES

from .checker_cases import COMPREHENSION, GOOD, UNWRITTEN, write

EXAMPLES = """\
def nkisim_examples():
    yield doubled, (np.ones((4, 8), np.float32),)
    yield doubled, (np.ones((16, 8), np.float32),)
"""
SCALED = """\
@nki.jit
def scaled(x, factor, w=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
TWO_FACTORS = """\
def nkisim_examples():
    yield scaled, (np.ones((4, 8), np.float32), 2.0)
    yield scaled, {'x': np.ones((4, 8), np.float32), 'factor': 3.0}
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs a command in an empty folder; returns exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("NKISIM_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE", "NKISIM_NKI"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        done = CliRunner().invoke(commands, [*map(str, arguments)], standalone_mode=False)
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.stdout, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return run


def arguments_of(report):
    (kernel,) = report["kernels"]
    return kernel["arguments"]


# -- shapes ----------------------------------------------------------------------------------------


def test_shapes_win_over_examples_in_a_check(command, tmp_path):
    """300 rows are too many for a tile, whatever the examples of the file are."""
    file = write(tmp_path, GOOD, EXAMPLES)
    status, out, _ = command("check", f"{file}::doubled", "--shapes", "x=f32[300,64]")
    assert (status, "error[S001]" in out) == (1, True)
    assert "ran doubled(x=float32[300,64]) on gen2, gen3, gen4, NKI 0.3.0\n" in out
    assert command("check", file)[0] == 0


def test_shapes_win_over_examples_in_a_profile(command, tmp_path):
    file = write(tmp_path, GOOD, EXAMPLES)
    times = []
    for columns in (512, 8192):
        _, out, _ = command(
            "profile", file, "--format", "json", "--shapes", f"x=f32[128,{columns}]"
        )
        (found,) = json.loads(out)["profiles"]  # the two examples became one call
        assert found["arguments"] == {"x": f"float32[128,{columns}]"}
        times.append(found["latency_us"])
    assert times[1] > times[0]


def test_what_shapes_do_not_give_stays_as_in_the_examples(command, tmp_path):
    file = write(tmp_path, SCALED, TWO_FACTORS)
    shapes = ("--shapes", "x=bf16[8,4]")
    report = json.loads(command("check", file, *shapes, "--format", "json")[1])
    assert arguments_of(report) == [
        {"x": "bfloat16[8,4]", "factor": "2.0"},
        {"x": "bfloat16[8,4]", "factor": "3.0"},
    ]
    more = ("--shapes", "factor=5 w=f32[2,2]")  # the option may be repeated
    report = json.loads(command("check", file, *shapes, *more, "--format", "json")[1])
    assert arguments_of(report) == [{"x": "bfloat16[8,4]", "factor": "5", "w": "float32[2,2]"}]
    assert report["kernels"][0]["runs"] == 3  # one call on three generations
    assert "shapes: x is given twice" in command("check", file, *shapes, *shapes)[2]


def test_shapes_win_over_what_a_partial_has_bound(command, tmp_path):
    examples = """\
    import functools
    def nkisim_examples():
        yield functools.partial(scaled, factor=2.0), (np.ones((4, 8), np.float32),)
    """
    file = write(tmp_path, SCALED, examples)
    report = json.loads(command("check", file, "--shapes", "factor=7", "--format", "json")[1])
    assert arguments_of(report) == [{"x": "float32[4,8]", "factor": "7"}]


def test_a_grid_wins_over_the_one_of_the_examples(command, tmp_path):
    """gen2 has one core: two of them are refused there, on the examples too."""
    file = write(tmp_path, GOOD, EXAMPLES)
    assert "error[C001]" in command("check", f"{file}::doubled[2]")[1]
    assert "error[C001]" not in command("check", f"{file}::doubled")[1]


def test_a_selected_kernel_runs_alone(command, tmp_path):
    write(tmp_path, UNWRITTEN, name="other.py")
    examples = "import other\n" + EXAMPLES + "    yield other.unwritten, (np.ones((4, 8)),)\n"
    file = write(tmp_path, GOOD, examples)
    assert command("check", f"{file}::doubled")[0] == 0
    assert command("check", file)[0] == 1


# -- targets ---------------------------------------------------------------------------------------


def test_simulate_and_profile_have_one_default_target_and_check_all(command, tmp_path, monkeypatch):
    assert nkisim.SimOptions().generation().name == "gen3"
    file = write(tmp_path, GOOD)
    shapes = ("--shapes", "x=f32[4,8]")
    assert command("profile", file, *shapes)[1].startswith("doubled on gen3, NKI 0.3.0\n")
    assert "on gen2, gen3, gen4" in command("check", file, *shapes)[1]
    monkeypatch.setenv("NKISIM_TARGET", "trn1")
    assert command("profile", file, *shapes)[1].startswith("doubled on gen2, ")
    assert command("profile", file, *shapes, "--target", "trn3")[1].startswith("doubled on gen4, ")
    assert "on gen2, gen3, gen4" in command("check", file, *shapes)[1]


def test_limits_outside_of_a_kernel_are_those_of_the_same_target(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    monkeypatch.setenv("NKISIM_TARGET", "trn3")
    assert nkisim.isa.get_nc_version().name == "gen4"


def test_what_needs_a_later_generation_says_which(monkeypatch):
    monkeypatch.delenv("NKISIM_TARGET", raising=False)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    nisa, nl = nkisim.isa, nkisim.language

    def exponential(x):
        t, out = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.exponential(dst=t, src=t)
        nl.store(out, t)
        return out

    x = np.ones((4, 8), np.float32)
    (finding,) = nkisim.check(exponential)(x).errors
    assert finding.rule.id == "A033"
    assert "gen3" in finding.message + finding.seen
    assert "gen4" in f"{finding.allowed} {finding.message} {finding.fix}"
    assert not nkisim.check(exponential, target="gen4")(x).errors


def test_a_script_runs_on_one_generation(command, tmp_path):
    (tmp_path / "script.py").write_text("print('ran')\n")
    status, _, err = command("run", "--target", "all", tmp_path / "script.py")
    assert status == 2
    assert "unknown platform 'all'" in err


def test_an_option_of_pytest_wins_over_the_environment(tmp_path):
    (tmp_path / "test_target.py").write_text(
        "import nkisim\n"
        "def test_target():\n    assert nkisim.SimOptions().generation().name == 'gen2'\n"
    )
    options = ["-p", "nkisim.pytest_plugin", "-p", "no:cacheprovider"]
    options += ["--nkisim", "--nkisim-target", "trn1"]
    env = {**os.environ, "NKISIM_TARGET": "trn3"}
    done = pytest_command("-q", *options, "test_target.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


# -- what ran --------------------------------------------------------------------------------------


@each_case("form", ["text", "html", "json"])
def test_every_report_of_a_check_says_what_ran(form, tmp_path_factory):
    folder = tmp_path_factory.mktemp("check")
    file = write(folder, GOOD)
    arguments = ["check", str(file), "--shapes", "x=bf16[4,8]", "--format", form, "--nki", "0.4"]
    out = CliRunner().invoke(commands, arguments, standalone_mode=False).stdout
    for said in ("doubled", "gen2", "gen3", "gen4", "0.4.0", "bfloat16[4,8]"):
        assert said in out


@each_case("form", ["text", "html", "json"])
def test_every_report_of_a_profile_says_what_ran(form, tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    file = write(folder, GOOD)
    arguments = ["profile", str(file), "--shapes", "x=bf16[4,8]", "--nki", "0.4"]
    page = folder / "page.html"
    arguments += {"text": [], "json": ["--format", "json"], "html": ["--html", str(page)]}[form]
    out = CliRunner().invoke(commands, arguments, standalone_mode=False).stdout
    if form == "html":
        out = page.read_text()
    for said in ("doubled", "gen3", "0.4.0", "bfloat16[4,8]"):
        assert said in out


def test_a_report_in_python_says_what_ran():
    def nothing(x, many, text="a"):
        return x

    x = np.ones((4, 8), np.float32)
    report = nkisim.check(nothing, target="trn2", nki="0.3")(x, (x, x, 1, 2, 3), text="b" * 100)
    assert report.kernel == "nothing"
    assert report.arguments == {
        "x": "float32[4,8]",
        "many": "(float32[4,8], float32[4,8], 1, 2, ...)",
        "text": repr("b" * 100)[:37] + "...",
    }
    said = "nothing(x=float32[4,8], many="
    for text in (str(report), report._repr_html_()):
        assert said in text
        assert " on gen3, NKI 0.3.0" in text
    assert json.loads(report.to_json())["arguments"] == report.arguments


def test_arguments_of_several_ranks_are_those_of_the_first():
    def same(x):
        return x

    x = np.ones((4, 8), np.float32)
    report = nkisim.check(same, ranks=2)([(x,), (x,)])
    assert report.arguments == {"x": "float32[4,8]"}


# -- source only -----------------------------------------------------------------------------------

SIDE_EFFECT = "import pathlib\npathlib.Path('imported').touch()\n"


@each_case(
    "kernel, status",
    [
        (GOOD + EXAMPLES, 0),
        (GOOD.replace("(x)", "(x=np.ones((4, 8), np.float32))"), 0),
        (GOOD.replace("(x)", "(x: nt.tensor[4, 8])"), 0),
        (COMPREHENSION, 1),
    ],
)
@each_case("more", [(), ("--fix",), ("--diff",), ("--format", "html"), ("--allow-none",)])
def test_reading_the_source_imports_nothing(kernel, status, more, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    (folder / "helper.py").write_text(SIDE_EFFECT)
    (folder / "conftest.py").write_text(SIDE_EFFECT)
    (folder / "nki.py").write_text(SIDE_EFFECT)
    (folder / "__init__.py").write_text(SIDE_EFFECT)
    write(folder, SIDE_EFFECT + "import helper\n", kernel)
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(
            commands, ["check", "kernels.py", ".", "--source-only", *more], standalone_mode=False
        )
    finally:
        os.chdir(before)
    assert done.exception is None, repr(done.exception)
    assert not (folder / "imported").exists()
    assert done.return_value == status  # what cannot be tried is not written


def test_reading_the_source_in_a_process_of_its_own_imports_nothing(tmp_path):
    (tmp_path / "helper.py").write_text(SIDE_EFFECT)
    write(tmp_path, SIDE_EFFECT + "import helper\n", COMPREHENSION, EXAMPLES)
    done = nkisim_command("check", "kernels.py", "--source-only", cwd=tmp_path)
    assert done.returncode == 1
    assert "error[L006]" in done.stdout
    assert "listed: only the source was checked, as --source-only asks" in done.stdout
    assert not (tmp_path / "imported").exists()
    done = nkisim_command("check", "kernels.py", cwd=tmp_path)
    assert (tmp_path / "imported").exists()  # the examples need the module


def test_reading_the_source_excludes_what_runs(command, tmp_path):
    file = write(tmp_path, GOOD)
    for more in (("--shapes", "x=f32[4,8]"), ("--require-run",)):
        status, _, err = command("check", file, "--source-only", *more)
        assert (status, more[0] in err) == (2, True)


def test_reading_the_source_wins_over_a_project_that_requires_runs(command, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.nkisim]\nrequire-run = true\n")
    file = write(tmp_path, GOOD)
    assert command("check", file)[0] == 1
    assert command("check", file, "--source-only")[0] == 0


# -- rules and options -----------------------------------------------------------------------------


def test_every_rule_has_a_page_on_the_command_line(command):
    for rule in ("P002", "p002", "software-descriptors"):
        assert command("rule", rule)[1].startswith("# P002 software-descriptors\n")
    advice = [id for id in all_rules() if id.startswith("P")]
    for id in (*advice, *(rule.id for rule in OWN_RULES)):
        status, out, _ = command("rule", id)
        assert (status, out.startswith(f"# {id} ")) == (None, True)


def test_strict_is_answered_with_fail_on(command, tmp_path):
    status, _, err = command("check", write(tmp_path, GOOD), "--strict")
    assert status == 2
    assert "--fail-on" in err
    assert "--target" not in err
    assert "No such option" in command("check", write(tmp_path, GOOD), "--strickt")[2]


@each_case("command", ["check", "profile", "run", "upgrade", "info"])
def test_a_version_that_does_not_exist_is_a_mistake_of_the_command_line(command, tmp_path):
    """Also for commands whose modules have names of the version in force."""
    path = write(tmp_path, GOOD)
    arguments = [command] if command == "info" else [command, path]
    for version in ("0.8", "7", "latest"):
        done = nkisim_command(*arguments, env={**os.environ, "NKISIM_NKI": version})
        assert done.returncode == 2, done.stderr
        assert f"Error: NKISIM_NKI: got '{version}', accepted: 0.3.0, " in done.stderr
        assert "Traceback" not in done.stderr


def test_the_list_of_commands_has_the_first_sentence_of_each():
    listed = " ".join(CliRunner().invoke(commands, ["--help"]).output.split())
    context = click.Context(commands)
    for name in commands.list_commands(context):
        sentence = commands.get_command(context, name).get_short_help_str(limit=1000)
        assert f" {name} {sentence}" in listed


@pytest.mark.parametrize("command", [["--help"], ["info"], ["run", "script.py"]])
def test_a_command_without_kernels_imports_no_simulator(command, tmp_path):
    (tmp_path / "script.py").write_text("print('ran')\n")
    code = (
        "import sys; from nkisim.cli.group import main\n"
        f"try: main({command})\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print(*[m for m in ('nkisim.machine', 'nkisim.memory', 'nkisim.isa') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""
