"""Tracebacks show the user's lines, and neither generated source nor the simulator's frames."""

import traceback
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from fresh_process import nkisim_command

PACKAGE = str(Path(nkisim.__file__).parent)
X = np.ones((4, 8), np.float32)


def divides(x):
    return 1 / 0


def shape_of_text(x):
    return nl.ndarray("abc", dtype=nl.float32, buffer=nl.sbuf)


def range_of_text(x):
    for _ in nl.affine_range("abc"):
        pass
    return x


def argument_twice(x):
    t = nl.load(x)
    nisa.tensor_copy(t, t, dst=t)


def pattern_of_a_number(x):
    return nl.load(x).ap(5)


def no_shape(x):
    return nl.load(x).reshape(None)


def caught_before(x):
    try:
        nl.ndarray("abc", dtype=nl.float32, buffer=nl.sbuf)
    except ValueError:
        raise KeyError("as written") from None


def caught_and_chained(x):
    try:
        nl.ndarray("abc", dtype=nl.float32, buffer=nl.sbuf)
    except ValueError as error:
        raise KeyError("as written") from error


KERNELS = [
    divides,
    shape_of_text,
    range_of_text,
    argument_twice,
    pattern_of_a_number,
    no_shape,
    caught_before,
    caught_and_chained,
]
LAUNCHES = {
    "jit": lambda kernel: nkisim.jit(kernel)(X),
    "grid": lambda kernel: nkisim.jit(kernel)[2](X),
    "simulate": lambda kernel: nkisim.simulate(kernel)(X),
    "check": lambda kernel: nkisim.check(kernel)(X),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_an_exception_in_a_kernel_shows_the_users_lines_only(kernel, launch):
    with pytest.raises(
        (AssertionError, ValueError, TypeError, LookupError, ArithmeticError)
    ) as caught:
        launch(kernel)
    text = "".join(traceback.format_exception(caught.value))
    assert PACKAGE not in text
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == kernel.__name__


def test_the_frames_can_be_asked_for(monkeypatch):
    with pytest.raises(ValueError, match="invalid literal") as caught:
        nkisim.simulate(shape_of_text)(X)
    assert caught.value.__notes__ == ["raised inside nkisim; NKISIM_TRACEBACK=1 shows its frames"]
    monkeypatch.setenv("NKISIM_TRACEBACK", "1")
    with pytest.raises(ValueError, match="invalid literal") as caught:
        nkisim.simulate(shape_of_text)(X)
    assert PACKAGE in "".join(traceback.format_exception(caught.value))


CALLED = [
    pytest.param(module, name, id=f"{module.__name__}.{name}")
    for module in (nisa, nl, ncc)
    for name in module.__all__
    if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
]


@each_case("arguments", [(), (X,), (X, X), (X, X, X), (1, 2, 3, 4, 5, 6)])
@each_case(("module", "name"), CALLED)
def test_a_call_outside_a_kernel_shows_the_users_lines_only(module, name, arguments):
    try:
        getattr(module, name)(*arguments)
    except Exception as error:
        text = "".join(traceback.format_tb(error.__traceback__))
        if isinstance(error, nkisim.NkiValidationError):
            assert PACKAGE not in text
            assert text.count("File ") == 1


@each_case(
    "use",
    [
        lambda: nisa.iota(),
        lambda: nisa.memset(X, 0.0),
        lambda: nl.load(X),
        lambda: nl.zeros((4, 4), nl.float32),
        lambda: nl.arange(4),
        lambda: nisa.matmul,
        lambda: nl.float23,
    ],
)
def test_the_last_line_of_a_traceback_is_the_users(use):
    with pytest.raises((nkisim.NkiValidationError, AttributeError)) as caught:
        use()
    assert PACKAGE not in "".join(traceback.format_exception(caught.value))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_a_script_shows_the_users_lines_only(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import nki.language as nl\nnl.float23\n")
    done = nkisim_command("run", script)
    assert done.returncode == 1
    assert "line 2, in <module>" in done.stderr
    assert PACKAGE not in done.stderr
    assert "Did you mean: 'float" in done.stderr


def test_the_namespace_of_older_releases_leads_to_upgrade(tmp_path):
    kernels = tmp_path / "older.py"
    kernels.write_text("import neuronxcc.nki as nki\n")
    script = tmp_path / "script.py"
    script.write_text("import older\n")
    done = nkisim_command("run", script)
    assert done.returncode == 1
    assert f"`nkisim upgrade {kernels} --write`" in done.stderr
