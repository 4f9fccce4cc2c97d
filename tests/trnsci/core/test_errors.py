import ast
import builtins
import re
from pathlib import Path

import pytest
import torch

from trnsci.core import errors
from trnsci.core.errors import matrices

MATRIX_ERRORS = [
    name
    for name, error in vars(matrices).items()
    if isinstance(error, type) and issubclass(error, errors.LinAlgError)
]


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ShapeError", ValueError),
        ("OperandError", ValueError),
        ("OperandError", AssertionError),
        ("DTypeError", TypeError),
        ("DerivativeError", RuntimeError),
        ("DeviceError", RuntimeError),
        ("DimensionError", IndexError),
        ("FlagError", ValueError),
        ("ParameterError", ValueError),
        ("ParameterError", AssertionError),
        ("BackendError", RuntimeError),
        ("KernelError", RuntimeError),
        ("RankError", RuntimeError),
        ("LinAlgError", torch.linalg.LinAlgError),
        ("LinAlgError", ValueError),
        *((name, errors.LinAlgError) for name in MATRIX_ERRORS),
    ],
)
def test_an_error_is_one_of_the_suite_and_the_builtin_that_callers_expect(name, builtin):
    assert issubclass(getattr(errors, name), (errors.TrnsciError,))
    assert issubclass(getattr(errors, name), builtin)


def test_the_fallback_warning_is_a_user_warning_and_no_error():
    assert issubclass(errors.NkiFallbackWarning, UserWarning)
    assert not issubclass(errors.NkiFallbackWarning, errors.TrnsciError)


def test_every_class_is_public_and_in_the_drawn_tree():
    made = {
        name
        for module in (errors, matrices)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__.startswith("trnsci.")
    }
    assert made == set(errors.__all__)
    assert errors.__all__ == sorted(errors.__all__)
    assert all(name in errors.__doc__ for name in made)


# Not errors of callers: attributes and modules that are not there, stubs that subclasses fill, what
# the same function catches again, and a loop that has never been seen to end.
OTHERS = {"AttributeError", "ModuleNotFoundError", "NotImplementedError"}
CAUGHT = {"trnblas/_quick.py", "trnrand/generator.py", "trnsci/core/arguments.py"}
IMPOSSIBLE = {"trnrand/_sampling/samplers.py"}


BUILTINS = [name for name, kind in vars(builtins).items() if isinstance(kind, type)]
RAISED = re.compile(rf"\braise\W+({'|'.join(BUILTINS)})\b")


def raised_builtins(source):
    if not RAISED.search(source):  # a hundredth of the time of a tree
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = getattr(raised, "id", "")
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception) and name not in OTHERS:
                yield name


def test_the_libraries_raise_nothing_outside_of_the_tree():
    source = Path(errors.__file__).parents[2]
    found = {}
    libraries = ("trnblas", "trnfft", "trnrand", "trnsci", "trnsolver", "trnsparse", "trntensor")
    for library in libraries:
        for path in sorted((source / library).rglob("*.py")):
            name = path.relative_to(source).as_posix()
            raised = set(raised_builtins(path.read_text()))
            if name in CAUGHT:
                raised -= {"TypeError"}
            if raised and name not in IMPOSSIBLE:
                found[name] = raised
    assert not found
