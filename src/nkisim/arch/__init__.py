"""NeuronCore generations, and the choice of the target."""

from __future__ import annotations

import os

from nkisim.arch.generation import GEN2, GEN3, GEN4, Generation

GENERATIONS = (GEN2, GEN3, GEN4)

DEFAULT_TARGET = GEN3
"""The default generation of simulations and profiles: the generation of trn2."""

TARGET_VARIABLE = "NKISIM_TARGET"
_VARIABLES = (TARGET_VARIABLE, "NEURON_PLATFORM_TARGET_OVERRIDE")

_BY_NAME = {alias: generation for generation in GENERATIONS for alias in generation.aliases}


def resolve_target(name: str | None = None) -> Generation:
    """Return the generation called ``name``; None takes the environment's, or the default.

    NKISIM_TARGET is read before NEURON_PLATFORM_TARGET_OVERRIDE.

    Raises:
        ValueError: The name, or the value of an environment variable, is not known.
    """
    asked, origin = name, "target"
    if asked is None:
        for origin in _VARIABLES:
            asked = os.environ.get(origin)
            if asked:
                break
        else:
            return DEFAULT_TARGET
    generation = _BY_NAME.get(asked.lower())
    if generation is None:
        raise ValueError(f"{origin}: unknown platform {asked!r}; accepted: {', '.join(_BY_NAME)}")
    return generation
