"""Kernels as functions: decorators, signatures, arguments, results, Python that is not compiled."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from nkisim.rewriting import Edit
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source, literal_integer
from nkisim.upgrade.tiles import ALLOCATIONS, buffer_of

__all__: list[str] = []

_LANGUAGE = "nki.language"


@rule(
    "MG-312",
    "outputs are in shared HBM",
    since="beta2",
    kind="safe",
    before="@nki.jit\ndef kernel(x):\n"
    "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)\n"
    "    nisa.dma_copy(dst=out, src=x)\n"
    "    return out",
    after="@nki.jit\ndef kernel(x):\n"
    "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
    "    nisa.dma_copy(dst=out, src=x)\n"
    "    return out",
)
def _outputs(source: Source) -> Iterator[Match]:
    kernels = source.kernels()
    for statement in source.all(cst.Return):
        if source.function_of(statement) not in kernels or statement.value is None:
            continue
        value = statement.value
        nodes = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
        for node in nodes:
            if buffer_of(source, node) not in ("hbm", "private_hbm"):
                continue
            module = source.import_of(_LANGUAGE)
            for call in source.values(node) or []:
                assert isinstance(call, cst.Call)
                parameters = ALLOCATIONS[source.nki_name(call.func, _LANGUAGE) or "ndarray"]
                given = (source.arguments(call, parameters) or {}).get("buffer")
                if given is not None and module is not None:
                    edit = source.replaced(given, f"{module[0]}.shared_hbm")
                    yield Match(call, "an output is in shared_hbm", (*module[1], edit))


@rule(
    "MG-316",
    "no keyword-only separator in kernels",
    since="beta2",
    kind="safe",
    before="@nki.jit\ndef kernel(x, *, flag=True):\n    return x",
    after="@nki.jit\ndef kernel(x, flag=True):\n    return x",
)
def _separator(source: Source) -> Iterator[Match]:
    for function in source.device_functions():
        parameters = function.params
        star = parameters.star_arg
        if not isinstance(star, cst.ParamStar):
            continue
        optional = any(p.default is not None for p in parameters.params)
        for parameter in parameters.kwonly_params:
            if parameter.default is None and optional:
                yield Match(
                    function, "remove the *: first move parameters without default to the front"
                )
                break
            optional = optional or parameter.default is not None
        else:
            start = source.span(star)[0]
            stop = source.span(parameters.kwonly_params[0])[0]
            yield Match(function, "the * is removed", (Edit(start, stop, ""),))


@rule(
    "MG-317",
    "no identity comparisons in kernels",
    since="beta2",
    kind="safe",
    before="@nki.jit\ndef kernel(x, flag=True):\n    if flag is True:\n        pass\n    return x",
    after="@nki.jit\ndef kernel(x, flag=True):\n    if flag == True:\n        pass\n    return x",
)
def _identity(source: Source) -> Iterator[Match]:
    for comparison in source.all(cst.Comparison):
        edits = []
        for target in comparison.comparisons:
            start, stop = source.span(target.operator)
            if isinstance(target.operator, cst.Is):
                edits.append(Edit(start, stop, _spaced(source, start, stop, "is", "==")))
            elif isinstance(target.operator, cst.IsNot):
                edits.append(Edit(start, stop, _spaced(source, start, stop, "is not", "!=")))
        if edits and source.in_device_code(comparison):
            yield Match(comparison, "values are compared, not identities", tuple(edits))


def _spaced(source: Source, start: int, stop: int, old: str, new: str) -> str:
    """Return the operator with the white space that its text has around it."""
    text = source.data[start:stop].decode()
    head = text[: len(text) - len(text.lstrip())]
    tail = text[len(text.rstrip()) :]
    return head + new + tail if text.strip() else text.replace(old, new)


@rule(
    "MG-318",
    "lists as arguments of kernels",
    since="beta2",
    kind="partial",
    before="@nki.jit\ndef kernel(x, stride=[1, 1]):\n    return x\n\nkernel(a, stride=[2])",
    after="@nki.jit\ndef kernel(x, stride=(1, 1)):\n    return x\n\nkernel(a, stride=(2,))",
)
def _lists(source: Source) -> Iterator[Match]:
    kernels = {function.name.value: function for function in source.kernels()}
    for function in kernels.values():
        for parameter in (*function.params.params, *function.params.kwonly_params):
            if isinstance(parameter.default, cst.List):
                yield from _as_tuple(source, function, parameter.name.value, parameter.default)
    for call in source.all(cst.Call):
        callee: cst.CSTNode = call.func
        if isinstance(callee, cst.Subscript):
            callee = callee.value
        elif isinstance(callee, cst.Call) and source.name(callee.func) == "nki.simulate":
            callee = callee.args[0].value if callee.args else callee
        if not isinstance(callee, cst.Name) or callee.value not in kernels:
            continue
        if source.in_device_code(call):
            continue
        function = kernels[callee.value]
        names = [parameter.name.value for parameter in function.params.params]
        for name, value in (source.arguments(call, names) or {}).items():
            if isinstance(value, cst.List):
                yield from _as_tuple(source, function, name, value)


# Uses of a parameter whose result a tuple would change.
_AS_LIST = (
    cst.AssignTarget,
    cst.Attribute,
    cst.AugAssign,
    cst.BinaryOperation,
    cst.Comparison,
    cst.ComparisonTarget,
)


def _as_tuple(
    source: Source, function: cst.FunctionDef, parameter: str, value: cst.List
) -> Iterator[Match]:
    for name in source.within(function.body, cst.Name):
        above = source.parent(name)
        typed = isinstance(above, cst.Arg) and source.code(
            source.parent(above) or above
        ).startswith(("isinstance(", "type("))
        if name.value == parameter and (typed or isinstance(above, _AS_LIST)):
            yield Match(value, f"pass a tuple; {function.name.value} uses {parameter} as a list")
            return
    edits: list[Edit] = []
    for inner in (value, *(n for n in source.within(value, cst.List) if n is not value)):
        start, stop = source.span(inner)
        if any(not isinstance(element, cst.Element) for element in inner.elements):
            yield Match(value, "pass a tuple")
            return
        single = (
            len(inner.elements) == 1
            and "," not in source.data[source.span(inner.elements[0].value)[1] : stop].decode()
        )
        edits += [Edit(start, start + 1, "("), Edit(stop - 1, stop, ",)" if single else ")")]
    yield Match(value, "a kernel takes tuples, not lists", tuple(edits))


def _jit_argument(source: Source, name: str) -> Iterator[tuple[cst.Call, tuple[Edit, ...]]]:
    for call in source.calls("nki", "jit"):
        argument = source.keyword(call, name)
        if argument is None:
            continue
        if len(call.args) == 1 and isinstance(source.parent(call), cst.Decorator):
            yield call, (source.replaced(call, source.code(call.func)),)
        else:
            yield call, (source.without_argument(call, argument),)


@rule(
    "MG-319",
    "nki.jit: platform_target moved to the environment",
    since="beta2",
    kind="partial",
    before='@nki.jit(platform_target="trn2")\ndef kernel(x):\n    return x',
    after="@nki.jit\ndef kernel(x):\n    return x",
)
def _platform_target(source: Source) -> Iterator[Match]:
    for call, edits in _jit_argument(source, "platform_target"):
        given = source.keyword(call, "platform_target")
        value = "" if given is None else source.code(given.value).strip("\"'")
        review = f"set NEURON_PLATFORM_TARGET_OVERRIDE={value} in the environment"
        yield Match(call, "platform_target= is removed", edits, review)


@rule(
    "MG-320",
    "nki.jit: mode was removed",
    since="beta2",
    kind="safe",
    before='@nki.jit(mode="torchxla")\ndef kernel(x):\n    return x',
    after="@nki.jit\ndef kernel(x):\n    return x",
)
def _mode(source: Source) -> Iterator[Match]:
    for call, edits in _jit_argument(source, "mode"):
        given = source.keyword(call, "mode")
        review = ""
        if given is not None and "simulation" in source.code(given.value):
            review = "wrap the call in nki.simulate(kernel) or set NKI_SIMULATOR=1"
        yield Match(
            call, "mode= is removed: the framework follows from the arguments", edits, review
        )


@rule(
    "MG-323a",
    "num_programs() is the size of axis 0",
    since="beta2",
    kind="report",
    certain=False,
    before="n = nl.num_programs()",
)
def _num_programs(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "num_programs"):
        if not call.args:
            yield Match(call, "the default changed from all axes to axis 0: write axes=0")


@rule(
    "MG-332",
    "torch_neuronx.nki_jit",
    since="beta2",
    kind="partial",
    before="import torch_neuronx\n\n@torch_neuronx.nki_jit\ndef kernel(x):\n    return x",
    after="import torch_neuronx\n\n@nki.jit\ndef kernel(x):\n    return x",
)
def _nki_jit(source: Source) -> Iterator[Match]:
    for decorator in source.all(cst.Decorator):
        node = decorator.decorator
        name = source.name(node.func if isinstance(node, cst.Call) else node)
        if name not in ("torch_neuronx.nki_jit", "torch_neuronx.xla_impl.ops.nki_jit"):
            continue
        module = source.import_of("nki")
        if module is None:
            yield Match(decorator, "decorate with @nki.jit, and return the outputs")
        else:
            edits = (*module[1], source.replaced(node, f"{module[0]}.jit"))
            yield Match(decorator, "nki.jit replaces nki_jit", edits)


@rule(
    "MG-333",
    "a grid has one axis",
    since="beta2",
    kind="report",
    before="@nki.jit\ndef kernel(x):\n    return x\n\nkernel[2, 4](a)",
)
def _grid(source: Source) -> Iterator[Match]:
    kernels = {function.name.value for function in source.kernels()}
    for call in source.all(cst.Call):
        launched = call.func
        if (
            isinstance(launched, cst.Subscript)
            and isinstance(launched.value, cst.Name)
            and launched.value.value in kernels
            and len(launched.slice) > 1
        ):
            yield Match(call, "launch with kernel[cores]; loop over the other axes in the kernel")
    for call in source.calls(_LANGUAGE, "program_id", "num_programs"):
        axis = (source.arguments(call, ("axis",)) or {}).get("axis")
        if axis is not None and literal_integer(axis) not in (None, 0):
            yield Match(call, "a grid has one axis, 0: loop over the others in the kernel")
