"""Kernels as functions: decorators, signatures, arguments, results, Python that is not compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.source import Function, is_none, literal_integer
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NKI, NL, Source
from nkisim.upgrade.tiles import allocated, buffer_of

_LANGUAGE = "nki.language"


@rule("MG-312", "outputs are in shared HBM", "safe", shows=False)
def _outputs(source: Source) -> Iterator[Match]:
    kernels = source.kernels()
    for statement in source.all(ast.Return):
        if source.function_of(statement) not in kernels or statement.value is None:
            continue
        value = statement.value
        nodes = value.elts if isinstance(value, ast.Tuple) else [value]
        for node in nodes:
            if buffer_of(source, node) not in ("hbm", "private_hbm"):
                continue
            for call in source.values(node) or []:
                given = allocated(source, call).get("buffer")
                if given is not None:
                    edit = source.replaced(given, f"{NL}.shared_hbm")
                    yield Match(call, "an output is in shared_hbm", (edit,))


@rule("MG-316", "no keyword-only separator in kernels", "safe", shows=False)
def _separator(source: Source) -> Iterator[Match]:
    for function in source.device_functions():
        parameters = function.args
        if parameters.vararg is not None or not parameters.kwonlyargs:
            continue
        optional = bool(parameters.defaults)
        for default in parameters.kw_defaults:
            if default is None and optional:
                yield Match(
                    function, "remove the *: first move parameters without default to the front"
                )
                break
            optional = optional or default is not None
        else:
            stop = source.span(parameters.kwonlyargs[0])[0]
            found = _STAR.match(source.data, _before(source, function), stop)
            assert found is not None
            yield Match(function, "the * is removed", (Edit(found.start(1), stop, ""),))


_STAR = re.compile(rb"(?:#[^\r\n]*|[^#*])*(\*)")


def _before(source: Source, function: Function) -> int:
    """Return a place in front of the star in the parameters of a function."""
    parameters = function.args
    last = [*parameters.posonlyargs, *parameters.args, *parameters.defaults]
    return max((source.span(node)[1] for node in last), default=source.span(function)[0])


@rule("MG-317", "no identity comparisons in kernels", "safe", shows=False)
def _identity(source: Source) -> Iterator[Match]:
    for comparison in source.all(ast.Compare):
        edits = []
        values = (comparison.left, *comparison.comparators)
        for left, op, right in zip(values, comparison.ops, values[1:], strict=False):
            start, stop = source.span(left)[1], source.span(right)[0]
            found = _IDENTITY.search(source.data, start, stop)
            if is_none(left) or is_none(right):
                continue  # the compiler takes ``is None`` and ``is not None``
            if isinstance(op, ast.Is | ast.IsNot) and found is not None:
                edits.append(Edit(*found.span(), "==" if isinstance(op, ast.Is) else "!="))
        if edits and source.in_device_code(comparison):
            yield Match(comparison, "values are compared, not identities", tuple(edits))


_IDENTITY = re.compile(rb"\bis(\s+not)?\b")


@rule("MG-318", "lists as arguments of kernels", "partial", shows=False)
def _lists(source: Source) -> Iterator[Match]:
    kernels = {function.name: function for function in source.kernels()}
    for function in kernels.values():
        parameters = function.args
        named = zip(reversed(parameters.args), reversed(parameters.defaults), strict=False)
        for parameter, default in (
            *reversed([*named]),
            *zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True),
        ):
            if isinstance(default, ast.List):
                yield from _as_tuple(source, function, parameter.arg, default)
    for call in source.all(ast.Call):
        callee: ast.AST = call.func
        if isinstance(callee, ast.Subscript):
            callee = callee.value
        elif isinstance(callee, ast.Call) and source.name(callee.func) == "nki.simulate":
            callee = callee.args[0] if callee.args else callee
        if not isinstance(callee, ast.Name) or callee.id not in kernels:
            continue
        if source.in_device_code(call):
            continue
        function = kernels[callee.id]
        given = source.arguments(call, source.parameters(function))
        for name, value in given.items():
            if isinstance(value, ast.List):
                yield from _as_tuple(source, function, name, value)


# Uses of a parameter whose result a tuple would change.
_AS_LIST = (ast.Attribute, ast.AugAssign, ast.BinOp, ast.Compare)


def _as_tuple(
    source: Source, function: Function, parameter: str, value: ast.List
) -> Iterator[Match]:
    for name in source.within(function.body, ast.Name):
        call = source.call_of(name)
        typed = call is not None and source.code(call).startswith(("isinstance(", "type("))
        stored = isinstance(name.ctx, ast.Store) or isinstance(source.parent(name), _AS_LIST)
        if name.id == parameter and (typed or stored):
            yield Match(value, f"pass a tuple; {function.name} uses {parameter} as a list")
            return
    edits: list[Edit] = []
    for inner in (value, *(n for n in source.within(value, ast.List) if n is not value)):
        start, stop = source.span(inner)
        if any(isinstance(element, ast.Starred) for element in inner.elts):
            yield Match(value, "pass a tuple")
            return
        single = (
            len(inner.elts) == 1
            and "," not in source.data[source.span(inner.elts[0])[1] : stop].decode()
        )
        edits += [Edit(start, start + 1, "("), Edit(stop - 1, stop, ",)" if single else ")")]
    yield Match(value, "a kernel takes tuples, not lists", tuple(edits))


def _jit_argument(source: Source, name: str) -> Iterator[tuple[ast.Call, tuple[Edit, ...]]]:
    for call in source.calls("nki", "jit"):
        argument = source.keyword(call, name)
        if argument is None:
            continue
        if len(source.given(call)) == 1 and source.is_decorator(call):
            yield call, (source.replaced(call, source.code(call.func)),)
        else:
            yield call, (source.without_argument(call, argument),)


@rule("MG-319", "nki.jit: platform_target moved to the environment", "partial")
def _platform_target(source: Source) -> Iterator[Match]:
    for call, edits in _jit_argument(source, "platform_target"):
        given = source.keyword(call, "platform_target")
        value = "" if given is None else source.code(given.value).strip("\"'")
        review = f"set NEURON_PLATFORM_TARGET_OVERRIDE={value} in the environment"
        yield Match(call, "platform_target= is removed", edits, review)


@rule("MG-320", "nki.jit: mode was removed", "safe", refused="0.4.0")
def _mode(source: Source) -> Iterator[Match]:
    for call, edits in _jit_argument(source, "mode"):
        given = source.keyword(call, "mode")
        review = ""
        if given is not None and "simulation" in source.code(given.value):
            review = "wrap the call in nki.simulate(kernel) or set NKI_SIMULATOR=1"
        yield Match(
            call, "mode= is removed: the framework follows from the arguments", edits, review
        )


@rule("MG-323a", "num_programs() is the size of axis 0", "report", certain=False)
def _num_programs(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "num_programs"):
        if not source.given(call):
            yield Match(call, "the default changed from all axes to axis 0: write axes=0")


@rule("MG-332", "torch_neuronx.nki_jit", "partial")
def _nki_jit(source: Source) -> Iterator[Match]:
    for node, _ in source.decorators():
        name = source.name(node.func if isinstance(node, ast.Call) else node)
        if name not in ("torch_neuronx.nki_jit", "torch_neuronx.xla_impl.ops.nki_jit"):
            continue
        yield Match(node, "nki.jit replaces nki_jit", (source.replaced(node, f"{NKI}.jit"),))


@rule("MG-333", "a grid has one axis", "report")
def _grid(source: Source) -> Iterator[Match]:
    kernels = {function.name for function in source.kernels()}
    for call in source.all(ast.Call):
        launched = call.func
        if (
            isinstance(launched, ast.Subscript)
            and isinstance(launched.value, ast.Name)
            and launched.value.id in kernels
            and len(source.indices(launched)) > 1
        ):
            yield Match(call, "launch with kernel[cores]; loop over the other axes in the kernel")
    for call in source.calls(_LANGUAGE, "program_id", "num_programs"):
        axis = source.arguments(call, ("axis",)).get("axis")
        if axis is not None and literal_integer(axis) not in (None, 0):
            yield Match(call, "a grid has one axis, 0: loop over the others in the kernel")
