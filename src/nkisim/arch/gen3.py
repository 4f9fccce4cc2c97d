"""NeuronCore-v3: Trainium 2."""

from nkisim.arch.generation import KIB, Generation

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
