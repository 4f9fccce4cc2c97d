"""Names: the old namespace, NumPy in place of ``nl``, removed functions and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nkisim.rewriting import Edit
from nkisim.source import Function, string
from nkisim.upgrade.rules import Finder, Match, removed, rule
from nkisim.upgrade.source import NISA, NL, Source
from nkisim.upgrade.tiles import allocated, is_tile

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_RANGES = ("affine", "sequential", "static")
_MODULES = ("language", "isa", "typing", "collectives")


@rule("MG-101", "the namespace neuronxcc.nki is now nki", "safe")
def _namespace(source: Source) -> Iterator[Match]:
    for statement in source.all(ast.Import):
        edits: list[Edit] = []
        for item in statement.names:
            text = item.name
            if text != "neuronxcc.nki" and not text.startswith("neuronxcc.nki."):
                continue
            inner = text.removeprefix("neuronxcc.nki.").split(".")[0]
            if text != "neuronxcc.nki" and inner not in _MODULES:
                yield Match(statement, f"{text} has no counterpart in nki: {_gone(inner)}")
                continue
            if item.asname is None:
                yield from _unaliased(source, statement, item)
                continue
            same = text == "neuronxcc.nki" and item.asname == "nki"
            start, stop = source.span(item)
            new = "nki" if same else text.removeprefix("neuronxcc.")
            edits.append(Edit(start, stop if same else start + len(text.encode()), new))
        if edits:
            yield Match(statement, "nki is imported", tuple(edits))
    for origin in source.all(ast.ImportFrom):
        module = origin.module or ""
        if origin.level:
            continue
        if module == "neuronxcc" and origin.names[0].name != "*":
            yield from _from_package(source, origin)
        elif module == "neuronxcc.nki" or module.startswith("neuronxcc.nki."):
            inner = module.removeprefix("neuronxcc.nki").lstrip(".").split(".")[0]
            if inner and inner not in _MODULES:
                yield Match(origin, f"{module} has no counterpart in nki: {_gone(inner)}")
                continue
            start = source.data.index(b"neuronxcc", source.span(origin)[0])
            edit = Edit(start, start + len("neuronxcc."), "")
            yield Match(origin, "nki is imported", (edit,))


def _from_package(source: Source, statement: ast.ImportFrom) -> Iterator[Match]:
    names = {item.name for item in statement.names}
    if names == {"nki"} and len(statement.names) == 1:
        other = statement.names[0].asname
        tail = "" if other is None else f" as {other}"
        yield Match(
            statement, "nki is imported", (source.replaced(statement, f"import nki{tail}"),)
        )
    elif "nki" in names:
        yield Match(statement, "import nki in a statement of its own")


def _unaliased(source: Source, statement: ast.Import, item: ast.alias) -> Iterator[Match]:
    """``import neuronxcc.nki.language`` without ``as``: every use changes too."""
    used = [
        attribute
        for attribute in source.all(ast.Attribute)
        if source.code(attribute) == "neuronxcc.nki" and source.name(attribute) == "nki"
    ]
    start = source.span(item)[0]
    edits = [Edit(start, start + len(b"neuronxcc."), "")]
    edits += [source.replaced(attribute, "nki") for attribute in used]
    bare = [
        name
        for name in source.all(ast.Name)
        if name.id == "nki" and not isinstance(source.parent(name), ast.Attribute)
    ]
    others = [
        other
        for other in source.all(ast.alias)
        if (other is not item and other.name.startswith("neuronxcc"))
        or "nki" in (other.name, other.asname)
    ]
    parameters = [parameter for parameter in source.all(ast.arg) if parameter.arg == "nki"]
    if bare or others or parameters:
        yield Match(statement, "give the import a short name with `as`, then upgrade again")
    else:
        edits = [e for e in edits if e.start != edits[0].start or e == edits[0]]
        yield Match(statement, "nki is imported", tuple(edits))


def _gone(module: str) -> str:
    if module == "compiler":
        return "place tensors with address= of nl.ndarray (MG-113)"
    return "write the kernel out, or call the replacement of the library"


# Operators of NumPy that kernels of Beta 1 passed as op=.
_OPERATORS = {
    **{n: n for n in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal")},
    **{n: n for n in ("greater", "greater_equal", "less", "less_equal", "power", "divide")},
    **{n: n for n in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or")},
    **{n: n for n in ("bitwise_xor", "left_shift", "right_shift", "invert", "exp", "log", "sqrt")},
    **{n: n for n in ("square", "sin", "tanh", "sign", "abs", "logical_not")},
    **{"max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum"},
    **{"sum": "add", "prod": "multiply", "absolute": "abs", "true_divide": "divide"},
    **{"bitwise_not": "invert"},
}
_OPERATOR_KEYS = ("op", "op0", "op1", "reduce_op", "cmp_op", "comp_op0", "comp_op1", "dst_rmw_op")
_DTYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)),
    "float16",
    "float32",
    "bool_",
)


@rule("MG-119", "operators of NumPy", "safe")
def _operators(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA):
        for position, argument in enumerate(source.given(call)):
            full = source.name(argument.value) or ""
            module, _, name = full.rpartition(".")
            reduced = module == _LANGUAGE and name in ("max", "min", "sum", "prod")
            if not (module == "numpy" or reduced) or argument.star:
                continue
            if argument.keyword is None and position > 5:
                continue
            if argument.keyword is not None and argument.keyword not in _OPERATOR_KEYS:
                continue
            if name in _OPERATORS:
                edit = source.replaced(argument.value, f"{NL}.{_OPERATORS[name]}")
                yield Match(call, f"{name} is {edit.text}", (edit,))
            elif name not in _DTYPES:
                yield Match(call, f"np.{name} is no operator of nki.language: choose one")
    yield from _numpy_values(source, _OPERATORS)


def _numpy_values(source: Source, names: Mapping[str, str]) -> Iterator[Match]:
    """Change names of NumPy that kernels use as values, and those passed to kernels."""
    for node in source.all(ast.Attribute):
        module, _, name = (source.name(node) or "").rpartition(".")
        if module == "numpy" and name in names and _reaches_kernel(source, node):
            edit = source.replaced(node, f"{NL}.{names[name]}")
            yield Match(node, f"np.{name} is {edit.text}", (edit,))


def _reaches_kernel(source: Source, node: ast.AST) -> bool:
    """Return whether a value is used by device code: in its body, as a default, as an argument."""
    above = source.parent(node)
    if (isinstance(above, ast.Call) and above.func is node) or node in source.annotations:
        return False
    for outer in source.ancestors(node):
        if isinstance(outer, ast.Call):
            function = outer.func
            if isinstance(function, ast.Subscript):
                function = function.value
            if (source.name(function) or "").startswith(("numpy.", _ISA, _LANGUAGE)):
                return False  # computed on the host, or an argument that is handled by its place
            kernels = [kernel.name for kernel in source.kernels()]
            if isinstance(function, ast.Name) and function.id in kernels:
                return source.call_of(node) is outer
        if isinstance(outer, ast.Attribute) or outer in source.annotations:
            return False
        if isinstance(outer, Function):
            return outer in source.device_functions()
    return False


@rule("MG-120", "dtypes of NumPy", "safe")
def _dtypes(source: Source) -> Iterator[Match]:
    for call in (*source.calls(_ISA), *source.calls(_LANGUAGE)):
        if source.nki_name(call.func, _LANGUAGE) == "shared_constant":
            continue
        for argument in source.given(call):
            full = source.name(argument.value) or ""
            module, _, name = full.rpartition(".")
            if module == "numpy" and name in _DTYPES:
                edit = source.replaced(argument.value, f"{NL}.{name}")
                yield Match(call, f"np.{name} is {edit.text}", (edit,))
    yield from _numpy_values(source, {name: name for name in _DTYPES})


@rule("MG-120a", "rand has no default dtype", "safe")
def _default_dtype(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "rand"):
        found = source.arguments(call, ("shape", "dtype"))
        if "shape" in found and "dtype" not in found:
            end = source.span(source.given(call)[-1].node)[1]
            edit = Edit(end, end, f", dtype={NL}.float32")
            yield Match(call, "the default of Beta 1 is written out", (edit,))


@rule("MG-121", "fp32.min", "safe")
def _lowest(source: Source) -> Iterator[Match]:
    for attribute in source.all(ast.Attribute):
        if source.name(attribute) in ("nki.language.fp32.min", "nki.isa.fp32.min"):
            edit = source.replaced(attribute, "-3.4028235e38")
            yield Match(attribute, "the lowest float32 is a literal", (edit,))
    for call in source.calls(_LANGUAGE, "finfo"):
        yield Match(call, "nl.finfo was removed: write the limit as a number")


@rule("MG-108", "par_dim", "safe")
def _partition_mark(source: Source) -> Iterator[Match]:
    for call in source.calls(_LANGUAGE, "par_dim"):
        shape, given = source.parent(call), source.given(call)
        if len(given) != 1 or not isinstance(shape, ast.Tuple | ast.List):
            yield Match(call, "nl.par_dim was removed: the first dimension is the partition")
        elif shape.elts[0] is call or _is_in_hbm(source, shape):
            edit = source.replaced(call, source.code(given[0].value))
            yield Match(call, "the first dimension is the partition", (edit,))


def _is_in_hbm(source: Source, shape: ast.AST) -> bool:
    """Return whether a shape is the one of a tensor in HBM, which has no partitions."""
    call = source.call_of(shape)
    buffer = None if call is None else allocated(source, call).get("buffer")
    return buffer is not None and (source.nki_name(buffer, _LANGUAGE) or "").endswith("hbm")


_GONE_NAMES = {
    "nki": ("baremetal", "benchmark", "profile", "simulate_kernel", "trace"),
    "nki.language": ("arange", "fp32", "mgrid", "par_dim"),
    "torch_neuronx": ("nki_jit",),
}


@rule("MG-101a", "imports of removed names", "safe")
def _unused_imports(source: Source) -> Iterator[Match]:
    """Remove imports of names that 0.3.0 does not have once nothing uses them any more."""
    for statement in source.all(ast.ImportFrom):
        removed = _GONE_NAMES.get((statement.module or "").removeprefix("neuronxcc."), ())
        if statement.level:
            continue
        for item in statement.names:
            known = source.scope(statement).assignments[item.asname or item.name]
            if item.name not in removed or any(one.references for one in known):
                continue
            edit = source.without_import(item)
            if edit is not None:
                yield Match(statement, f"{item.name} is not imported", (edit,))


@rule("MG-102a", "annotated tiles", "safe")
def _annotations(source: Source) -> Iterator[Match]:
    for statement in source.all(ast.AnnAssign):
        annotation = statement.annotation
        base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        if source.name(base) != "nki.typing.tensor" or statement.value is None:
            continue
        if source.function_of(statement) is not None:
            edit = Edit(source.span(statement.target)[1], source.span(statement.value)[0], " = ")
            yield Match(statement, "the annotation of a tile is removed", (edit,))


_REMOVED = {
    "atomic_rmw": "use nisa.dma_compute",
    "all_reduce": "use nki.collectives.all_reduce",
    "loop_reduce": "accumulate in an explicit loop",
    "spmd_dim": "launch with kernel[cores]",
    "nc": "launch with kernel[cores]",
    "static_cast": "copy into a tile of the dtype with nisa.tensor_copy",
}


@rule("MG-127", "removed functions of nki.language", "report")
def _removed(source: Source) -> Iterator[Match]:
    for node in source.all(ast.Attribute):
        name = source.nki_name(node, _LANGUAGE)
        if name in _REMOVED:
            yield Match(node, f"nl.{name} was removed: {_REMOVED[name]}")
        elif source.nki_name(node, _ISA) == "builtin_custom_op":
            yield Match(node, "nisa.builtin_custom_op was removed; it has no replacement")


@rule("MG-128", "performance modes as strings", "safe")
def _perf_mode(source: Source) -> Iterator[Match]:
    modes = {"double_row_gen3": "double_row", "double_row": "double_row", "none": "none"}
    for call in source.calls(_ISA, "nc_matmul"):
        argument = source.keyword(call, "perf_mode")
        text = None if argument is None else string(argument.value)
        if argument is None or text is None:
            continue
        if text not in modes:
            yield Match(call, "choose a member of nisa.matmul_perf_mode")
        else:
            edit = source.replaced(argument.value, f"{NISA}.matmul_perf_mode.{modes[text]}")
            yield Match(call, "the mode is a member of an enum", (edit,))


def _renamed(module: str, function: str, **names: str) -> Finder:
    """Return the function that gives keywords of a function of NKI their new names."""

    def find(source: Source) -> Iterator[Match]:
        for call in source.calls(module, function):
            old = [keyword for keyword in call.keywords if keyword.arg in names]
            edits = [source.renamed(keyword, names[keyword.arg or ""]) for keyword in old]
            if edits:
                yield Match(call, "keywords have their new names", tuple(edits))

    return find


rule("MG-130", "device_print: prefix and x", "safe")(
    _renamed(_LANGUAGE, "device_print", prefix="print_prefix", x="tensor")
)
rule("MG-202", "nc_matmul: is_moving_zero, is_stationary_zero", "safe")(
    _renamed(
        *(_ISA, "nc_matmul"),
        is_moving_zero="is_moving_onezero",
        is_stationary_zero="is_stationary_onezero",
    )
)


@rule("MG-131", "broadcast_to: src, and the method of tiles", "safe")
def _broadcast_to(source: Source) -> Iterator[Match]:
    yield from _renamed(_LANGUAGE, "broadcast_to", src="x")(source)
    for call in source.all(ast.Call):
        method, given = call.func, source.given(call)
        if not isinstance(method, ast.Attribute) or method.attr != "broadcast_to":
            continue
        if not is_tile(source, method.value) or not given or any(a.star for a in given):
            continue
        start, stop = source.span(call)[0], source.span(given[0].node)[0]
        edit = Edit(start, stop, f"{NL}.broadcast_to({source.bare(method.value)}, ")
        yield Match(call, "nl.broadcast_to repeats the tile", (edit,))


rule("MG-134", "affine_range: precise_schedule", "safe")(
    removed("precise_schedule", *(f"{_LANGUAGE}.{kind}_range" for kind in _RANGES))
)


rule("MG-203", "nc_matmul: psumAccumulateFlag", "safe")(
    removed("psumAccumulateFlag", f"{_ISA}.nc_matmul")
)
