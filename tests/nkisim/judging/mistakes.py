"""Mistakes: edits of the kernels of ``right.py``, and the shapes to judge them on."""

NO_OUTPUT_TAIL = (
    "    nisa.dma_copy(dst=out, src=tile)\n    return out\n",
    "    nisa.dma_copy(dst=out[0:64], src=tile[0:64])\n    return out\n",
)

#: By name: the kernel, the text that is replaced, its replacement, and the fault.
ILLEGAL = {
    "a product into SBUF": (
        "matmul",
        "(rows, columns), dtype=nl.float32, buffer=nl.psum",
        "(rows, columns), dtype=nl.float32, buffer=nl.sbuf",
    ),
    "256 partitions": ("relu", "assert x.shape[0] <= 128\n    return", "return"),
    "a tile that is read before it is written": (
        "row_sum",
        "data=loaded(x)",
        "data=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)",
    ),
    "half of the output": ("relu", *NO_OUTPUT_TAIL),
    "an instruction on HBM": (
        "softmax",
        "data=tile, axis=1, negate=True",
        "data=x, axis=1, negate=True",
    ),
    "a function that NKI does not have": ("relu", "nl.maximum(loaded(x), 0.0)", "nl.relu6(x)"),
    "an argument that was removed": (
        "row_sum",
        "op=nl.add, data=loaded(x), axis=1)",
        "op=nl.add, data=loaded(x), axis=1, mask=None)",
    ),
    "a contraction of 256 partitions": (
        "matmul",
        "for k in range(0, depth, 128):\n",
        "for k in range(0, depth, 256):\n",
        ("k + 128", "k + 256"),
    ),
    "an operator on tensors": ("add", "nl.add(loaded(a), loaded(b))", "loaded(a) + loaded(b)"),
    "a transpose of other types": (
        "transpose",
        "(columns, rows), dtype=x.dtype, buffer=nl.psum",
        "(columns, rows), dtype=nl.bfloat16, buffer=nl.psum",
    ),
}

#: Of attention, the first one never subtracts a maximum and the second never rescales its sums.
LOGIC = {
    "attention without the running maximum": (
        "attention",
        "nisa.tensor_tensor(dst=higher, data1=higher, data2=most, op=nl.maximum)",
        "nisa.memset(dst=higher, value=0.0)",
    ),
    "attention without rescaling": (
        "attention",
        "data1=most, data2=higher, op=nl.subtract",
        "data1=higher, data2=higher, op=nl.subtract",
    ),
    "attention that rescales only the sum of weights": (
        "attention",
        "nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=shrink)\n",
        "\n",
    ),
    "softmax without the maximum": ("softmax", "data=tile, bias=most", "data=tile"),
    "a mean over one element too few": ("rms_norm", "1.0 / columns", "1.0 / (columns - 1)"),
    "another epsilon": ("rms_norm", "operand1=1e-5", "operand1=1e-3"),
    "a block left out of the contraction": (
        "matmul",
        "for k in range(0, depth, 128):",
        "for k in range(0, max(128, depth - 128), 128):",
    ),
    "the wrong operand": (
        "add",
        "nl.add(loaded(a), loaded(b))",
        "nl.subtract(loaded(a), loaded(b))",
    ),
    "a threshold that is not zero": ("relu", "loaded(x), 0.0", "loaded(x), 0.001"),
    "relu of the wrong sign": ("matmul_relu", "nl.maximum(product", "nl.minimum(product"),
}


def edited(text: str, mistake: tuple) -> str:
    """The text of the kernels with a mistake in one of them."""
    name, old, new, *more = mistake
    start = text.index(f"def {name}(")
    if old not in text[start:]:  # it is in a function that the kernel calls
        start = 0
    head, tail = text[:start], text[start:]
    if old not in tail:
        raise ValueError(f"{old!r} is not in the text")
    tail = tail.replace(old, new, 1)
    for one, other in more:
        tail = tail.replace(one, other)
    return head + tail
