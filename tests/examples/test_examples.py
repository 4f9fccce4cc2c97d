"""Every script in examples/ runs as it stands, and what its kernels return there is right.

A script's own comparison is not trusted: the kernels that ``main`` simulates are recorded with
their arguments and results, and compared with what torch computes in float64.
"""

import os
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import ml_dtypes
import numpy as np
import pytest
import torch

import nkisim
from fresh_process import forked, nkisim_command

EXAMPLES = Path(__file__).parents[2] / "examples"
VARIABLES = ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE")
# These, and what begins with an underscore, are imported by scripts, and are none themselves.
IMPORTED = {"softmax_reference.py"}
FILES = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("[!_]*.py")}
# Programs for `nkisim run`, which tests/nkitorch runs.
PROGRAMS = {"torch_transformer.py"}
SCRIPTS = sorted(FILES - IMPORTED - PROGRAMS)

# Those that take more than a few seconds without arguments.
LONG = ("distributed_cg.py", "preconditioned_cg.py")
# The one that the fast tests start as a process too.
ALONE = ("softmax.py",)


def matmul(lhs_t, rhs):
    return lhs_t.T @ rhs


def attention(q_t, k_t, v, scale, causal):
    return torch.nn.functional.scaled_dot_product_attention(
        q_t.transpose(1, 2), k_t.transpose(1, 2), v, scale=scale, is_causal=causal
    )


def layernorm(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def linear_recurrence(a, b):
    states = [b[:, 0]]
    for t in range(1, a.shape[1]):
        states.append(a[:, t] * states[-1] + b[:, t])
    return torch.stack(states, dim=1)


def product(a, b, c, alpha, beta, trans_a, trans_b, blocks):
    assert c is None
    return alpha * (a.mT if trans_a else a) @ (b.mT if trans_b else b)


def transform(x, y, c, shape, y_layout, c_layout, extents):
    rows = (y if y_layout == "rows" else y.mT, c if c_layout == "rows" else c.mT)
    orbitals = {matrix.shape[1]: matrix for matrix in rows}
    return torch.einsum("mnp,mi,na->iap", x, orbitals[shape[0]], orbitals[shape[1]])


def pair_energies(b, eps_occ, eps_vir):
    t = torch.einsum("iap,jbp->ijab", b, b)
    gaps = eps_occ[:, None, None, None] + eps_occ[:, None, None] - eps_vir[:, None] - eps_vir
    return (t * (2 * t - t.mT) / gaps).sum().reshape(1, 1)


REFERENCES = {
    "tensor_add": torch.add,
    "transpose_free_axes": lambda x: x.transpose(1, 2),
    "transpose_matrix": lambda x: x.T,
    "average_pool": torch.nn.functional.avg_pool2d,
    "softmax": lambda x: torch.softmax(x, dim=1),
    "layernorm_sums": layernorm,
    "layernorm_stats": layernorm,
    "linear_recurrence": linear_recurrence,
    "running_sum": lambda x: torch.cumsum(x, dim=1),
    "matmul_one_tile": matmul,
    "matmul_tiled": matmul,
    "matmul_hoisted": matmul,
    "matmul_blocked_free": matmul,
    "matmul_blocked_all": matmul,
    "matmul_psum_banks": matmul,
    "attention_forward": attention,
    "chain": transform,
    "batched_gemm": product,
    "batched_pair_energy": pair_energies,
}

# Scripts of the libraries, which print what they compare; their own tests judge the results.
LIBRARY_SCRIPTS = {
    "block_sparse_attention.py": (None, "max |error|"),
    "df_mp2.py": (None, "max |error|"),
    "df_mp2_pyscf.py": ("pyscf", "max |error|"),
    "distributed_cg.py": (None, "passed"),
    "distributed_df_mp2.py": (None, "passed"),
    "distributed_gemm.py": (None, "|C x - A (B x)|"),
    "distributed_poisson.py": (None, "passed"),
    "double_precision/df_mp2.py": (None, "0 refusals"),
    "double_precision/orbitals.py": (None, "0 refusals"),
    "double_precision/poisson.py": (None, "0 refusals"),
    "muon.py": (None, "loss"),
    "nvidia_samples/batch_cublas.py": (None, "passed"),
    "nvidia_samples/conjugate_gradient.py": (None, "passed"),
    "nvidia_samples/cusolver_syevd.py": (None, "passed"),
    "nvidia_samples/cutensor_contraction.py": (None, "passed"),
    "nvidia_samples/mc_estimate_pi.py": (None, "passed"),
    "nvidia_samples/simple_cufft_2d_r2c.py": (None, "passed"),
    "option_pricing.py": (None, "passed"),
    "poisson_fft.py": (None, "passed"),
    "preconditioned_cg.py": (None, "passed"),
    "quantum_chemistry/df_mp2_synthetic.py": (None, "passed"),
    "quantum_dynamics.py": (None, "passed"),
    "scf.py": (None, "above the Hartree-Fock limit"),
    "sparse_fock.py": (None, "max |error|"),
    "speech_enhancement.py": (None, "dB"),
}
"""What a script needs beyond the libraries, if anything, and what it prints."""

# Which kernels a script must have run, in order.
RUNS = {
    "attention_forward.py": ["attention_forward", "attention_forward"],
    "average_pool.py": ["average_pool"],
    "demo.py": [
        "tensor_add",
        "softmax",
        "matmul_tiled",
        "chain",
        "batched_gemm",
        "batched_pair_energy",
    ],
    "layernorm.py": ["layernorm_sums", "layernorm_stats"],
    "matmul_six_stages.py": [name for name in REFERENCES if name.startswith("matmul_")],
    "scan.py": ["linear_recurrence", "running_sum"],
    "softmax.py": ["softmax"],
    "tensor_add.py": ["tensor_add"],
    "transpose.py": ["transpose_free_axes", "transpose_matrix"],
}


@pytest.fixture
def recorded(monkeypatch):
    """The (kernel name, arguments, result, report) of everything simulated meanwhile."""
    runs = []
    simulate = nkisim.simulate

    class Recording:
        def __init__(self, kernel, **options):
            self.name = kernel.__name__
            self.run = simulate(kernel, **options)

        def __call__(self, *arguments):
            result = self.run(*arguments)
            runs.append((self.name, arguments, result, self.run.report))
            return result

        @property
        def report(self):
            return self.run.report

    monkeypatch.setattr(nkisim, "simulate", Recording)
    return runs


def as_torch(value):
    return torch.from_numpy(value.astype(np.float64)) if isinstance(value, np.ndarray) else value


def test_every_script_is_tested():
    assert sorted([*RUNS, *LIBRARY_SCRIPTS]) == SCRIPTS


@pytest.fixture
def printed_without_arguments(monkeypatch, load_example, capfd):
    """A function that runs a script as the main program, here, and returns what it prints."""

    def run(name):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name)])
        monkeypatch.syspath_prepend((EXAMPLES / name).parent)
        for variable in VARIABLES:
            monkeypatch.delenv(variable, raising=False)
        # What a script sets for its process is none of the next test's.
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        try:
            run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as end:
            assert not end.code  # noqa: PT017
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
        done = capfd.readouterr()
        assert done.err == ""
        return done.out

    return run


@pytest.mark.parametrize("name", RUNS)
def test_results_are_right(name, recorded, printed_without_arguments):
    lines = printed_without_arguments(name).splitlines()
    assert [run[0] for run in recorded] == RUNS[name]
    for kernel, arguments, result, report in recorded:
        exact = REFERENCES[kernel](*map(as_torch, arguments)).numpy()
        # Coarser than the bounds of the kernels' own tests, and enough to tell that the script ran
        # them on what it says: a result of type t has one rounding of relative size u, and at most
        # 3000 terms of size about 1, each with a rounding of float32, are summed for it.
        u = 2.0**-8 if result.dtype == ml_dtypes.bfloat16 else 2.0**-24
        off = np.abs(result.astype(np.float64) - exact)
        assert result.shape == exact.shape
        assert (off <= u * np.abs(exact) + 3000 * 2.0**-24 * (1 + np.abs(exact).max())).all()
        assert report.codes == set()
    assert sum("max |error|" in line for line in lines) == (
        1 if name == "demo.py" else len(recorded)
    )


def python(*arguments):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    for name in VARIABLES:
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def printed_by_default(name):
    """What a script must have printed; it is skipped where something that it needs is missing."""
    needed, printed = LIBRARY_SCRIPTS.get(name, (None, "max |error|"))
    if needed is not None:
        pytest.importorskip(needed, reason="`make test-all` installs it")
    return printed


# Fast tests elsewhere run the whole of these with arguments: test_workflows.py and trnfft's.
ELSEWHERE = ("option_pricing.py", "speech_enhancement.py")
SLOW = (*LONG, *ELSEWHERE)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in LIBRARY_SCRIPTS]
)
def test_scripts_of_libraries_run_without_arguments(name, printed_without_arguments):
    assert printed_by_default(name) in printed_without_arguments(name)


@pytest.mark.parametrize(
    "name", [n if n in ALONE else pytest.param(n, marks=pytest.mark.slow) for n in SCRIPTS]
)
def test_runs_as_a_plain_script(name):
    printed = printed_by_default(name)
    done = python(EXAMPLES / name)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout


def test_a_script_of_libraries_runs_where_torch_alone_is_imported():
    script = EXAMPLES / "nvidia_samples" / "conjugate_gradient.py"
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = forked("torch", code, path=[script.parent])
    assert (done.returncode, done.stderr) == (0, "")
    assert printed_by_default("nvidia_samples/conjugate_gradient.py") in done.stdout


@pytest.mark.slow
def test_torchrun_starts_four_ranks():
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    done = subprocess.run(
        [*launcher, "--standalone", str(EXAMPLES / "distributed_gemm.py"), "--order", "200"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "on 2 x 2 ranks" in done.stdout
    assert "|C x - A (B x)|" in done.stdout


def test_runs_as_written_for_a_trainium_host(tmp_path, monkeypatch):
    # The same kernel with the imports that a Trainium host has.
    source = (EXAMPLES / "tensor_add.py").read_text()
    lines = source.replace("import nkisim as nki\n", "import nki\n").replace("nkisim.", "nki.")
    copy = tmp_path / "tensor_add.py"
    copy.write_text(lines)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    done = nkisim_command("run", copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no findings" in done.stdout


def test_demo_ends_with_the_finding_of_its_mistake(load_example, capsys):
    demo = load_example("demo.py")
    x = np.random.default_rng(0).standard_normal((128, 700), dtype=np.float32)
    report = nkisim.check(demo.row_sums)(x)
    assert report.codes == {"M001"}
    (finding,) = report.findings
    lines = (EXAMPLES / "demo.py").read_text().splitlines()
    assert "tensor_reduce" in lines[finding.line - 1]
    demo.main()
    assert str(report) in capsys.readouterr().out
    # 512 columns fill their tile: the same kernel is then right.
    assert nkisim.check(demo.row_sums)(x[:, :512]).codes == set()
