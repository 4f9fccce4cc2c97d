"""The module path of ``trntensor.plans`` in published releases."""

from trntensor.plans import (
    ContractionPlan,
    clear_plan_cache,
    estimate_flops,
    plan_cache_info,
    plan_contraction,
)
from trntensor.published import _greedy_path_search, _parse_subscripts, _validate_subscripts

__all__ = [
    "ContractionPlan",
    "_greedy_path_search",
    "_parse_subscripts",
    "_validate_subscripts",
    "clear_plan_cache",
    "estimate_flops",
    "plan_cache_info",
    "plan_contraction",
]
