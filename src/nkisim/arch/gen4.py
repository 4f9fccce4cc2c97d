"""NeuronCore-v4: Trainium 3."""

from nkisim.arch.generation import KIB, Generation

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
