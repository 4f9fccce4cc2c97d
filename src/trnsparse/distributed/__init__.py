"""Row-sharded sparse matrices over the ranks of a process group.

Each rank has consecutive rows of the matrix and the matching part of every vector: a DTensor that
is Shard(0), or a plain tensor of its rows, whose number may differ between ranks and be zero. For a
product a rank receives only the halo: the elements of other ranks in the columns of its entries.
The exchange is planned once. ``plan`` returns, without a process group, the bytes of a product.

Gradients reach operands and entries by ``backward``, which all ranks must call together.
"""

from trnsci.core.distributed.layout import Layout
from trnsparse.distributed.halo import HaloPlan, balanced_rows, plan
from trnsparse.distributed.matrix import RowShardedCSR, ShardedTranspose

__all__ = ["HaloPlan", "Layout", "RowShardedCSR", "ShardedTranspose", "balanced_rows", "plan"]
