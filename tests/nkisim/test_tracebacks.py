"""Tracebacks show the user's lines, and neither generated source nor the simulator's frames."""

import traceback
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
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


def without_end(x):
    return without_end(x)


KERNELS = [
    divides,
    shape_of_text,
    range_of_text,
    argument_twice,
    pattern_of_a_number,
    no_shape,
    caught_before,
    caught_and_chained,
    without_end,
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
    with pytest.raises((Exception, RecursionError)) as caught:
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


@pytest.mark.parametrize("call", [lambda: nl.load(X), lambda: nisa.dma_copy(1)])
def test_outside_a_kernel_no_other_source_is_shown_for_generated_code(call):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        call()
    for step in traceback.extract_tb(caught.value.__traceback__):
        if step.name in ("load", "dma_copy") and not Path(step.filename).exists():
            assert step.line == ""
            return
    raise AssertionError("there is no generated frame")


def test_a_script_shows_the_users_lines_only(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import nki.language as nl\nnl.float23\n")
    done = nkisim_command("run", script)
    assert done.returncode == 1
    assert "line 2, in <module>" in done.stderr
    assert PACKAGE not in done.stderr
    assert "Did you mean: 'float" in done.stderr
