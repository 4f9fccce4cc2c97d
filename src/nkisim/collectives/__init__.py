"""``nki.collectives``: communication between simulated ranks in one process."""

from nkisim.collectives.groups import ReplicaGroup, rg_partition_op
from nkisim.collectives.operations import (
    all_gather,
    all_reduce,
    all_to_all,
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
    reduce_scatter,
)
from nkisim.collectives.varying import (
    all_gather_v,
    all_gather_v_prepare,
    all_gather_v_trigger,
    all_to_all_v,
    all_to_all_v_prepare,
    all_to_all_v_trigger,
)
from nkisim.objects import NKIObject
from nkisim.removed import by_version, hide_modules

__getattr__ = by_version("nki.collectives", globals())
hide_modules(globals())
del by_version, hide_modules
