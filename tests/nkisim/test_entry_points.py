"""The ways in which ``import nki`` comes to mean nkisim, and how each of them ends."""

import importlib
import inspect
import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

import fresh_process
import nkisim
from nkisim import shim
from nkisim.cli import main

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def nki_free():
    """Leaves ``nki`` as it was, whatever the test did to it."""
    shim.uninstall()
    before = {name: module for name, module in sys.modules.items() if name.startswith("nki.")}
    yield
    shim.uninstall()
    for name in [name for name in sys.modules if name == "nki" or name.startswith("nki.")]:
        del sys.modules[name]
    sys.modules.update(before)


def package(root, version, *, isa=True):
    """Writes a package ``nki`` that is not nkisim's, and puts it on the path of new processes."""
    folder = root / "nki"
    folder.mkdir()
    (folder / "__init__.py").write_text(f'"""Elsewhere."""\n__version__ = "{version}"\n')
    if isa:
        (folder / "isa.py").write_text("")


def without_ours(env):
    """The environment with no variable of ours set but those in ``env``."""
    ours = ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE")
    # A pytest inside a pytest must not take the outer one's worker for its own.
    kept = {k: v for k, v in os.environ.items() if k not in ours and "PYTEST" not in k}
    return kept | (env or {})


def run(*command, env=None, cwd=None):
    """Runs ``command`` with no variable of ours set but those in ``env``."""
    return subprocess.run(
        [str(part) for part in command],
        env=without_ours(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


def nkisim_command(*arguments, env=None, cwd=None):
    return fresh_process.nkisim_command(*arguments, env=without_ours(env), cwd=cwd)


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return path


# The import hook


@pytest.mark.usefixtures("nki_free")
class TestInstall:
    @pytest.mark.parametrize("name", ["language", "isa", "typing", "collectives", "isa.constants"])
    def test_submodules_are_nkisims_own(self, name):
        shim.install()
        own = importlib.import_module(f"nkisim.{name}")
        assert importlib.import_module(f"nki.{name}") is own
        assert own.__spec__.name == f"nkisim.{name}"

    def test_the_top_level_is_the_documented_one(self):
        shim.install()
        nki = importlib.import_module("nki")
        assert nki.jit is nkisim.jit
        assert str(inspect.signature(nki.simulate)) == "(kernel)"
        assert nki.__version__ == "0.3.0"
        assert nki.language is nkisim.language
        assert nki.isa.constants.oob_mode is nkisim.isa.oob_mode

    def test_dtype_is_a_module_and_an_annotation(self):
        shim.install()
        nki = importlib.import_module("nki")
        names = importlib.import_module("nki.dtype")

        def kernel(dtype: nki.dtype = names.bfloat16):
            return dtype

        assert kernel() == nkisim.language.bfloat16
        assert names.float8_e4m3 is nkisim.language.float8_e4m3
        assert names.bool_ is nkisim.language.bool_

    def test_twice_is_once(self):
        shim.install()
        nki = importlib.import_module("nki")
        shim.install()
        assert sum(type(finder).__name__ == "_NkiFinder" for finder in sys.meta_path) == 1
        assert importlib.import_module("nki") is nki

    def test_uninstall_leaves_nothing(self):
        finders = list(sys.meta_path)
        shim.install()
        importlib.import_module("nki.isa.constants")
        shim.uninstall()
        assert sys.meta_path == finders
        assert [name for name in sys.modules if name.split(".")[0] == "nki"] == []
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("nki")

    def test_a_module_that_nki_lacks_is_refused(self):
        shim.install()
        with pytest.raises(ModuleNotFoundError, match=r"nki\.compiler.*nkisim stands in for NKI"):
            importlib.import_module("nki.compiler")

    def test_no_module_is_loaded_under_a_second_name(self):
        importlib.import_module("nkisim.isa")
        served = {"nkisim.isa.constants"}
        inner = [name for name in sys.modules if name.startswith("nkisim.isa.")]
        shim.install()
        for name in set(inner) - served:
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(name.replace("nkisim.", "nki.", 1))
        assert set(inner) - served

    def test_a_real_nki_is_left_alone(self, tmp_path, monkeypatch):
        package(tmp_path, "0.3.0")
        monkeypatch.syspath_prepend(tmp_path)
        shim.install()
        assert importlib.import_module("nki").__doc__ == "Elsewhere."
        assert importlib.import_module("nki.isa").__file__ == str(tmp_path / "nki" / "isa.py")

    def test_force_displaces_a_real_nki_and_uninstall_restores_it(self, tmp_path, monkeypatch):
        package(tmp_path, "0.4.1+g7")
        monkeypatch.syspath_prepend(tmp_path)
        real, real_isa = importlib.import_module("nki"), importlib.import_module("nki.isa")
        shim.install(force=True)
        assert importlib.import_module("nki").__version__ == "0.3.0"
        assert importlib.import_module("nki.isa") is nkisim.isa
        shim.uninstall()
        assert importlib.import_module("nki") is real
        assert importlib.import_module("nki.isa") is real_isa

    @pytest.mark.parametrize(("version", "isa"), [("0.0.1", False), ("0.2.0", True)])
    @pytest.mark.parametrize("loaded", [False, True])
    def test_a_placeholder_or_an_older_nki_is_not_real(
        self, tmp_path, monkeypatch, version, isa, loaded
    ):
        package(tmp_path, version, isa=isa)
        monkeypatch.syspath_prepend(tmp_path)
        if loaded:
            importlib.import_module("nki")
        assert not shim.real_nki_found()
        shim.install()
        assert importlib.import_module("nki").jit is nkisim.jit

    def test_an_nki_on_the_path_is_judged_when_it_is_imported(self, tmp_path, monkeypatch):
        shim.install()
        package(tmp_path, "0.3.0")
        monkeypatch.syspath_prepend(tmp_path)
        assert importlib.import_module("nki").__doc__ == "Elsewhere."


# The command line


def test_a_script_runs_as_python_would_run_it(tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    script = write(
        tmp_path / "script.py",
        """
        import sys
        import beside
        import nki, nki.language as nl
        if __name__ == "__main__":
            print(nki.__version__, nl.__name__, beside.VALUE, sys.argv[1:], __file__)
            sys.exit(3)
        """,
    )
    expected = f"0.3.0 nkisim.language 7 ['--flag', 'run', '--help'] {script}\n"
    for prefix in ([], ["run"]):
        done = nkisim_command(*prefix, script, "--flag", "run", "--help")
        assert (done.stdout, done.stderr, done.returncode) == (expected, "", 3)


def test_an_uncaught_exception_shows_only_the_users_frames(tmp_path):
    script = write(
        tmp_path / "script.py",
        """
        def fail():
            raise ValueError("as the user wrote it")
        fail()
        """,
    )
    done = nkisim_command("run", script)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert done.stderr.splitlines()[-1] == "ValueError: as the user wrote it"
    files = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert len(files) == 2
    assert all(str(script) in line for line in files)


def test_a_script_that_does_not_compile_says_where(tmp_path):
    script = write(tmp_path / "script.py", "x = (\n")
    done = nkisim_command("run", script)
    assert done.returncode == 1
    assert f'File "{script}", line 1' in done.stderr
    assert "runpy" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'SCRIPT'"),
        (["run", "absent.py"], "'absent.py' does not exist"),
        (["absent.py"], "'absent.py' does not exist"),
        (["rum"], "'rum' is neither a command nor a script; did you mean 'run'?"),
        (["run", "--nothing", "absent.py"], "No such option"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(REPOSITORY / "tests")
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_run_keeps_to_a_real_nki_and_says_so_unless_forced(tmp_path):
    package(tmp_path, "0.3.0")
    script = write(tmp_path / "script.py", "import nki; print(nki.__doc__)")
    kept = nkisim_command("run", script)
    assert kept.stdout == "Elsewhere.\n"
    assert "--force" in kept.stderr
    forced = nkisim_command("run", "--force", script)
    assert "nkisim" in forced.stdout
    assert forced.stderr == ""


def test_info_names_the_target_and_the_variables():
    done = nkisim_command(
        "info", env={"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1", "NKI_PRECISE_FP": "1"}
    )
    assert done.returncode == 0, done.stderr
    rows = dict(
        line.strip().split(maxsplit=1) for line in done.stdout.splitlines() if "   " in line
    )
    assert rows["generation"].strip().startswith("gen2")
    assert rows["NKI_PRECISE_FP"].strip() == "1"
    assert rows["NKI_SIMULATOR"].strip() == "not set"
    assert "0.3.0" in done.stdout
    assert "SBUF" in done.stdout
    assert "PSUM" in done.stdout


def test_info_refuses_an_unknown_target():
    done = nkisim_command("info", "--target", "trn9")
    assert done.returncode == 1
    assert "trn9" in done.stderr
    assert "Traceback" not in done.stderr


# The pytest plugin


PLUGINS = ("-p", "nkisim.pytest_plugin", "-p", "xdist", "-p", "no:cacheprovider")
NO_OTHERS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def pytest_in(folder, *options):
    env = without_ours(NO_OTHERS)
    return fresh_process.pytest_command("-q", *PLUGINS, *options, folder, cwd=folder, env=env)


def test_the_plugin_serves_conftest_and_tests(tmp_path):
    (tmp_path / "conftest.py").write_text("import nki\n")
    (tmp_path / "test_it.py").write_text(
        "import nki.isa, nkisim.isa\ndef test(): assert nki.isa is nkisim.isa\n"
    )
    for options in (["--nkisim"], ["--nkisim", "-n", "1"]):
        done = pytest_in(tmp_path, *options)
        assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert pytest_in(tmp_path).returncode != 0


def test_the_plugin_is_inert_without_its_option(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test(): assert 'nki' not in sys.modules and 'nkisim.machine' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, tmp_path]
    done = run(*command, cwd=tmp_path, env=NO_OTHERS)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


ADDOPTS = 'addopts = "--nkisim"'


@pytest.mark.parametrize(
    "files",
    [
        {"conftest.py": "import nki\n", "test_it.py": "def test(): pass\n"},
        {"test_it.py": "import nki.isa\ndef test(): pass\n"},
        {"test_it.py": "def test():\n    import nki\n"},
    ],
    ids=["conftest", "module", "test"],
)
def test_a_run_without_the_option_says_how_to_set_it(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = pytest_in(tmp_path)
    assert done.returncode != 0
    assert ADDOPTS in done.stdout + done.stderr
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{ADDOPTS}\n")
    done = pytest_in(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert ADDOPTS not in done.stdout + done.stderr


def test_a_missing_extension_of_torch_names_the_option(tmp_path):
    (tmp_path / "test_it.py").write_text("import torch_neuronx\n")
    assert ADDOPTS in pytest_in(tmp_path).stdout


def test_other_failures_do_not_name_the_option(tmp_path):
    (tmp_path / "test_it.py").write_text("def test(): import nkis\n")
    done = pytest_in(tmp_path)
    assert "1 failed" in done.stdout
    assert ADDOPTS not in done.stdout + done.stderr


def test_a_failed_assertion_begins_with_line_and_fix(tmp_path):
    """pytest cuts the middle out of long representations."""
    (tmp_path / "test_it.py").write_text(
        "import nkisim.isa\n"
        "from nkisim import Report\n"
        "from nkisim.diagnostics import RULES, Finding, Place\n"
        "def test():\n"
        "    place = Place('/a/long/folder' * 20 + '/kernels.py', 12)\n"
        "    finding = Finding(RULES['M001'], 'message ' * 50, place, fix='write the tile')\n"
        "    report = Report([finding])\n"
        "    assert report.ok, report\n"
    )
    assert "kernels.py:12 M001, fix: write the tile" in pytest_in(tmp_path).stdout


# The environment variable


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request, tmp_path_factory):
    """The interpreter of a new environment in which the distribution is installed."""
    root = tmp_path_factory.mktemp(request.param)
    venv.create(root / "venv", with_pip=False, symlinks=True)
    python = root / "venv" / "bin" / "python"
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").stdout.strip())
    # The dependencies come from this environment. The name sorts behind nkisim_simulator.pth: that
    # file has to work before numpy can be found.
    (site / "parent.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p) + "\n")
    source = ["-e", REPOSITORY] if request.param == "editable" else [REPOSITORY]
    done = run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"),
        *("--no-index", "--no-build-isolation", "--ignore-installed", *source),
    )
    assert done.returncode == 0, done.stderr
    assert (site / "nkisim_simulator.pth").exists()
    assert (site / "nkisim").exists() == (request.param == "wheel")
    return python, site


@pytest.mark.slow
def test_the_variable_makes_an_unmodified_script_run(installed, tmp_path):
    python, _ = installed
    script = write(
        tmp_path / "script.py",
        "import nki, nki.language as nl; print(nki.__version__, nl.__name__)",
    )
    done = run(python, script, env={"NKI_SIMULATOR": "1"})
    assert (done.stdout, done.stderr) == ("0.3.0 nkisim.language\n", "")
    for env in ({}, {"NKI_SIMULATOR": "0"}):
        assert "ModuleNotFoundError: No module named 'nki'" in run(python, script, env=env).stderr


@pytest.mark.slow
def test_the_pages_of_rules_are_there(installed, tmp_path):
    python, _ = installed
    done = run(python, "-m", "nkisim", "rule", "M004", cwd=tmp_path)
    assert "### Good" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_start_file_imports_only_what_it_needs(installed):
    python, _ = installed
    code = "import sys; print(*sorted(m for m in sys.modules if m[:6] in ('nkisim', 'numpy')))"
    assert run(python, "-c", code).stdout == "\n"
    served = "nkisim nkisim.frameworks nkisim.shim\n"
    assert run(python, "-c", code, env={"NKI_SIMULATOR": "1"}).stdout == served


@pytest.mark.slow
def test_python_starts_when_nkisim_is_half_removed(installed):
    python, site = installed
    hidden = [p for p in (site / "nkisim", site / "_nkisim.pth") if p.exists()]
    for path in hidden:
        path.rename(path.with_name(path.name + ".away"))
    try:
        done = run(python, "-c", "print('up')", env={"NKI_SIMULATOR": "1"})
    finally:
        for path in hidden:
            path.with_name(path.name + ".away").rename(path)
    assert hidden
    assert (done.returncode, done.stdout) == (0, "up\n")
