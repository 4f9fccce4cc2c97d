import pytest

from trnsci.core import errors


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ShapeError", ValueError),
        ("DTypeError", TypeError),
        ("DeviceError", RuntimeError),
        ("DimensionError", IndexError),
        ("FlagError", ValueError),
        ("ParameterError", ValueError),
        ("ParameterError", AssertionError),
        ("BackendError", RuntimeError),
        ("KernelError", RuntimeError),
    ],
)
def test_an_error_is_one_of_the_suite_and_the_builtin_that_callers_expect(name, builtin):
    assert issubclass(getattr(errors, name), (errors.TrnsciError,))
    assert issubclass(getattr(errors, name), builtin)


def test_the_fallback_warning_is_a_user_warning_and_no_error():
    assert issubclass(errors.NkiFallbackWarning, UserWarning)
    assert not issubclass(errors.NkiFallbackWarning, errors.TrnsciError)


def test_every_class_is_public_and_in_the_drawn_tree():
    made = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert made == set(errors.__all__)
    assert errors.__all__ == sorted(errors.__all__)
    assert all(name in errors.__doc__ for name in made)
