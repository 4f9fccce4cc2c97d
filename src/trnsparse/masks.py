"""Masks of block-sparse attention.

A mask is built once and used often. It lists the full and the partial blocks of each row of blocks,
as FlexAttention and FlashAttention do, in four tensors: counts and indices of either kind. The
masks inside partial blocks are stored once per distinct block, as tables; a causal or a
sliding-window mask has one or two, whatever its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import constant_to_compile, without_modes
from trnsparse._patterns.attention_blocks import (
    HIDDEN,
    Array,
    Layout,
    Lists,
    block_counts,
    evaluated,
    from_lists,
    joined,
    to_lists,
)
from trnsparse._patterns.index import outside_transforms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch.nn.attention.flex_attention import BlockMask

__all__ = [
    "AttentionMask",
    "causal_mask",
    "dilated_mask",
    "global_window_mask",
    "local_window_mask",
]

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class AttentionMask:
    """The blocks of the score matrix that attention computes, and the masks inside them.

    Args:
        kv_num_blocks: Partial blocks in each row of blocks, (rows,) or (batch, heads, rows) where
            batch and heads may be 1.
        kv_indices: Their columns, the same shape with one more dimension; entries past the count
            are not read.
        full_kv_num_blocks: Full blocks in each row of blocks; None for none.
        full_kv_indices: Their columns.
        seq_lengths: Numbers of queries and of keys, which need not be multiples of the blocks.
        block_size: Rows and columns of a block, or one number for both.
        mask_mod: Function of batch, head, query and key index that returns whether the query
            attends to the key in a partial block, as in FlexAttention; None for always.

    The arguments are those of torch's ``BlockMask``, which ``AttentionMask.of`` converts.

    Raises:
        ShapeError: Shapes, counts or indices that do not fit.
        FlagError: ``block_size`` is below 1.
    """

    def __init__(
        self,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        *,
        seq_lengths: tuple[int, int],
        block_size: int | tuple[int, int] = 128,
        mask_mod: MaskMod | None = None,
    ) -> None:
        lengths, sizes = _sizes("AttentionMask", seq_lengths, block_size)
        grid = block_counts(lengths, sizes)
        partial = to_lists("kv", kv_num_blocks, kv_indices, grid)
        full = Lists.empty(partial.leading, grid)
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ShapeError("AttentionMask: full counts and indices must be given together")
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            full = to_lists("full_kv", full_kv_num_blocks, full_kv_indices, grid)
        if mask_mod is None:
            self._layout = joined(partial, full, None, lengths, sizes)
        else:
            shown = evaluated(mask_mod, partial, sizes, kv_indices.device)
            self._layout = joined(partial, full, shown, lengths, sizes)
        self._cache: dict[Any, Any] = {}

    @classmethod
    def of(cls, mask: Any) -> AttentionMask:
        """Return a mask converted from another representation.

        Args:
            mask: An ``AttentionMask``, which is returned; a ``BlockMask`` of torch; or a
                block-sparse matrix (``block_row_ptrs``, ``block_col_indices``, ``shape``,
                ``block_size``), of which only the pattern is read.

        Raises:
            DTypeError: It is none of them.
        """
        if isinstance(mask, cls):
            return mask
        if hasattr(mask, "kv_num_blocks") and hasattr(mask, "mask_mod"):
            made = cls(
                mask.kv_num_blocks,
                mask.kv_indices,
                mask.full_kv_num_blocks,
                mask.full_kv_indices,
                seq_lengths=tuple(mask.seq_lengths),
                block_size=tuple(mask.BLOCK_SIZE),
                mask_mod=mask.mask_mod,
            )
            # Its own mask function is faster than a lookup in tables.
            made._cache["block_mask", mask.kv_num_blocks.device] = mask
            return made
        if hasattr(mask, "block_row_ptrs") and hasattr(mask, "block_col_indices"):
            size = mask.block_size
            lengths, sizes = _sizes("AttentionMask", mask.shape, size)
            ptrs, cols = _array(mask.block_row_ptrs), _array(mask.block_col_indices)
            lists = Lists((1, 1), block_counts(lengths, sizes), ptrs, cols)
            return cls._from(joined(Lists.empty((1, 1), lists.grid), lists, None, lengths, sizes))
        raise DTypeError(
            f"AttentionMask: a mask must be an AttentionMask, a BlockMask of torch or a BSR "
            f"matrix, got {type(mask).__name__}"
        )

    @classmethod
    def from_blocks(
        cls,
        blocks: Tensor | Array,
        seq_lengths: tuple[int, int],
        block_size: int | tuple[int, int] = 128,
        *,
        causal: bool = False,
    ) -> AttentionMask:
        """Return the mask of the blocks where a boolean matrix of blocks is true.

        Args:
            blocks: Booleans, (rows, columns) or (batch, heads, rows, columns) of blocks.
            seq_lengths: Numbers of queries and of keys.
            block_size: Rows and columns of a block.
            causal: Whether query i attends to keys up to i only, inside blocks as well.
        """
        lengths, sizes = _sizes("AttentionMask.from_blocks", seq_lengths, block_size)
        chosen = _array(blocks).astype(bool)
        grid = block_counts(lengths, sizes)
        if chosen.shape[-2:] != grid or chosen.ndim not in (2, 4):
            raise ShapeError(
                f"AttentionMask.from_blocks: blocks must be {grid} or (batch, heads, *{grid}), "
                f"got {chosen.shape}"
            )
        chosen = chosen.reshape((1,) * (4 - chosen.ndim) + chosen.shape)
        none = Lists.empty(chosen.shape[:2], grid)
        if not causal:
            return cls._from(joined(none, from_lists(chosen), None, lengths, sizes))
        rows, columns = np.arange(grid[0])[:, None], np.arange(grid[1])
        seen = columns * sizes[1] <= rows * sizes[0] + sizes[0] - 1
        wholly = (columns + 1) * sizes[1] - 1 <= rows * sizes[0]
        partial = from_lists(chosen & seen & ~wholly)
        shown = evaluated(_causal, partial, sizes)
        return cls._from(joined(partial, from_lists(chosen & wholly), shown, lengths, sizes))

    @classmethod
    def from_dense(cls, mask: Tensor, block_size: int | tuple[int, int] = 128) -> AttentionMask:
        """Return the mask of booleans, (queries, keys) or (batch, heads, queries, keys)."""
        if not isinstance(mask, Tensor) or mask.dtype is not torch.bool or mask.ndim not in (2, 4):
            raise DTypeError(
                "AttentionMask.from_dense: mask must be a tensor of booleans with 2 or 4 dimensions"
            )
        lengths, sizes = _sizes("AttentionMask.from_dense", mask.shape[-2:], block_size)
        dense = _array(mask).reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
        grid = block_counts(lengths, sizes)
        padded = np.zeros((*dense.shape[:2], grid[0] * sizes[0], grid[1] * sizes[1]), bool)
        padded[:, :, : lengths[0], : lengths[1]] = dense
        cut = padded.reshape(*dense.shape[:2], grid[0], sizes[0], grid[1], sizes[1])
        cut = cut.transpose(0, 1, 2, 4, 3, 5)
        chosen: Array = np.any(cut, axis=(-1, -2))
        partial, shown = from_lists(chosen), cut[chosen]
        none = Lists.empty(dense.shape[:2], grid)
        return cls._from(joined(partial, none, shown, lengths, sizes))

    @classmethod
    def _from(cls, layout: Layout) -> AttentionMask:
        made = cls.__new__(cls)
        made._layout = layout
        made._cache = {}
        return made

    def __getstate__(self) -> Layout:  # caches are not copied
        return self._layout

    def __setstate__(self, layout: Layout) -> None:
        self._layout = layout
        self._cache = {}

    # -- attributes --------------------------------------------------------------------------------

    @property
    def seq_lengths(self) -> tuple[int, int]:
        """Numbers of queries and of keys."""
        return self._layout.lengths

    @property
    def block_size(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self._layout.sizes

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries and keys; batch and heads of 1 broadcast."""
        return (*self._layout.leading, *self._layout.lengths)

    @property
    def n_blocks(self) -> int:
        """Number of blocks that are computed, of all patterns together."""
        return len(self._layout.columns)

    @property
    def density(self) -> float:
        """Number of computed blocks over that of all blocks."""
        grid = self._layout.grid
        total = self._layout.patterns * grid[0] * grid[1]
        return self.n_blocks / total if total else 0.0

    def __repr__(self) -> str:
        return (
            f"AttentionMask(shape={self.shape}, block_size={self.block_size}, "
            f"n_blocks={self.n_blocks}, density={self.density:.4f})"
        )

    # -- conversions -------------------------------------------------------------------------------

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return counts and indices of partial blocks, then of full ones, as int32 tensors."""
        if "tensors" not in self._cache:
            self._cache["tensors"] = tuple(torch.from_numpy(array) for array in self._layout.four())
        found: tuple[Tensor, Tensor, Tensor, Tensor] = self._cache["tensors"]
        return found

    def to_block_mask(self, device: torch.device | str = "cpu") -> BlockMask:
        """Return the mask as torch's ``BlockMask``, on a device."""
        from torch.nn.attention.flex_attention import BlockMask

        key = "block_mask", torch.empty(0, device=device).device
        if key not in self._cache:
            partial, indices, full, full_indices = (x.to(device) for x in self.tensors())
            self._cache[key] = BlockMask.from_kv_blocks(
                partial,
                indices,
                full,
                full_indices,
                BLOCK_SIZE=self.block_size,
                mask_mod=self._mask_mod(device),
                seq_lengths=self.seq_lengths,
            )
        found: BlockMask = self._cache[key]
        return found

    def to_dense(self) -> Tensor:
        """Return the mask as booleans, (queries, keys), with batch and heads if not both 1."""
        dense = torch.from_numpy(self._layout.dense())
        return dense[0, 0] if dense.shape[:2] == (1, 1) else dense

    def transpose(self) -> AttentionMask:
        """Return the mask with queries and keys exchanged."""
        return AttentionMask._from(self._layout.transposed())

    def plot(self, ax: Axes | None = None, head: int = 0) -> Axes:
        """Draw the blocks of one pattern, full and partial ones, and return the axes."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(4, 4)).add_subplot()
        ax.imshow(self._layout.picture(head), cmap="Blues", vmin=0, vmax=2, interpolation="nearest")
        ax.set_xlabel(f"keys / {self.block_size[1]}")
        ax.set_ylabel(f"queries / {self.block_size[0]}")
        return ax

    def encoded(self, batch: int, heads: int) -> tuple[int, ...]:
        """Return the pattern of ``batch`` times ``heads`` heads as integers, for operations."""
        key = "encoded", batch, heads
        if key not in self._cache:
            self._cache[key] = self._layout.encoded(batch, heads)
        found: tuple[int, ...] = self._cache[key]
        return found

    def tables(self) -> Array:
        """Return the masks inside blocks, (tables, rows, columns); the first one is all true."""
        return self._layout.tables

    def partial(self) -> bool:
        """Return whether there are partial blocks."""
        return len(self._layout.tables) > 1

    def hidden_values(self) -> np.ndarray:
        """Return the additive masks of partial blocks: 0 or ``HIDDEN``."""
        return np.where(self._layout.tables, np.float32(0), np.float32(HIDDEN))

    def hidden(self, device: str) -> Tensor:
        """Return the additive masks of partial blocks on a device, the same tensor in each call."""
        if ("hidden", device) not in self._cache:
            with without_modes(), torch.inference_mode(False), torch.no_grad():
                made = torch.from_numpy(self.hidden_values())
                self._cache["hidden", device] = made.to(device)
        found: Tensor = self._cache["hidden", device]
        return found

    def _mask_mod(self, device: torch.device | str) -> MaskMod:
        """Return the mask function, which reads the tables."""
        rows, columns = self.block_size
        which = torch.from_numpy(self._layout.table_grid()).to(device)
        # Kernels evaluate stored blocks only; the definition evaluates all.
        nothing = np.zeros((1, rows, columns), bool)
        tables = torch.from_numpy(np.concatenate([self._layout.tables, nothing])).to(device)
        batches, heads = self._layout.leading

        def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            own = which[b % batches, h % heads, q // rows, k // columns]
            return tables[own, q % rows, k % columns]

        return mask_mod


constant_to_compile(AttentionMask.encoded)
constant_to_compile(AttentionMask.partial)
constant_to_compile(AttentionMask.hidden)


# -- common patterns -------------------------------------------------------------------------------


def causal_mask(seq_len: int, block_size: int = 128) -> AttentionMask:
    """Return the mask in which query i attends to keys up to i."""
    n = _blocks("causal_mask", seq_len, block_size)
    return AttentionMask.from_blocks(
        np.ones((n, n), bool), (seq_len, seq_len), block_size, causal=True
    )


def local_window_mask(
    seq_len: int, window: int, block_size: int = 128, *, causal: bool = False
) -> AttentionMask:
    """Return the mask of blocks at most ``window`` blocks from the diagonal."""
    n = _blocks("local_window_mask", seq_len, block_size)
    window = whole("local_window_mask", "window", window, 0, error=FlagError)
    return AttentionMask.from_blocks(
        np.abs(_offsets(n)) <= window, (seq_len, seq_len), block_size, causal=causal
    )


def dilated_mask(
    seq_len: int, stride: int, block_size: int = 128, *, causal: bool = False
) -> AttentionMask:
    """Return the mask of blocks whose distance from the diagonal is a multiple of ``stride``."""
    n = _blocks("dilated_mask", seq_len, block_size)
    stride = whole("dilated_mask", "stride", stride, 1, error=FlagError)
    return AttentionMask.from_blocks(
        _offsets(n) % stride == 0, (seq_len, seq_len), block_size, causal=causal
    )


def global_window_mask(
    seq_len: int, n_global: int, window: int, block_size: int = 128, *, causal: bool = False
) -> AttentionMask:
    """Return the mask of the first ``n_global`` block rows and columns and of a local window."""
    n = _blocks("global_window_mask", seq_len, block_size)
    n_global = whole("global_window_mask", "n_global", n_global, 0, error=FlagError)
    window = whole("global_window_mask", "window", window, 0, error=FlagError)
    blocks = np.abs(_offsets(n)) <= window
    blocks[:n_global] = True
    blocks[:, :n_global] = True
    return AttentionMask.from_blocks(blocks, (seq_len, seq_len), block_size, causal=causal)


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def _offsets(n: int) -> Array:
    return np.arange(n)[:, None] - np.arange(n)


def _blocks(function: str, seq_len: int, block_size: int) -> int:
    lengths, sizes = _sizes(function, (seq_len, seq_len), block_size)
    return block_counts(lengths, sizes)[0]


def _sizes(
    function: str, lengths: Sequence[int], block_size: int | Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    given = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
    sizes = [whole(function, "block_size", size, 1, error=FlagError) for size in given]
    extents = [whole(function, "seq_lengths", length, 0, error=ShapeError) for length in lengths]
    if len(sizes) != 2 or len(extents) != 2:
        raise ShapeError(f"{function}: seq_lengths and block_size must have two entries each")
    return (extents[0], extents[1]), (sizes[0], sizes[1])


def _array(values: Tensor | Array) -> Array:
    return _read(values) if isinstance(values, Tensor) else np.asarray(values)


@outside_transforms
def _read(values: Tensor) -> Array:
    return values.detach().cpu().numpy()
