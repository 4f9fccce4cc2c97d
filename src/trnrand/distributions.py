"""All samplers in one module, by the name that other code imports it by."""

from __future__ import annotations

from trnrand import (
    categories,
    circular,
    continuous,
    counts,
    discrete,
    extremes,
    gammas,
    into,
    permutations,
    torch_names,
    truncated,
    urns,
    vectors,
)
from trnrand.categories import *  # noqa: F403
from trnrand.circular import *  # noqa: F403
from trnrand.continuous import *  # noqa: F403
from trnrand.counts import *  # noqa: F403
from trnrand.discrete import *  # noqa: F403
from trnrand.extremes import *  # noqa: F403
from trnrand.gammas import *  # noqa: F403
from trnrand.into import *  # noqa: F403
from trnrand.permutations import *  # noqa: F403
from trnrand.torch_names import *  # noqa: F403
from trnrand.truncated import *  # noqa: F403
from trnrand.urns import *  # noqa: F403
from trnrand.vectors import *  # noqa: F403

__all__ = [
    *categories.__all__,
    *circular.__all__,
    *continuous.__all__,
    *counts.__all__,
    *discrete.__all__,
    *extremes.__all__,
    *gammas.__all__,
    *into.__all__,
    *permutations.__all__,
    *torch_names.__all__,
    *truncated.__all__,
    *urns.__all__,
    *vectors.__all__,
]
