"""The module path of ``trnfft.plans`` in published releases.

``trnfft.plan`` is the function, not this module: its attributes give access to the other names.
"""

from trnfft.plans import FFTAlgorithm, FFTPlan, clear_plan_cache, plan
from trnfft.published import create_plan

__all__ = ["FFTAlgorithm", "FFTPlan", "clear_plan_cache", "create_plan", "plan"]

vars(plan).update({name: globals()[name] for name in __all__ if name != "plan"})
