"""Tensor indirection of NKI 0.5.0: the operands that may be views made by ``indirect``."""

from __future__ import annotations

from typing import NamedTuple

from nkisim.memory import NkiTensor, is_psum, is_sbuf
from nkisim.spec import rules
from nkisim.spec.call import Call
from nkisim.spec.enums import engine as Engine

_QUADRANT = 32


class _Support(NamedTuple):
    """Tensor indirection of one instruction.

    Attributes:
        source: The operand that shares its partitions with the index tile of ``dst``.
        others: Further operands that may be selected, besides ``dst`` and ``source``.
        engines: Engines that support it.
        pairs: Operands that must be selected by the same index, or not at all.
    """

    source: str
    engines: tuple[Engine, ...]
    others: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        return ("dst", self.source, *self.others)


_SCALES = (("stationary", "stationary_scale"), ("moving", "moving_scale"))
_SUPPORT = {
    "activate2": _Support("data", (Engine.scalar,)),
    "activation": _Support("data", (Engine.scalar,)),
    "activation_reduce": _Support("data", (Engine.scalar,)),
    "exponential": _Support("src", (Engine.vector,)),
    "nc_matmul": _Support("stationary", (Engine.tensor,), ("moving",)),
    "nc_matmul_mx": _Support(
        "stationary", (Engine.tensor,), ("stationary_scale", "moving", "moving_scale"), _SCALES
    ),
    "tensor_copy": _Support("src", (Engine.vector, Engine.scalar)),
    "tensor_copy_predicated": _Support("predicate", (Engine.vector,)),
    "tensor_reduce": _Support("data", (Engine.vector,)),
    "tensor_scalar": _Support("data", (Engine.vector, Engine.scalar, Engine.gpsimd)),
    "tensor_scalar_cumulative": _Support("src", (Engine.vector,)),
    "tensor_scalar_reduce": _Support("data", (Engine.vector,)),
    "tensor_tensor": _Support("data1", (Engine.vector, Engine.gpsimd)),
}
"""The instructions whose documentation names tensor indirection."""

_MATMUL_DTYPES = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")


def is_selected(tensor: object) -> bool:
    """Return whether an argument is a view made by ``indirect``."""
    if not isinstance(tensor, NkiTensor) or tensor.indirection is None:
        return False
    return tensor.indirection.kind == "columns"


def group_of(call: Call) -> int | None:
    """Return the number of partitions that share offsets; None without tensor indirection."""
    if call.name not in _SUPPORT:
        return None
    return 32 if call.engine is Engine.tensor else 16


def pairs_of(call: Call) -> tuple[tuple[str, str], ...]:
    """Return the pairs of operands of a call that must be selected by the same index."""
    support = _SUPPORT.get(call.name)
    return () if support is None else tuple(p for p in support.pairs if is_selected(call[p[0]]))


def check_selected(call: Call, name: str) -> None:
    """Check that an instruction accepts tensor indirection in an operand."""
    support = _SUPPORT.get(call.name)
    if is_selected(call[name]) and (support is None or name not in support.operands):
        accepted = "none of its operands" if support is None else ", ".join(support.operands)
        _refuse(call, name, "has tensor indirection", accepted)


def check_indirection(call: Call) -> None:
    """Check the operands with tensor indirection of a call whose engine is chosen."""
    selected = [(name, t) for name, t in call.tensors(*call.values) if is_selected(t)]
    if not selected:
        return
    support = _SUPPORT[call.name]
    if call.generation.number < 4:
        call.fail(
            rules.GENERATION,
            f"has no tensor indirection on {call.generation}",
            operand=selected[0][0],
            seen=call.generation,
            allowed="gen4 or newer",
            fix="choose another target, or gather with nisa.local_gather or nisa.nc_n_gather",
        )
    if call.engine not in support.engines:
        call.fail(
            rules.WRONG_ENGINE,
            f"has no tensor indirection on the {call.engine} engine",
            operand="engine",
            seen=call.engine,
            allowed=", ".join(str(engine) for engine in support.engines),
            fix="name one of the allowed engines",
        )
    for first, second in support.pairs:
        if is_selected(call[first]) != is_selected(call[second]):
            _refuse(call, first, f"and {second} differ in tensor indirection", "both or none")
    scattered = is_selected(call["dst"]) and is_psum(call.operand("dst").buffer)
    if scattered and call.engine is Engine.scalar:
        _refuse(call, "dst", "is scattered in psum by the scalar engine", "a dst in sbuf")
    if call.engine is Engine.tensor:
        _check_product(call, selected)
    _check_starts(call, support, selected)


def _check_product(call: Call, selected: list[tuple[str, NkiTensor]]) -> None:
    position = tuple(call["tile_position"] or ())
    if any(position):
        _refuse(call, selected[0][0], f"is selected in array tile {position}", "tile (0, 0)")
    if call.values.get("is_transpose") and is_selected(call["moving"]):
        _refuse(call, "moving", "is selected with is_transpose", "stationary and dst")
    for name, tensor in selected:
        inputs = call.name == "nc_matmul" and name != "dst"
        if inputs and tensor.dtype not in _MATMUL_DTYPES:
            _refuse(call, name, f"is selected and {tensor.dtype}", ", ".join(_MATMUL_DTYPES))


def _check_starts(call: Call, support: _Support, selected: list[tuple[str, NkiTensor]]) -> None:
    """Check the first partitions of tiles that have an explicit address."""
    source = call.tensor(support.source)
    for name, tensor in selected:
        index = _index(tensor)
        if not index.life.placed:
            continue
        start = index.start_partition
        if start % _QUADRANT:
            _misplaced(call, name, f"starts at partition {start}", "0, 32, 64 or 96")
        beside = tensor
        if name == "dst":
            if source is None:
                continue
            beside = source
            if is_psum(source.buffer) and is_selected(source) and call.engine is not Engine.tensor:
                beside = _index(source)
            elif not is_sbuf(source.buffer):
                continue
        if beside.life.placed and beside.start_partition != start:
            what = support.source if name == "dst" else name
            text = f"starts at partition {start}, {what} at {beside.start_partition}"
            _misplaced(call, name, text, f"partition {beside.start_partition}")


def _index(tensor: NkiTensor) -> NkiTensor:
    assert tensor.indirection is not None
    index: NkiTensor = tensor.indirection.source
    return index


def _misplaced(call: Call, name: str, why: str, allowed: str) -> None:
    call.fail(
        rules.PARTITION_START,
        f"index of {name} {why}",
        operand=name,
        seen=why,
        allowed=allowed,
        fix="allocate the index at the partition of the tile beside it",
    )


def _refuse(call: Call, name: str, why: str, allowed: str) -> None:
    call.fail(
        rules.INDIRECT_OPERAND,
        f"{name} {why}",
        operand=name,
        seen=why,
        allowed=allowed,
        fix="gather into a tile of its own with nisa.tensor_copy first",
    )
