"""NeuronCore-v2: Trainium 1 and Inferentia 2."""

from nkisim.arch.generation import KIB, Generation

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
