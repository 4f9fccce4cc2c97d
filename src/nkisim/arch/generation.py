"""Sizes and limits of the NeuronCore generations, on which legality depends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

KIB = 1024


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Generation:
    """Sizes and limits of a NeuronCore.

    Attributes:
        number: 2, 3 or 4; generations compare by it.
        name: ``"gen2"``, ``"gen3"`` or ``"gen4"``.
        aliases: Instance names that select it.
        partitions: Rows of SBUF and PSUM.
        sbuf_bytes: SBUF bytes per partition.
        sbuf_usable_bytes: The part of them that kernels may use.
        psum_banks: Accumulation banks per partition.
        psum_bank_bytes: Bytes of one bank in one partition.
        stationary_free_max: Largest free size of a matmul's stationary operand.
        moving_free_max: Largest free size of its moving operand with a float32 result.
        moving_free_max_bf16: The same with a bfloat16 result; 0 where that is not supported.
        bn_stats_free_max: Largest free size of ``bn_stats``.
        sbuf_free_elements: Largest free size of one Vector or Scalar instruction in SBUF.
        psum_free_elements: The same in PSUM.
        lnc_max: Largest number of physical cores in one logical core.
    """

    number: int
    name: str
    aliases: tuple[str, ...]
    sbuf_bytes: int
    sbuf_usable_bytes: int
    moving_free_max: int
    moving_free_max_bf16: int
    lnc_max: int
    partitions: int = 128
    psum_banks: int = 8
    psum_bank_bytes: int = 2 * KIB
    stationary_free_max: int = 128
    bn_stats_free_max: int = 512
    sbuf_free_elements: int = 65536
    psum_free_elements: int = 4096

    @property
    def psum_bytes(self) -> int:
        """PSUM bytes per partition."""
        return self.psum_banks * self.psum_bank_bytes

    @property
    def psum_free_max(self) -> int:
        """Float32 elements of one PSUM bank in one partition."""
        return self.psum_bank_bytes // 4

    def __lt__(self, other: Generation) -> bool:
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Generation) and self.number == other.number

    def __hash__(self) -> int:
        return self.number

    def __str__(self) -> str:
        return self.name


GEN2 = Generation(
    number=2,
    name="gen2",
    aliases=("trn1", "inf2", "gen2"),
    sbuf_bytes=192 * KIB,
    sbuf_usable_bytes=180_224,
    moving_free_max=512,
    moving_free_max_bf16=0,
    lnc_max=1,
)


GEN3 = Generation(
    number=3,
    name="gen3",
    aliases=("trn2", "gen3"),
    sbuf_bytes=224 * KIB,
    sbuf_usable_bytes=212_984,
    moving_free_max=512,
    moving_free_max_bf16=0,
    lnc_max=2,
)


GEN4 = Generation(
    number=4,
    name="gen4",
    aliases=("trn3", "gen4"),
    sbuf_bytes=256 * KIB,
    sbuf_usable_bytes=245_752,
    moving_free_max=4096,
    moving_free_max_bf16=8192,
    lnc_max=2,
)
