"""All distributions of trnrand, re-exported from the modules of their families."""

from trnrand.distributions import (
    categories,
    circular,
    continuous,
    counts,
    discrete,
    extremes,
    gammas,
    permutations,
    torch_names,
    truncated,
    urns,
    vectors,
)
from trnrand.distributions.categories import *  # noqa: F403
from trnrand.distributions.circular import *  # noqa: F403
from trnrand.distributions.continuous import *  # noqa: F403
from trnrand.distributions.counts import *  # noqa: F403
from trnrand.distributions.discrete import *  # noqa: F403
from trnrand.distributions.extremes import *  # noqa: F403
from trnrand.distributions.gammas import *  # noqa: F403
from trnrand.distributions.permutations import *  # noqa: F403
from trnrand.distributions.replaced import (  # noqa: F401 - not listed in __all__
    exponential_into,
    normal_into,
    standard_normal,
    uniform_into,
)
from trnrand.distributions.torch_names import *  # noqa: F403
from trnrand.distributions.truncated import *  # noqa: F403
from trnrand.distributions.urns import *  # noqa: F403
from trnrand.distributions.vectors import *  # noqa: F403

__all__ = [
    *categories.__all__,
    *circular.__all__,
    *continuous.__all__,
    *counts.__all__,
    *discrete.__all__,
    *extremes.__all__,
    *gammas.__all__,
    *permutations.__all__,
    *torch_names.__all__,
    *truncated.__all__,
    *urns.__all__,
    *vectors.__all__,
]
