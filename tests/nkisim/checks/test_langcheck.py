"""Source rules: in files that are not imported, in live kernels, and without any source."""

import functools
import textwrap
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim import check, check_source, simulate
from nkisim.checks import file_findings, kernel_findings
from tiles import stored

ROOT = Path(__file__).parents[3]

HEADER = """
import nki
import nki.language as nl
import nki.isa as nisa
"""


def file_with(folder, text, name="kernels.py"):
    """Return the path of a new file with the usual imports and some definitions."""
    path = folder / name
    path.write_text(HEADER + textwrap.dedent(text))
    return path


# -- files -----------------------------------------------------------------------------------------


def test_a_file_is_read_and_not_run(tmp_path):
    path = file_with(
        tmp_path,
        """
        raise SystemExit("imported")

        @nki.jit
        def kernel(x):
            try:
                return x
            finally:
                pass
        """,
    )
    report = check_source(path)
    assert report.codes == {"L007"}
    (finding,) = report.findings
    assert finding.file == str(path)
    assert finding.place.text == "try:"
    assert not report.ok


def test_only_kernels_and_what_they_reach_are_looked_at(tmp_path):
    path = file_with(
        tmp_path,
        """
        def on_the_host(x):
            return [v for v in x]

        def reached(x):
            return later(x)

        def later(x):
            return [v for v in x]

        @nki.jit
        def kernel(x):
            return reached(x)
        """,
    )
    (finding,) = check_source(path).findings
    assert finding.message.startswith("later ")
    assert check_source(path, "on_the_host").codes == {"L006"}


def test_imports_are_followed_to_files_beside(tmp_path):
    package = tmp_path / "package"
    (package / "parts").mkdir(parents=True)
    for folder in (package, package / "parts"):
        (folder / "__init__.py").write_text("")
    inner = file_with(package / "parts", "def total(xs):\n    return sum(xs)\n", "sums.py")
    near = file_with(package, "def pick(xs):\n    return sorted(xs)[0]\n", "picks.py")
    path = file_with(
        package,
        """
        from package.parts import sums
        from .picks import pick as first

        @nki.jit
        def kernel(x):
            return sums.total([x]), first([x])
        """,
    )
    assert {(f.rule.id, f.file) for f in check_source(path)} == {
        ("L020", str(inner)),
        ("L020", str(near)),
    }


def test_names_that_the_text_does_not_explain_are_left_alone(tmp_path):
    path = file_with(
        tmp_path,
        """
        from elsewhere import sum, helper, np
        import elsewhere.deep as deep

        @nki.jit
        def kernel(x, zip):
            for part in zip(x):
                helper(part, sum(part), np.exp(1), deep.reduce(part))
            return x
        """,
    )
    assert not check_source(path).findings


def test_files_that_import_each_other_are_read(tmp_path):
    file_with(tmp_path, "from b import g\ndef f(x):\n    return g(x)\n", "a.py")
    path = file_with(
        tmp_path,
        """
        from a import f

        @nki.jit
        def kernel(x):
            return f(x)

        def g(x):
            return sum(x)
        """,
        "b.py",
    )
    assert check_source(path).codes == {"L020"}


def test_a_changed_file_is_read_again(tmp_path):
    path = file_with(tmp_path, "@nki.jit\ndef kernel(x):\n    return sum(x)\n")
    assert check_source(path).codes == {"L020"}
    path.write_text(HEADER + "@nki.jit\ndef kernel(x):\n    return x  # changed\n")
    assert not check_source(path).findings


def test_what_cannot_be_checked_says_so(tmp_path):
    none = check_source(file_with(tmp_path, "def kernel(x):\n    return x\n"))
    assert not none.ok
    assert "no function with @nki.jit" in none.summary()
    with pytest.raises(ValueError, match="defines no function missing"):
        check_source(tmp_path / "kernels.py", "missing")
    with pytest.raises(FileNotFoundError):
        check_source(tmp_path / "absent.py")
    broken = file_with(tmp_path, "def kernel(x:\n    return x\n", "broken.py")
    with pytest.raises(SyntaxError) as caught:
        check_source(broken)
    assert caught.value.filename == str(broken)


SUITE = sorted([*ROOT.glob("src/trn*/_kernels/*.py"), *ROOT.glob("examples/*.py")])


@pytest.mark.parametrize(
    ("files", "least"),
    [(SUITE[::3], 20), pytest.param(SUITE, 50, marks=pytest.mark.slow)],
    ids=["a third", "all"],
)
def test_the_kernels_of_the_suite_and_the_examples_are_in_the_language(files, least):
    kernels, findings = zip(*map(file_findings, files), strict=True)
    assert sum(map(len, kernels)) >= least
    assert [str(f) for found in findings for f in found] == []


# -- live kernels ----------------------------------------------------------------------------------


def squares(x):
    widths = [w * w for w in (1, 2)]
    assert widths[1] == 4
    return stored(nl.load(x))


X = np.ones((4, 8), np.float32)


def test_a_check_holds_what_the_source_shows():
    assert check(squares, source=True)(X).codes == {"L006"}
    assert not check(squares, source=False)(X).findings
    run = simulate(squares, source=True, strictness="strict")
    run(X)
    assert not run.report.findings


def test_the_environment_turns_source_rules_off(monkeypatch):
    monkeypatch.delenv("NKISIM_SOURCE_RULES")
    assert check(squares)(X).codes == {"L006"}
    monkeypatch.setenv("NKISIM_SOURCE_RULES", "0")
    assert not check(squares)(X).findings


@pytest.mark.parametrize(
    "kernel",
    [nkisim.jit(squares), nkisim.jit(squares)[1], functools.partial(squares), simulate(squares)],
    ids=["jit", "grid", "partial", "simulation"],
)
def test_every_kind_of_kernel_is_read(kernel):
    assert check(kernel, source=True)(X).codes == {"L006"}


class Squares:
    def __call__(self, x):
        return squares(x)


def test_objects_that_can_be_called_are_read():
    assert {f.rule.id for f in kernel_findings(Squares())} == {"L006"}
    assert {f.rule.id for f in kernel_findings(Squares().__call__)} == {"L006"}


def test_a_kernel_without_source_says_so():
    names = {"nl": nl, "stored": stored}
    exec("def kernel(x):\n    return stored(nl.load(x))\n", names)
    report = check(names["kernel"], source=True)(X)
    (finding,) = report.findings
    assert finding.rule.id == "L065"
    assert "so it was not checked" in finding.message
    assert finding.file == "<string>"


def test_findings_are_the_callers_own():
    first, second = kernel_findings(squares), kernel_findings(squares)
    first[0].count = 7
    assert second[0].count == 1
    assert kernel_findings(squares)[0].count == 1


def test_annotations_decorators_and_defaults_are_not_the_kernels():
    def kernel(x: [int for _ in (1, 2)], count: "sorted" = 0x1FFFFFFFF) -> {1, 2}:
        kept: {int: 3} = count
        assert kept
        return stored(nl.load(x))

    assert not kernel_findings(kernel)


def test_local_names_are_not_builtins():
    def kernel(x, sum):
        sorted = stored(nl.load(x))
        assert sum(2) == 2
        return sorted

    assert not kernel_findings(kernel)


def test_a_loop_over_a_dictionary_and_plain_text_are_legal():
    def kernel(x):
        sizes = {"rows": x.shape[0], "cols": x.shape[1]}
        for name in sizes:
            assert sizes[name] > 0, f"{name} is {sizes[name]!r}"
        tile = nl.load(x)
        with nl.no_reorder():
            for value in sizes.values():
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 / value)
        return stored(tile[...])

    assert not kernel_findings(kernel)


def test_asking_for_a_method_that_tensors_do_not_have_is_no_error():
    def kernel(x):
        assert not hasattr(x, "broadcast")  # how kernels serve several releases
        return stored(nl.load(x))

    assert not check(kernel)(X).findings


# -- tensors ---------------------------------------------------------------------------------------


def codes(kernel):
    return {f.rule.id for f in kernel_findings(kernel)}


def test_tensor_operators_are_found_in_branches_that_do_not_run():
    def kernel(x, scaled):
        tile = nl.load(x)
        if scaled:
            tile = nl.multiply(tile * 2.0, -tile)
            tile[0:2] = tile @ tile
            assert tile > 0
        return stored(tile)

    assert codes(kernel) == {"L026", "L027", "L028"}


def test_what_may_be_a_number_is_not_taken_for_a_tensor():
    def kernel(x, scale, parts, bias=None):
        width = x.shape[1] * scale - 1
        tile = nl.load(x)
        if bias:
            tile = nl.load(bias)
        if parts and not scale > width:
            nisa.tensor_copy(dst=tile, src=parts[0])
        first = parts + parts
        tile = first[0] if first else tile
        assert not -scale
        return stored(tile)

    assert codes(kernel) == set()


def test_a_name_that_is_not_always_a_tensor_has_no_kind():
    def kernel(x, flag):
        value = nl.load(x)
        if flag:
            value = 3
        value = value + 1
        return stored(nl.load(x)), value

    assert codes(kernel) == set()


def test_what_a_dynamic_loop_binds_for_itself_may_be_used_inside_it():
    def kernel(x, static):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if static:
            for _ in nl.dynamic_range(2):
                tile = nl.load(x)
                nl.store(out, tile)
        else:
            nl.store(out, tile)
        tile = nl.load(x)
        nl.store(out, tile)
        for i in nl.dynamic_range(x.shape[0]):
            row = nl.load(x[i])
            nl.store(out[i], row)
        return out

    assert codes(kernel) == set()


def test_a_register_may_keep_a_loop_going():
    def kernel(x):
        more = nisa.register_alloc(1)
        while more:
            nisa.register_move(more, nisa.register_alloc(0))
        return stored(nl.load(x))

    assert codes(kernel) == set()


# -- names and values ------------------------------------------------------------------------------


TABLE = (1, 2, 3)
NAMED = {"rows": 4}
EXTENT = np.int32(8)


def test_constants_of_the_module_are_legal():
    def kernel(x):
        return stored(nl.load(x[0 : TABLE[1], 0 : min(NAMED["rows"], EXTENT)]))

    assert codes(kernel) == set()


def registered(function):
    """Return the function itself, as decorators do that keep a list."""
    return function


@registered
def half_of(count):
    return count // 2


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@counted
def third_of(count):
    return count // 3


def test_a_decorator_is_found_where_it_wraps():
    def half(x):
        return stored(nl.load(x[0 : half_of(4)]))

    def third(x):
        return stored(nl.load(x[0 : third_of(6)]))

    assert codes(half) == set()
    assert codes(third) == {"L005"}


def test_a_kernel_made_inside_a_function_is_found_in_a_file(tmp_path):
    path = file_with(
        tmp_path,
        """
        def make(width):
            @nki.jit
            def kernel(x):
                return x[0:width]

            return kernel
        """,
    )
    assert check_source(path).codes == {"L040"}
    assert check_source(path, "kernel").codes == {"L040"}


def test_integers_at_the_ends_of_32_bits():
    def kernel(x):
        ends = (-(2**31), 2**31 - 1, 0x7FFFFFFF)
        assert ends[0] < ends[-1] < (1 << 30) + 2 * 3 - 1
        return stored(nl.load(x))

    def too_wide(x):
        assert x.shape[0] < 0x80000000
        return stored(nl.load(x))

    assert codes(kernel) == set()
    assert codes(too_wide) == {"L050"}


def test_rounding_up_with_a_negative_dividend_is_the_same_in_both():
    def kernel(x):
        return stored(nl.load(x[0 : -(-x.shape[0] // 3)]))

    assert codes(kernel) == set()


def test_lists_that_grow_have_no_fixed_length():
    def kernel(x):
        parts = [nl.load(x)]
        parts.append(nl.load(x))
        sizes = []
        for i in range(3):
            sizes.append(i)
        return stored(parts[1]), sizes[2], sizes[0:3]

    assert codes(kernel) == set()


def test_a_loop_that_breaks_and_a_function_that_ends_are_legal():
    def kernel(x):
        step = 1
        while True:
            step *= 2
            if step >= x.shape[0]:
                break
        return stored(nl.load(x[0 : depth(step)]))

    assert codes(kernel) == set()


def depth(count):
    return 1 if count <= 1 else 1 + depth(count // 2)


# -- signatures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("def kernel(x, *, scale=1.0):\n    return x", "A016"),
        ("def kernel(x, sizes=[1, 2]):\n    return x", "A018"),
        (
            "def kernel(x):\n"
            "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    nisa.dma_copy(dst=out, src=x)",
            "L060",
        ),
        ("def kernel(x, y):\n    nisa.dma_copy(dst=y[0:2], src=x[0:2])\n    return x", "M029"),
        ("def kernel(x, y):\n    nl.store(y, nl.load(x))\n    return x", "M029"),
    ],
)
def test_signatures_inputs_and_outputs_of_a_file(tmp_path, kernel, expected):
    (finding,) = check_source(file_with(tmp_path, f"@nki.jit\n{kernel}\n"))
    assert finding.rule.id == expected
    assert finding.place.text == kernel.splitlines()[0]


@pytest.mark.parametrize(
    "kernel",
    [
        "def kernel(x, sizes=(1, 2)):\n    return x",
        "def kernel(x, y):\n    nisa.dma_copy(dst=y, src=x)\n    return x, y",
        "def kernel(x, y):\n    nisa.dma_copy(dst=y, src=x)\n    out = (y, x)\n    return out",
        "def kernel(x, y):\n    y = nl.load(y)\n    nisa.memset(dst=y, value=0)\n    return x",
        "def kernel(x):\n    helper(x)\ndef helper(x, *, y=[1]):\n    nl.store(x, nl.load(x))",
    ],
)
def test_legal_signatures_inputs_and_outputs_of_a_file(tmp_path, kernel):
    assert not check_source(file_with(tmp_path, f"@nki.jit\n{kernel}\n")).findings


def test_what_a_run_found_is_not_said_again():
    def kernel(x, *, sizes=[1, 2]):  # noqa: B006
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=x, src=out)

    found = [f.rule.id for f in check(kernel, source=True)(X.copy())]
    assert sorted(found) == ["A016", "A018", "L060", "M029"]


def test_headers_of_loops_and_shapes_that_a_run_does_not_reach():
    def kernel(x, rare):
        tile = nl.load(x)
        if rare:
            for _ in range(x.shape[0] / 2):
                tile = nl.zeros((4, x.shape[1] / 2), dtype=x.dtype, buffer=nl.sbuf)
            for _ in nl.dynamic_range(0, 4, -1):
                nisa.activation(dst=tile, op=nl.exp, data=tile)
            with nl.no_reorder():
                for _ in nl.dynamic_range(4):
                    nisa.activation(dst=tile, op=nl.exp, data=tile)
        return stored(tile)

    assert not check(kernel)(X, False).findings
    assert codes(kernel) == {"L019", "L034", "L036"}


class Answers:
    """Has every attribute, as stand-ins in tests and modules that load late do."""

    def __getattr__(self, name):
        return Answers()

    def __call__(self, value):
        return value


ANYTHING = Answers()


def test_globals_that_answer_to_every_name_are_left_alone():
    def kernel(x):
        return stored(nl.load(ANYTHING(x)))

    assert codes(kernel) == set()
    assert check(kernel, source=True)(X).ok


def test_the_old_namespace_is_named_once_for_a_function(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(
        textwrap.dedent(
            """\
            import nki
            import neuronxcc.nki.language as nl

            @nki.jit
            def kernel(a):
                out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
                nl.store(out, inner(nl.load(a)))
                return out

            def inner(tile):
                return nl.exp(tile)
            """
        )
    )
    found = {(f.line, f.message) for f in check_source(path) if f.rule.id == "L061"}
    assert found == {
        (6, "neuronxcc.nki.language.ndarray is an old name, one of 4 in kernel"),
        (11, "neuronxcc.nki.language.exp is an old name"),
    }
