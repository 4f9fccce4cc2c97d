"""NeuronCore generations, and the choice of the target."""

from __future__ import annotations

import os

from nkisim.arch.gen2 import GEN2
from nkisim.arch.gen3 import GEN3
from nkisim.arch.gen4 import GEN4
from nkisim.arch.generation import Generation

__all__ = ["GEN2", "GEN3", "GEN4", "GENERATIONS", "TARGET_VARIABLE", "Generation", "resolve_target"]

GENERATIONS = (GEN2, GEN3, GEN4)
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"

_BY_NAME = {alias: generation for generation in GENERATIONS for alias in generation.aliases}


def resolve_target(name: str | None = None) -> Generation:
    """Return the generation called ``name``, or the one set in the environment, or gen4.

    Raises:
        ValueError: The name, or the value of the environment variable, is not known.
    """
    asked, origin = name, "target"
    if asked is None:
        asked, origin = os.environ.get(TARGET_VARIABLE) or GEN4.name, TARGET_VARIABLE
    generation = _BY_NAME.get(asked.lower())
    if generation is None:
        raise ValueError(f"{origin}: unknown platform {asked!r}; accepted: {', '.join(_BY_NAME)}")
    return generation
