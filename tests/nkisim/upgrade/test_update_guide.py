"""Each change that AWS's update guide for 0.3.0 lists, by the id of its rule."""

from each_case import each_case
from upgraded import upgrade_text

HEAD = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

"""
TILE = "buffer=nl.sbuf)\n"
INT = f"t = nl.ndarray((64, 32), dtype=nl.int32, {TILE}"
KERNEL = "@nki.jit\ndef scale(x{}):\n    return x\n"
RANK = "ncc.collective_permute_implicit_current_processing_rank_id"
SELECT = "nisa.range_select(dst=d, on_true_tile=t, comp_op0=nl.less, comp_op1=nl.greater, "

GUIDE = [
    (
        "MG-321",
        "nisa.tensor_copy_dynamic_dst(dst=t.ap(pattern=p, scalar_offset=r), src=s)\n",
        "nisa.tensor_copy(dst=t.ap(pattern=p, scalar_offset=r), src=s)\n",
    ),
    (
        "MG-319",
        KERNEL.replace("jit", 'jit(platform_target="trn3")'),
        KERNEL,
    ),
    ("MG-320", KERNEL.replace("jit", 'jit(mode="jax")'), KERNEL),
    (
        "MG-301",
        "acc = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.dma_copy(dst=y, src=acc[0:64, 0:n])\n",
        "acc = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.psum)\n"
        "acc_sbuf = nl.ndarray(acc[0:64, 0:n].shape, dtype=y.dtype, buffer=nl.sbuf)\n"
        "nisa.tensor_copy(dst=acc_sbuf, src=acc[0:64, 0:n])\n"
        "nisa.dma_copy(dst=y, src=acc_sbuf)\n",
    ),
    (
        "MG-302",
        f"w = nl.ndarray((64, 8), dtype=nl.float4_e2m1fn_x4, {TILE}"
        f"u = nl.ndarray((64, 8), dtype=nl.uint16, {TILE}"
        "nisa.dma_copy(dst=w, src=u, dge_mode=nisa.dge_mode.hwdge)\n",
        None,
    ),
    (
        "MG-303a",
        "nisa.dma_copy(total, part, dst_rmw_op=nl.maximum)\n",
        "nisa.dma_compute(dst=total, srcs=[part, total], reduce_op=nl.maximum)\n",
    ),
    (
        "MG-303b",
        "for j in range(8):\n    op = None if j == 0 else nl.add\n    nisa.dma_copy(\n"
        "        src=x.ap(pattern=p), dst=s[:, :], dst_rmw_op=op, unique_indices=True,\n    )\n",
        "for j in range(8):\n    op = None if j == 0 else nl.add\n    if j == 0:\n"
        "        nisa.dma_copy(dst=s[:, :], src=x.ap(pattern=p))\n    else:\n"
        "        nisa.dma_compute(dst=s[:, :], srcs=[x.ap(pattern=p), s[:, :]], reduce_op=op, "
        "unique_indices=True)\n",
    ),
    (
        "MG-304",
        INT + "nisa.memset(dst=t, value=-7.0)\n",
        INT + "nisa.memset(dst=t, value=-7)\n",
    ),
    (
        "MG-306",
        f"x = nl.ndarray((64, 6, 5, 3), dtype=nl.float32, {TILE}"
        f"m = nl.ndarray((64, 6, 5), dtype=nl.float32, {TILE}"
        "nisa.tensor_reduce(dst=m, op=nl.maximum, data=x, axis=1)\n",
        f"x = nl.ndarray((64, 6, 5, 3), dtype=nl.float32, {TILE}"
        f"m = nl.ndarray((64, 6, 5), dtype=nl.float32, {TILE}"
        "nisa.tensor_reduce(dst=m, op=nl.maximum, data=x, axis=3)\n",
    ),
    (
        "MG-307",
        "nisa.dma_compute(y, [a, b], [0.5, 0.25], nl.add)\n",
        "nisa.dma_compute(y, [a, b], scales=[0.5, 0.25], reduce_op=nl.add)\n",
    ),
    (
        "MG-308",
        "nisa.sendrecv(src=a, dst=b, send_to_rank=0, recv_from_rank=1, pipe_id=2, "
        "use_gpsimd_dma=False)\n",
        "nisa.sendrecv(src=a, dst=b, send_to_rank=0, recv_from_rank=1, pipe_id=2, "
        "dma_engine=nisa.dma_engine.dma)\n",
    ),
    (
        "MG-309",
        "nisa.affine_select(m, [[1, 32]], shift, 2, on, -1.0)\n",
        "nisa.affine_select(m, [[1, 32]], offset=shift, channel_multiplier=2, on_true_tile=on, "
        "on_false_value=-1.0)\n",
    ),
    (
        "MG-310",
        "nisa.register_move(counter, imm=12)\n",
        "nisa.register_move(counter, src=nisa.register_alloc(12))\n",
    ),
    (
        "MG-311",
        f"r = {RANK}(iteration_id=i, channel_id=c, num_channels=4, replica_group=g)\n",
        f"r = {RANK}(iteration_id=i, channel_id=c, replica_group=g)\n",
    ),
    (
        "MG-312",
        "@nki.jit\ndef copy(x):\n"
        "    y = nl.ndarray((2, 3, 4), dtype=x.dtype, buffer=nl.private_hbm)\n    return y\n",
        "@nki.jit\ndef copy(x):\n"
        "    y = nl.ndarray((2, 3, 4), dtype=x.dtype, buffer=nl.shared_hbm)\n    return y\n",
    ),
    (
        "MG-313",
        "nisa.dma_copy(src=a, dst=b, dge_mode=1, oob_mode=1)\n",
        "nisa.dma_copy(src=a, dst=b, dge_mode=nisa.dge_mode.swdge, oob_mode=nisa.oob_mode.skip)\n",
    ),
    *(
        (
            "MG-314",
            f"t = nl.zeros((64, 32), dtype=nl.float16, buffer='{name}')\n",
            f"t = nl.zeros((64, 32), dtype=nl.float16, buffer=nl.{name})\n",
        )
        for name in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
    ),
    (
        "MG-315",
        "nisa.dma_copy(dst=a, engine=nisa.dma_engine, src=b)\n",
        "nisa.dma_copy(dst=a, src=b)\n",
    ),
    (
        "MG-316",
        KERNEL.format(", *, causal: bool = False, factor: float = 0.5"),
        KERNEL.format(", causal: bool = False, factor: float = 0.5"),
    ),
    (
        "MG-317",
        "@nki.jit\ndef scale(x, causal=False, mask=None):\n"
        "    if causal is False and mask is not None:\n        pass\n    return x\n",
        "@nki.jit\ndef scale(x, causal=False, mask=None):\n"
        "    if causal == False and mask is not None:\n        pass\n    return x\n",
    ),
    (
        "MG-318",
        KERNEL.format(", order, step=[2, 2]") + "scale(a, order=[2, 0, 1], step=[3])\n",
        KERNEL.format(", order, step=(2, 2)") + "scale(a, order=(2, 0, 1), step=(3,))\n",
    ),
    (
        "MG-305",
        f"w = nl.ndarray((64, 8), dtype=nl.float8_e5m2_x4, {TILE}nisa.memset(dst=w, value=3)\n",
        None,
    ),
    (
        "MG-322",
        SELECT + "bound0=a, bound1=b, on_false_value=-1.0)\n",
        SELECT + "bound0=a, bound1=b)\n",
    ),
]


@each_case("rule, before, after", GUIDE)
def test_a_change_of_the_guide(rule, before, after):
    outcome = upgrade_text(HEAD + before.replace("scale(x{})", "scale(x)"), "beta2")
    expected = before if after is None else after
    assert outcome.after == HEAD + expected.replace("scale(x{})", "scale(x)")
    found = outcome.findings if after is None else outcome.changes
    assert rule in {one.rule for one in found}


KEPT = {
    "PSUM to SBUF by an engine": (
        "acc = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.psum)\n"
        f"t = nl.ndarray((64, 256), dtype=nl.float32, {TILE}nisa.tensor_copy(dst=t, src=acc)\n"
    ),
    "hwdge between equal types": (
        f"a = nl.ndarray((64, 8), dtype=nl.uint16, {TILE}b = nl.ndarray((64, 8), dtype=nl.uint16, "
        f"{TILE}nisa.dma_copy(dst=a, src=b, dge_mode=nisa.dge_mode.hwdge)\n"
    ),
    "zero in a packed tile": (
        f"w = nl.ndarray((64, 8), dtype=nl.float8_e5m2_x4, {TILE}nisa.memset(dst=w, value=0)\n"
    ),
    "tuples": KERNEL.format(", step=(1, 1)") + "scale(a, step=(2, 2))\n",
    "FP32_MIN": SELECT + "bound0=a, bound1=b, on_false_value=-3.4028235e38)\n",
    "a command that is meant": SELECT + "bound0=a, bound1=b, reduce_cmd=nisa.reduce_cmd.reduce)\n",
    "dma_engine of sendrecv": (
        "nisa.sendrecv(src=a, dst=b, send_to_rank=0, recv_from_rank=1, pipe_id=2, "
        "dma_engine=nisa.dma_engine.gpsimd_dma)\n"
    ),
    "a bias of one column": (
        f"b = nl.ndarray((64, 1), dtype=nl.float32, {TILE}"
        "nisa.activation(dst=d, op=nl.exp, data=t, bias=b)\n"
    ),
    "a bias that is one column of several": (
        f"b = nl.ndarray((64, 4), dtype=nl.float32, {TILE}"
        "nisa.activation(dst=d, op=nl.exp, data=t, bias=b[:, 1:2])\n"
    ),
    "a comparison": "m = nl.greater(x, y)\nz = nl.where(m, x, y)\n",
    "a power of two tiles": "z = nl.power(x, y)\n",
    "a copy of floats": f"t = nl.ndarray((64, 4), dtype=nl.float32, {TILE}s = nl.copy(t)\n",
    "a seed in a tile": "nl.random_seed(seed)\n",
    "the index of a static loop": (
        "@nki.jit\ndef k(x):\n    for i in range(4):\n"
        "        nisa.dma_copy(dst=x[i * 2], src=x[0])\n    return x\n"
    ),
    "a register of a dynamic loop": (
        "@nki.jit\ndef k(x, n):\n    for i in nl.dynamic_range(n):\n"
        "        nisa.dma_copy(dst=x.ap(pattern=[[1, 4]], scalar_offset=i), src=x[0])\n"
        "    return x\n"
    ),
    "the engine of a transpose": "nisa.nc_transpose(dst=a, data=b, engine=nisa.engine.vector)\n",
    "all arguments of an instruction": (
        "nisa.nc_matmul(dst=d, stationary=s, moving=m, is_stationary_onezero=True, "
        "is_moving_onezero=True, is_transpose=False, accumulate=True, tile_position=(0, 0), "
        "tile_size=(64, 64), perf_mode=nisa.matmul_perf_mode.none, name='p')\n"
    ),
    "arguments in a dictionary": "nisa.tensor_copy(**arguments)\n",
    "a helper without arguments": "def helper():\n    return nl.sbuf\n",
    "a kernel with any arguments": "@nki.jit\ndef k(*tensors):\n    return tensors[0]\n",
    "a matmul of a transposed tile": (
        "x = nl.load(a)\ny = nl.load(b)\nz = nl.matmul(x, y, transpose_x=True)\n"
    ),
    "a constant": "c = nl.shared_constant(table)\nt = nl.load(c)\n",
    "axis 0 of the grid": "i = nl.program_id(0)\nn = nl.num_programs(axes=0)\n",
}


@each_case("text", KEPT.values(), ids=list(KEPT))
def test_what_0_3_0_takes_stays(text):
    text = HEAD + text.replace("scale(x{})", "scale(x)")
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert outcome.findings == []
