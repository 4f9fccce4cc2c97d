"""Number formats: storage, rounding, and conversion to float32."""

from nkisim.dtypes.convert import decode, encode, exact_up_to, holds
from nkisim.dtypes.formats import (
    DTYPES,
    UNSIGNED,
    DType,
    Kind,
    as_dtype,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    promote,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nkisim.dtypes.packed import pack, unpack
