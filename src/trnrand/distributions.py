"""All samplers in one module, by the name that other code imports it by."""

from __future__ import annotations

from trnrand import continuous, counts, discrete, gammas, into, permutations, truncated
from trnrand.continuous import *  # noqa: F403
from trnrand.counts import *  # noqa: F403
from trnrand.discrete import *  # noqa: F403
from trnrand.gammas import *  # noqa: F403
from trnrand.into import *  # noqa: F403
from trnrand.permutations import *  # noqa: F403
from trnrand.truncated import *  # noqa: F403

__all__ = [
    *continuous.__all__,
    *counts.__all__,
    *discrete.__all__,
    *gammas.__all__,
    *into.__all__,
    *permutations.__all__,
    *truncated.__all__,
]
