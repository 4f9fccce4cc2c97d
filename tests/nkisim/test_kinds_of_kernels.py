"""What can be a kernel: functions, partials, methods and objects; their names, grids and copies."""

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
import nkisim.typing as nt
from tiles import loaded, stored


def multiplied(source, scale):
    tile = loaded(source)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return stored(tile)


@nkisim.jit
def with_default(source, scale=3.0):
    return multiplied(source, scale)


def plain(source):
    return multiplied(source, 5.0)


@nkisim.jit()
def with_parentheses(source):
    """Documented."""
    return multiplied(source, 5.0)


@nkisim.jit
def calls_a_kernel(source):
    tile = loaded(source)
    inner(tile, 5.0, None)
    return stored(tile)


@nkisim.jit
def inner(tile, scale, nothing):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return tile


@pytest.mark.parametrize(
    "kernel",
    [plain, with_parentheses, calls_a_kernel, with_parentheses[1]],
    ids=["plain", "parentheses", "nested", "grid"],
)
def test_every_kind_of_kernel(kernel):
    source = np.ones((4, 3), np.float32)
    report = nkisim.check(kernel)(source)
    np.testing.assert_array_equal(report.outputs, 5)
    np.testing.assert_array_equal(source, 1)


def scaled(source, scale, offset=0.0):
    tile = loaded(source)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=offset
    )
    return stored(tile)


@pytest.mark.parametrize(
    "kernel", [scaled, nkisim.jit(scaled), nkisim.jit(scaled)[1]], ids=["plain", "jit", "grid"]
)
def test_a_partial_of_a_kernel_is_a_kernel(kernel):
    source = np.ones((4, 3), np.float32)
    for part, rest in (
        (functools.partial(kernel, scale=3.0, offset=1.0), (source,)),
        (functools.partial(kernel, source, 3.0), (1.0,)),
        (functools.partial(functools.partial(kernel, source), scale=9.0, offset=1.0), ()),
    ):
        want = 10 if not rest else 4
        for run in (nkisim.simulate(part), nkisim.jit(part), nkisim.simulate(nkisim.jit(part))):
            np.testing.assert_array_equal(run(*rest), want)
            assert run.__name__ == "scaled"
        np.testing.assert_array_equal(nkisim.check(part)(*rest).outputs, want)
    # What the call gives by name comes before what was bound.
    np.testing.assert_array_equal(
        nkisim.jit(functools.partial(kernel, scale=3.0))(source, scale=5.0), 5
    )


def test_a_partial_runs_inside_a_kernel_and_keeps_its_cores():
    thrice = nkisim.jit(functools.partial(inner, scale=3.0, nothing=None))

    def outer(source):
        tile = loaded(source)
        thrice(tile)
        return stored(tile)

    np.testing.assert_array_equal(nkisim.simulate(outer)(np.ones((2, 2), np.float32)), 3)
    both = nkisim.jit(functools.partial(nkisim.jit(grid_of)[2], ndim=1))
    assert (both.cores, both[1].cores, both[1].bound) == (2, 1, both.bound)
    assert repr(both) == "<nki kernel grid_of[2]>"


@pytest.mark.parametrize(
    "kernel",
    [
        with_default,
        with_default[1],
        nkisim.jit(plain),
        nkisim.jit(functools.partial(with_default, scale=2.0)),
    ],
    ids=["jit", "grid", "under-its-name", "partial"],
)
def test_kernels_and_simulations_go_to_other_processes(kernel):
    source = np.ones((4, 3), np.float32)
    for run in (kernel, nkisim.simulate(kernel, target="gen3")):
        again = pickle.loads(pickle.dumps(run))
        assert type(again) is type(run)
        np.testing.assert_array_equal(again(source), run(source))
    assert repr(pickle.loads(pickle.dumps(kernel))) == repr(kernel)


def test_a_local_kernel_can_be_copied():
    for function in (lambda source: multiplied(source, 3.0), Scaling(3.0), Scaling(3.0).run):
        kernel = nkisim.jit(function)
        for again in (copy.copy(kernel), copy.deepcopy(kernel)):
            np.testing.assert_array_equal(again(np.ones((4, 3), np.float32)), 3)


class Scaling:
    """A kernel that is an object and one that is a method."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, source: nt.tensor[4, 3]):
        return multiplied(source, self.scale)

    def run(self, source: nt.tensor[4, 3]):
        return multiplied(source, self.scale)


def test_objects_and_methods_are_kernels():
    for kernel in (Scaling(5.0), Scaling(5.0).run, nkisim.jit(Scaling(5.0))):
        np.testing.assert_array_equal(nkisim.simulate(kernel)(np.ones((4, 3), np.float32)), 5)
    with pytest.raises(nkisim.NkiValidationError, match="argument source") as caught:
        nkisim.simulate(Scaling(5.0).run)(np.ones((4, 4), np.float32))
    assert caught.value.rule_id == "L064"
    assert repr(nkisim.jit(Scaling(5.0))) == "<nki kernel Scaling>"


@pytest.mark.parametrize(
    "option", ["mode", "debug_kernel", "show_compiler_tb", "experimental_flags"]
)
def test_options_of_the_compiler_are_accepted_without_effect(option):
    with pytest.warns(DeprecationWarning, match=option):
        kernel = nkisim.jit(**{option: "trace"})(plain)
    np.testing.assert_array_equal(nkisim.check(kernel)(np.ones((4, 3), np.float32)).outputs, 5)


def test_the_target_is_no_option_of_a_kernel():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.jit(platform_target="trn2")
    assert caught.value.rule_id == "A019"


def test_a_kernel_keeps_its_name_and_signature():
    assert with_parentheses.__name__ == "with_parentheses"
    assert with_parentheses.__doc__ == "Documented."
    assert list(inspect.signature(with_default).parameters) == ["source", "scale"]
    assert inspect.signature(with_default).parameters["scale"].default == 3.0


@nkisim.jit
def grid_of(source, ndim):
    assert nl.program_ndim() == ndim
    assert nl.num_programs() == 1
    assert nl.program_id(0) == 0
    return stored(loaded(source))


def test_a_grid_of_one():
    source = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(grid_of)(source, 0), source)
    np.testing.assert_array_equal(nkisim.simulate(grid_of[1])(source, 1), source)


def without_a_decorator(source, *, scale=2.0):
    return multiplied(source, scale)


@nkisim.jit
def with_a_decorator(source, *, scale=2.0):
    return multiplied(source, scale)


@functools.partial(lambda kernel, number: kernel, number=1)
# A comment between the decorators.
@nkisim.jit()
def with_decorators(source, *, scale=2.0):
    return multiplied(source, scale)


@pytest.mark.parametrize(
    "kernel", [without_a_decorator, with_a_decorator, with_decorators], ids=lambda k: k.__name__
)
def test_a_finding_about_a_whole_kernel_points_at_its_def(kernel):
    report = nkisim.check(kernel)(np.ones((4, 3), np.float32))
    (finding,) = (f for f in report.findings if f.rule.id == "A016")
    assert finding.place.text == f"def {kernel.__name__}(source, *, scale=2.0):"


def test_without_source_a_finding_has_the_line_that_python_knows():
    scope = {"multiplied": multiplied}
    exec("@staticmethod\ndef made(source, *, scale=2.0):\n    pass\n", scope)
    report = nkisim.check(scope["made"])(np.ones((4, 3), np.float32))
    assert {f.place.line for f in report.findings if f.rule.id == "A016"} == {1}


def scaled_first(function):
    @functools.wraps(function)
    def wrapper(source):
        return function(source, 7.0)

    return wrapper


def passed_on(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@nkisim.jit
@scaled_first
def wrapped(source, scale):
    return multiplied(source, scale)


@nkisim.jit
@passed_on
def wrapped_in_variable_arguments(source, scale=7.0):
    return multiplied(source, scale)


@pytest.mark.parametrize("kernel", [wrapped, wrapped_in_variable_arguments])
def test_a_wrapped_kernel_is_called_as_its_wrapper(kernel):
    source = np.ones((4, 3), np.float32)
    report = nkisim.check(kernel, source=True)(source)
    np.testing.assert_array_equal(report.outputs, 7)
    assert report.arguments == {"source": "float32[4,3]"}
    # The compiler takes the inner function alone.
    (finding,) = report.findings
    assert finding.rule.id == "L005"
    assert "is wrapped by" in finding.message


def test_the_parameters_of_a_wrapped_kernel_are_those_of_the_wrapper():
    assert [p.name for p in wrapped.parameters] == ["source"]
    assert [p.name for p in wrapped_in_variable_arguments.parameters] == ["source", "scale"]


class Scaled(nl.NKIObject):
    def __init__(self, scale):
        self.scale = scale

    @nkisim.jit
    def product(self, source):
        return multiplied(source, self.scale)


def test_a_kernel_of_a_class_is_bound_to_its_instance():
    source = np.ones((4, 3), np.float32)
    bound = Scaled(3.0).product
    np.testing.assert_array_equal(bound(source), 3)
    np.testing.assert_array_equal(Scaled.product(Scaled(5.0), source), 5)
    np.testing.assert_array_equal(nkisim.simulate(bound[1])(source), 3)
    report = nkisim.check(bound)(source)
    assert report.ok, report
    assert nkisim.profile(bound)(source).kernel == "product"
    assert pickle.loads(pickle.dumps(bound))(source)[0, 0] == 3
