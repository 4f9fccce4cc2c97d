"""The errors of beginners: the code that their findings carry, pasted, is accepted."""

import linecache

import numpy as np
import pytest

import nkisim
from each_case import each_case
from scripts import imported

from .beginner_kernels import ERRORS, inputs_of, text_of

MOST_PASTES = 3


def faults_of(file, inputs, target="gen3", rule=""):
    """The errors, and warnings of a rule, of a check of the kernel of a file; and its result."""
    linecache.checkcache(str(file))
    with imported(file) as module:
        report = nkisim.check(module.kernel, target=target, source=True)(*inputs)
    found = [f for f in report.findings if f.severity == "error" or f.rule.id == rule]
    return found, report.outputs


def pasted(folder, name, target):
    """Pastes code until no error is left; returns the first errors, how often, and the result."""
    file, inputs, rule = folder / f"{name}.py", inputs_of(name), ERRORS[name][0]
    file.write_text(text_of(name))
    found, result = faults_of(file, inputs, target, rule)
    first = found
    for pastes in range(MOST_PASTES + 1):
        if not found:
            return first, pastes, result
        coded = [finding for finding in found if finding.rewrite is not None]
        assert coded, "\n".join(map(str, found))
        file.write_text(coded[0].rewrite.applied(file.read_text()))
        found, result = faults_of(file, inputs, target, rule)
    raise AssertionError(f"still broken after {MOST_PASTES} pastes:\n{file.read_text()}")


@each_case("name", [*ERRORS])
def test_the_code_of_a_beginners_error_is_accepted(tmp_path, name):
    assert_accepted(tmp_path, name, "gen3")


@pytest.mark.slow
@each_case(
    "name, target",
    [(n, t) for n in ERRORS for t in ("gen2", "gen4") if (n, t) != ("wide_product", "gen4")],
)
def test_it_is_on_other_generations(tmp_path, name, target):
    assert_accepted(tmp_path, name, target)


def assert_accepted(folder, name, target):
    first, pastes, result = pasted(folder, name, target)
    assert ERRORS[name][0] in [finding.rule.id for finding in first]
    assert pastes >= 1
    wanted = MEANT.get(name)
    if wanted is not None:
        x, y = inputs_of(name)
        np.testing.assert_allclose(result, wanted(x, y), rtol=2e-2 if "mixed" in name else 1e-4)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


MEANT = {
    **dict.fromkeys(("invented_multiply", "other_name"), lambda x, y: x * y),
    **dict.fromkeys(("times_number", "invented_scalar_mul"), lambda x, y: 2 * x),
    **dict.fromkeys(("argument_out", "arguments_a_b", "no_dst_binary"), lambda x, y: x + y),
    **dict.fromkeys(("string_operator", "numpy_operator", "plus", "in_place"), lambda x, y: x + y),
    **dict.fromkeys(("invented_exp", "argument_x", "no_dst_unary"), lambda x, y: np.exp(x)),
    **dict.fromkeys(("operand_in_hbm", "result_in_hbm", "function_of_hbm"), lambda x, y: np.exp(x)),
    **dict.fromkeys(("numpy_function", "math_function", "wide_tile"), lambda x, y: np.exp(x)),
    "rows_256_of_ndarray": lambda x, y: np.exp(x),
    **dict.fromkeys(("no_dst_load", "rows_256", "tile_returned", "invented_load"), lambda x, y: x),
    **dict.fromkeys(("string_memory", "numpy_dtype", "engine_number"), lambda x, y: x),
    **dict.fromkeys(
        ("other_reduction", "method_sum", "argument_dim", "no_axis", "numpy_sum", "axis_too_large"),
        lambda x, y: x.sum(1, keepdims=True),
    ),
    "no_dst_reduction": lambda x, y: x.sum(1, keepdims=True),
    **dict.fromkeys(("axis_of_partitions", "sum_over_partitions"), lambda x, y: x.sum(0)[None]),
    **dict.fromkeys(("invented_matmul", "arguments_lhs_rhs", "psum_stored"), lambda x, y: x.T @ y),
    **dict.fromkeys(("no_dst_product", "product_in_sbuf", "mixed_product"), lambda x, y: x.T @ y),
    **dict.fromkeys(("matrix_product", "numpy_order"), lambda x, y: x @ y.T),
    "contraction_in_columns": lambda x, y: x @ y.T,
    "contraction_in_a_free_dimension": lambda x, y: x @ y,
    "psum_as_operand": lambda x, y: (x.T @ y).T @ (x.T @ y),
    **dict.fromkeys(("method_transposed", "no_dst_transpose"), lambda x, y: x.T),
    **dict.fromkeys(("divided", "divided_tiles"), lambda x, y: x / y),
    "divided_by_number": lambda x, y: x / 2,
    "power": lambda x, y: x**2,
    "compared": lambda x, y: x > 0.75,
    "softmax": lambda x, y: softmax(x),
    "column_added": lambda x, y: x + y[:, :1],
    "row_added": lambda x, y: x + y[:1],
    "column_in_tensor_tensor": lambda x, y: x - y.max(1, keepdims=True),
    "operators_with_a_column": lambda x, y: x - x.max(1, keepdims=True),
    **dict.fromkeys(("sum_without_beginning", "unordered_sum"), lambda x, y: 3 * x),
    "invented_clip": lambda x, y: np.clip(x, 0.75, 1.25),
    "part_assigned": lambda x, y: np.concatenate([y[:, :64], x[:, 64:]], 1),
}


def test_there_are_sixty():
    assert len(ERRORS) >= 60
    assert MEANT.keys() <= ERRORS.keys()


@each_case(
    "line",
    [
        "z = t % 2.0",  # no engine has it
        "z = np.sum(t)",  # of all elements, or of the rows
        "z = t.sum()",
        "z = t.astype(nl.bfloat16, True)",
        "z = nl.sum_rows(t, axis=0)",
        "z = nl.softmax(t, axis=0)",
        "z = t @ t",  # the shapes do not fit
    ],
)
def test_where_no_code_can_be_right_the_text_says_what_to_decide(tmp_path, line):
    file = tmp_path / "undecided.py"
    file.write_text(text_of("tile_returned").replace("return t", f"{line}\n    return x"))
    found, _ = faults_of(file, inputs_of("tile_returned"))
    assert found
    for finding in found:
        assert finding.fix
        if finding.rewrite is not None:
            code = finding.rewrite.applied(file.read_text())
            file.write_text(code)
            found, _ = faults_of(file, inputs_of("tile_returned"))
            assert found[0].rewrite is None
