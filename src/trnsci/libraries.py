"""The names of the six libraries."""

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
