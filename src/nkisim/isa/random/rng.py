"""Random numbers: rng, rand2, dropout, and the seeds and states of the generators.

The device's stream of numbers is not published and not reproduced (see ``generators``). An engine
has one generator state per partition, local to a core and a run: an engine that the kernel does not
seed starts from a fixed state here, from an unknown one on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import (
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nkisim.isa.random.generators import LANES, XORWOW_WORDS, Generator, Lfsr, Xorwow, uniform
from nkisim.machine import Core, Loaded, instruction
from nkisim.memory import NkiTensor
from nkisim.spec import ON_CHIP, SBUF, Arithmetic, Call, Column, Constraint, In, Out, unconverted
from nkisim.spec.constraints import dtype_in, same_dtype, same_free_size, same_partitions
from nkisim.spec.cost import fixed, stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import Follow, ValueWatch
from nkisim.spec.operator_constraints import (
    engine_among,
    engine_named,
)

Array = np.ndarray

DROP_PROBABILITY = declare(
    "D038",
    "drop-probability",
    "dropout has a probability outside 0 to 1, or one of a type that its data does not allow.",
    "the engine compares random numbers with prob * 2^32; for integer data prob is float32",
    on_values=True,
)
RANDOM_ARGUMENT = declare(
    "D039",
    "random-argument",
    "A seed, state, range or destination of a random number instruction is not of its form.",
    "seeds are one 32-bit word, states 6 or 24 words per partition, ranges float32 with min < max",
    meaningless=True,
    on_values=True,
)
UNSEEDED = declare(
    "R012",
    "unseeded-generator",
    "Random numbers are drawn from an engine that the kernel has not seeded.",
    "the numbers differ from run to run on the device; here they come from a fixed seed",
    severity="warning",
)

_INTEGERS = (int8, int16, int32, uint8, uint16, uint32)
_UNIFORM = (float8_e4m3, float8_e5m2, float16, bfloat16, float32, tfloat32, *_INTEGERS)
_PER_VECTOR_LANE = 4
"""XORWOW generators, and so numbers per cycle, in each lane of the Vector engine of gen4."""
_STATE_WORDS = {Engine.gpsimd: XORWOW_WORDS, Engine.vector: _PER_VECTOR_LANE * XORWOW_WORDS}
_DEFAULT_SEED = {Engine.vector: 0x5EED0001, Engine.gpsimd: 0x5EED0002}
"""Seeds of engines that the kernel does not seed; different, since the engines' streams differ."""


# -- the generator of an engine --------------------------------------------------------------------


@dataclass(slots=True)
class _Source:
    """The generator of an engine, its seeded lanes, and whether a missing seed was reported."""

    generator: Generator
    seeded: Array = field(default_factory=lambda: np.zeros(LANES, bool))
    told: bool = False


def _source(core: Core, engine: Engine) -> _Source:
    """Return the generator of an engine, created on first use."""
    found: _Source | None = core.generators.get(engine)
    if found is None:
        generator: Generator = Xorwow()
        if engine is Engine.vector:
            generator = Xorwow(_PER_VECTOR_LANE) if core.generation.number >= 4 else Lfsr()
        generator.seed(_DEFAULT_SEED[engine])
        found = core.generators[engine] = _Source(generator)
    return found


def _lanes(tensor: NkiTensor) -> Array:
    """Return the lanes of the partitions of a tile."""
    # A destination with non-consecutive partitions was flagged and may exceed the last lane.
    return (tensor.start_partition + np.arange(tensor.shape[0])) % LANES


def _check_seeded(core: Core, engine: Engine, lanes: Array, name: str) -> None:
    """Flag unseeded lanes of an engine, once per engine."""
    source = _source(core, engine)
    unseeded = int((~source.seeded[lanes]).sum())
    if unseeded and not source.told:
        source.told = True
        others = [e.name for e, s in core.generators.items() if s.seeded.any() and e is not engine]
        flag(
            UNSEEDED,
            f"{name} uses the {engine.name} engine before it is seeded",
            instruction=name,
            seen=f"{unseeded} of {len(lanes)} partitions without a seed"
            + (f"; only the {others[0]} engine has one" if others else ""),
            fix="seed with nisa.set_rng_seed first"
            if engine is Engine.vector
            else "set a state with nisa.rand_set_state on gpsimd first, or use the vector engine",
        )


def _draws(call: Call) -> Follow:
    """Return the check for seeds in the lanes that a call draws from."""
    dst, name, engine = call.instruction.parameters.index("dst"), call.name, call.engine
    return lambda core, arguments: _check_seeded(core, engine, _lanes(arguments[dst]), name)


def _draw(core: Core, engine: Engine, dst: NkiTensor) -> Array:
    """Return one uint32 number per element of ``dst``, from the lanes of its partitions."""
    return _source(core, engine).generator.draw(_lanes(dst), dst.free_size)


def _bits(call: Call) -> Arithmetic:
    return "bits"


# -- numbers ---------------------------------------------------------------------------------------


def _rng_engines(call: Call) -> tuple[Engine, ...]:
    if call.generation.number == 2:
        return (Engine.vector,)
    return (Engine.vector, Engine.gpsimd)


_NAMED_ENGINE = engine_named()
_RNG_REQUIRES = (
    engine_among(_rng_engines, "not on the GpSimd engine of gen2"),
    dtype_in("dst", _INTEGERS, RANDOM_ARGUMENT),
)


@instruction(
    engines=(Engine.vector, Engine.gpsimd),
    operands={"dst": Out(ON_CHIP)},
    require=_RNG_REQUIRES,
    arithmetic=_bits,
    stateful=True,
    follow=_draws,
    cost=stream(over="dst"),
    source="nki.isa.rng, 0.3.0",
    changes={"0.5.0": {"require": (*_RNG_REQUIRES, _NAMED_ENGINE)}},
)
def rng(core: Core, dst: Any, engine: Engine = Engine.unknown, name: str | None = None) -> Array:
    """Write 32 random bits per element; narrower types take the low bits.

    Without ``engine=`` the Vector engine draws, on every generation: it is the one that
    ``set_rng_seed`` seeds and that reaches PSUM. From NKI 0.5.0 on it is the default by name.

    Args:
        dst: Tile of integers that receives the bits.
        engine: Engine whose generator draws, ``vector`` or on gen3 and later ``gpsimd``.
    """
    drawing = Engine.vector if engine is Engine.unknown else engine
    return _draw(core, drawing, dst)


def _range(call: Call) -> ValueWatch:
    low, high = (call.instruction.parameters.index(bound) for bound in ("min", "max"))

    def check(arguments: Sequence[Any]) -> None:
        start, end = arguments[low], arguments[high]
        with np.errstate(over="ignore"):
            legal = (start < end) & np.isfinite(start) & np.isfinite(end)
        if not legal.all():
            at = np.unravel_index(int(np.argmin(legal)), legal.shape)
            pair = [float(np.broadcast_to(bound, legal.shape)[at]) for bound in (start, end)]
            flag(
                RANDOM_ARGUMENT,
                f"rand2 has an empty range from {pair[0]:g} to {pair[1]:g}",
                instruction="rand2",
                operand="max",
                seen=f"min {pair[0]:g}, max {pair[1]:g}"
                + (f" in partition {int(at[0])}" if at else ""),
                allowed="finite numbers with min < max",
                fix="exchange min and max, or fill a constant with nisa.memset",
            )

    return check


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "min": Column(ON_CHIP), "max": Column(ON_CHIP)},
    require=(
        dtype_in("dst", _UNIFORM, RANDOM_ARGUMENT),
        dtype_in("min", (float32,), RANDOM_ARGUMENT),
        dtype_in("max", (float32,), RANDOM_ARGUMENT),
        same_partitions("dst", "min", "max"),
    ),
    since=4,
    stateful=True,
    follow=_draws,
    # The numbers are float32, so integers beyond 2^24 have gaps; this is no finding.
    moves=True,
    watch_values=_range,
    spread="lanes",
    cost=stream(over="dst", factor=0.25),
    source="nki.isa.rand2, 0.3.0",
)
def rand2(core: Core, dst: Any, min: Any, max: Any, name: str | None = None) -> Array:
    """Write uniform random numbers in [min, max), rounded from float32 to the type of ``dst``.

    Narrow types may round up to ``max``.

    Args:
        min: Smallest number: a number, or one float32 value per partition.
        max: Bound above all numbers, larger than ``min``: a number, or one float32 value per
            partition.
    """
    drawn = uniform(_draw(core, Engine.vector, dst), min, max)
    return drawn if dst.dtype.is_float else np.rint(drawn)


def _probability_type(call: Call) -> None:
    data, prob = call.tensor("data"), call.tensor("prob")
    if data is None or prob is None:
        return
    allowed = "any float type" if data.dtype.is_float else "float32"
    if prob.dtype == "float32" or (data.dtype.is_float and prob.dtype.is_float):
        return
    call.fail(
        DROP_PROBABILITY,
        f"prob must be {allowed} for {data.dtype} data, got {prob.dtype}",
        operand="prob",
        seen=prob.dtype,
        allowed=allowed,
        fix="keep the probabilities in a float32 (P, 1) tile",
    )


def _probability_value(call: Call) -> ValueWatch:
    index = call.instruction.parameters.index("prob")

    def check(arguments: Sequence[Any]) -> None:
        prob = np.asarray(arguments[index]).astype(np.float32)
        outside = ~((prob >= 0) & (prob <= 1))
        if outside.any():
            flag(
                DROP_PROBABILITY,
                "dropout has a drop probability outside 0 to 1",
                instruction="dropout",
                operand="prob",
                seen=f"{float(prob[outside].flat[0]):g}"
                + (f", {int(outside.sum())} of {prob.size} partitions" if prob.ndim else ""),
                allowed="0 (keep everything) to 1 (drop everything)",
                fix="pass the probability of dropping an element, as a fraction",
            )

    return check


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP), "prob": Column(ON_CHIP)},
    require=(
        same_partitions("dst", "data", "prob"),
        same_free_size("dst", "data"),
        same_dtype("dst", "data"),
        Constraint(
            "prob float32 for integer data, else a float", (DROP_PROBABILITY,), _probability_type
        ),
    ),
    arithmetic=unconverted,
    stateful=True,
    follow=_draws,
    watch_values=_probability_value,
    spread="elements",
    cost=stream(over="data"),
    source="nki.isa.dropout, 0.3.0",
)
def dropout(core: Core, dst: Any, data: Any, prob: Any, name: str | None = None) -> Array:
    """Replace elements by zero with probability ``prob``; the others are unchanged, not rescaled.

    An element is dropped when its random number is below ``prob`` * 2^32, so 0 keeps and 1 drops
    everything.

    Args:
        data: Tile of the elements, of the dtype of ``dst``.
        prob: Probability of a zero, from 0 to 1: a number, or one value per partition.
    """
    threshold = np.asarray(prob).astype(np.float32).astype(np.float64) * 2.0**32
    dropped = _draw(core, Engine.vector, dst) < threshold
    result = np.array(data)
    result[dropped] = 0
    return result


# -- seeds and states ------------------------------------------------------------------------------


def _one_word(call: Call) -> None:
    tile = call.operand("src_seeds")
    if tile.shape[0] != 1 or tile.free_size != 1 or tile.dtype.bits != 32:
        call.fail(
            RANDOM_ARGUMENT,
            f"src_seeds must be a (1, 1) tile of a 32-bit type, got {tile.dtype} {tile.shape}",
            operand="src_seeds",
            seen=f"{tile.dtype} {tile.shape}",
            allowed="(1, 1), int32 or uint32",
            fix="pass one word, such as nl.full((1, 1), 42, dtype=nl.int32)",
        )


def _seeds(call: Call) -> Follow:
    """Return the function that records seeded lanes: all, or the partitions of ``src_seeds``."""
    engine, everywhere = call.engine, call.name == "set_rng_seed"

    def follow(core: Core, arguments: Sequence[Any]) -> None:
        _source(core, engine).seeded[... if everywhere else _lanes(arguments[0])] = True

    return follow


@instruction(
    engines=(Engine.vector,),
    operands={"src_seeds": In(ON_CHIP, decides=True)},
    require=(Constraint("src_seeds is one 32-bit word", (RANDOM_ARGUMENT,), _one_word),),
    arithmetic=_bits,
    stateful=True,
    follow=_seeds,
    cost=fixed(),
    source="nki.isa.set_rng_seed, 0.3.0",
)
def set_rng_seed(core: Core, src_seeds: Any, name: str | None = None) -> tuple[()]:
    """Seed the Vector engine: all lanes, from the bits of one 32-bit word.

    Args:
        src_seeds: Tile (1, 1) of 32 bits with the seed.
    """
    source = _source(core, Engine.vector)
    source.generator.seed(int(src_seeds[0, 0]))
    return ()


def _state_engines(call: Call) -> tuple[Engine, ...]:
    return (Engine.gpsimd, Engine.vector) if call.generation.number >= 4 else (Engine.gpsimd,)


def _state_engine(generation: int, asked: Engine, words: int) -> Engine:
    """Return the engine of a state: the given one, or the one with this state size."""
    if asked is not Engine.unknown:
        return asked
    fits_vector = generation >= 4 and words == _STATE_WORDS[Engine.vector]
    return Engine.vector if fits_vector else Engine.gpsimd


def _state_of(name: str) -> tuple[Callable[[Call], Engine], Constraint]:
    """Return the function that chooses the engine of a state operand, and its constraint."""

    def engine(call: Call) -> Engine:
        tile = call.operand(name)
        return _state_engine(call.generation.number, call["engine"], tile.free_size)

    def check(call: Call) -> None:
        tile, owner = call.operand(name), engine(call)
        words = _STATE_WORDS[owner]
        if tile.dtype == "uint32" and len(tile.shape) == 2 and tile.free_size == words:
            return
        engines = _state_engines(call) if call["engine"] is Engine.unknown else (owner,)
        allowed = " or ".join(f"(P, {_STATE_WORDS[e]}) for {e.name}" for e in engines)
        call.fail(
            RANDOM_ARGUMENT,
            f"{name} must be uint32 {allowed}, got {tile.dtype} {tile.shape}",
            operand=name,
            seen=f"{tile.dtype} {tile.shape}, engine {owner.name}",
            allowed=f"uint32 {allowed}",
            fix=f"allocate nl.ndarray((P, {words}), dtype=nl.uint32)",
        )

    text = f"{name} is uint32 with 6 words per partition on GpSimd, 24 on Vector"
    return engine, Constraint(text, (RANDOM_ARGUMENT,), check)


_SEEDS_ENGINE, _SEEDS_FORM = _state_of("src_seeds")
_DST_ENGINE, _DST_FORM = _state_of("dst")


_STATE_ENGINE = engine_among(_state_engines, "on the Vector engine from gen4")


@instruction(
    engines=(Engine.gpsimd, Engine.vector),
    operands={"src_seeds": In(SBUF, as_view=True, decides=True)},
    require=(_STATE_ENGINE, _SEEDS_FORM),
    since=3,
    choose_engine=_SEEDS_ENGINE,
    arithmetic=_bits,
    stateful=True,
    follow=_seeds,
    cost=fixed(),
    source="nki.isa.rand_set_state, 0.3.0",
    changes={"0.5.0": {"require": (_NAMED_ENGINE, _STATE_ENGINE, _SEEDS_FORM)}},
)
def rand_set_state(
    core: Core, src_seeds: Loaded, engine: Engine = Engine.unknown, name: str | None = None
) -> None:
    """Set the generator states of the lanes that ``src_seeds`` covers.

    Up to NKI 0.4.0, without ``engine=``, the number of words selects the engine: 24 the Vector
    engine, 6 GpSimd. From 0.5.0 on GpSimd is the default.

    Args:
        src_seeds: Tile of uint32 with the words of one state per partition: 24 of the Vector
            engine, 6 of GpSimd.
        engine: Engine whose generator is set.
    """
    tile, stored = src_seeds
    source = _source(core, _state_engine(core.generation.number, engine, tile.free_size))
    source.generator.set_state(_lanes(tile), stored)


@instruction(
    engines=(Engine.gpsimd, Engine.vector),
    operands={"dst": Out(ON_CHIP)},
    require=(_STATE_ENGINE, _DST_FORM),
    since=3,
    choose_engine=_DST_ENGINE,
    arithmetic=_bits,
    stateful=True,
    follow=_draws,
    cost=fixed(),
    source="nki.isa.rand_get_state, 0.3.0",
    changes={"0.5.0": {"require": (_NAMED_ENGINE, _STATE_ENGINE, _DST_FORM)}},
)
def rand_get_state(
    core: Core, dst: Any, engine: Engine = Engine.unknown, name: str | None = None
) -> Array:
    """Write the generator states of the lanes that ``dst`` covers.

    Up to NKI 0.4.0, without ``engine=``, the number of words selects the engine: 24 the Vector
    engine, 6 GpSimd. From 0.5.0 on GpSimd is the default.

    Args:
        dst: Tile of uint32 with the words of one state per partition: 24 of the Vector engine, 6 of
            GpSimd.
        engine: Engine whose generator is read.
    """
    owner = _state_engine(core.generation.number, engine, dst.free_size)
    return _source(core, owner).generator.get_state(_lanes(dst))
