"""Public functions, or single guarantees of them, that the contract of public functions leaves out.

A key is ``library.function`` for a function that is not called at all, ``library.function:
guarantee`` with one of ``GUARANTEES``, or ``library.function: guarantee, argument=`` for calls with
that argument. ``python -m trnsci.core.testing.exempt`` prints the table.
"""

from __future__ import annotations

from collections.abc import Mapping

GUARANTEES = ("gradient", "torch.func", "compile", "default device")

_DRAWS = "draws samples, on the default device unless device= says otherwise; see rsample"
_INTEGERS = "its result is made of integers or of Python numbers, which have no derivatives"
_MOVES = "moves a tensor to another device or framework"
_STEPS = "the number of steps depends on values: it runs outside of a compiled graph"
_VALUES = "the shape of its result depends on values, which a graph does not have"
_ESTIMATE = "an estimate from random vectors, whose derivative is not that of the quantity"
_SEED = "a graph draws from generators, and makes none: seed= takes one that was made outside"
_SETUP = "makes a preconditioner, by which nothing is differentiated"
_SCIPY = "SciPy computes it, outside of a compiled graph"

_SAMPLERS = (
    *("bernoulli", "beta", "binomial", "categorical", "cauchy", "chi_squared", "choice"),
    *("dirichlet", "exponential", "gamma", "geometric", "gumbel"),
    *("halton", "hypergeometric", "laplace", "latin_hypercube", "lognormal", "multinomial"),
    *("multivariate_normal", "negative_binomial", "normal", "poisson", "rand"),
    *("rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"),
    *("sobol", "student_t", "truncated_normal", "uniform", "von_mises", "weibull"),
)
_ITERATIVE = (
    *("trnsolver.bicgstab", "trnsolver.cg", "trnsolver.fgmres", "trnsolver.gmres"),
    "trnsolver.expm_multiply",
    *("trnsolver.minres", "trnsparse.cg", "trnsparse.chebyshev"),
    *("trnsparse.minres", "trnsparse.richardson"),
)

EXEMPT: Mapping[str, str] = {
    **{f"trnrand.{name}": _DRAWS for name in _SAMPLERS},
    **{f"{name}: compile": _STEPS for name in _ITERATIVE},
    "trnblas.iamax": _INTEGERS,
    "trnblas.iamin": _INTEGERS,
    "trnfft.plan": "takes shapes, not tensors",
    "trnfft.hfft: torch.func": "torch.fft.hfft has no batching rule for its gradient (jacrev)",
    "trnrand.checkpoint_contexts": "takes generators, not tensors",
    "trnrand.fork_rng": "takes generators, not tensors",
    "trnrand.get_rng_state": "takes generators, not tensors",
    "trnrand.shuffle: compile": "a graph draws from generators, and makes none",
    "trnrand.set_rng_state": "takes the bytes of a state",
    "trnsolver.block_jacobi_preconditioner": _SETUP,
    "trnsolver.eigh_randomized": _ESTIMATE,
    "trnsolver.eigh_randomized: compile": _SEED,
    "trnsolver.eigsh: compile": _STEPS,
    "trnsolver.hutch_plus_plus": _ESTIMATE,
    "trnsolver.hutch_plus_plus: compile": _SEED,
    "trnsolver.ichol_preconditioner": _SETUP,
    "trnsolver.jacobi_preconditioner": _SETUP,
    "trnsolver.lobpcg": "its pairs have no derivatives; those of eigh have",
    "trnsolver.lobpcg: compile": _STEPS,
    "trnsolver.nystrom": _ESTIMATE,
    "trnsolver.nystrom: compile": _SEED,
    "trnsolver.plot_residuals": "draws a picture",
    "trnsolver.rsvd": _ESTIMATE,
    "trnsolver.rsvd: compile": _SEED,
    "trnsolver.schur": "refused for tensors that are differentiated or traced: SciPy computes it",
    "trnsolver.ssor_preconditioner": _SETUP,
    "trnsolver.svds: compile": _STEPS,
    "trnsparse.amg_preconditioner": _SETUP,
    "trnsparse.bandwidth": _INTEGERS,
    "trnsparse.block_jacobi_preconditioner": _SETUP,
    "trnsparse.block_ordering": _INTEGERS,
    "trnsparse.count_quartets": _INTEGERS,
    "trnsparse.density_screen": _INTEGERS,
    "trnsparse.ichol_preconditioner": _SETUP,
    "trnsparse.ilu_preconditioner": _SETUP,
    "trnsparse.jacobi_preconditioner": _SETUP,
    "trnsparse.plot_pattern": "draws a picture",
    "trnsparse.power_iteration": "its eigenvalue is a Python number; eigh has derivatives",
    "trnsparse.random_sparse": "draws a matrix, from numbers",
    "trnsparse.rcm": _INTEGERS,
    "trnsparse.from_torch_sparse": "torch's sparse tensors have neither forward mode nor "
    "torch.func; gradients are tested with the formats",
    "trnsparse.permuted: compile": _VALUES,
    "trnsparse.screen_quartets": _INTEGERS,
    "trnsparse.sparsity_stats": _INTEGERS,
    "trnsparse.spgemm: compile": _VALUES,
    "trnsparse.splu: compile": _SCIPY,
    "trnsparse.spmv_symmetric: compile": _VALUES,
    "trnsparse.spsolve: compile": _SCIPY,
    "trnsparse.sptrsv: compile": _SCIPY,
    "trnsparse.ssor_preconditioner": _SETUP,
    "trntensor.cp_decompose": "a local minimum of alternating steps, by which nothing is "
    "differentiated",
    "trntensor.einsum: compile, memory_limit=": "the compiler plans the memory of a graph",
    "trntensor.estimate_flops": "takes shapes, not values",
    "trntensor.from_xla": _MOVES,
    "trntensor.plan_contraction": "takes shapes, not values",
    "trntensor.to_xla": _MOVES,
    "trntensor.tt_round: compile": _VALUES,
    "trntensor.tucker_decompose: compile": _STEPS,
}


def reason_of(name: str, guarantee: str = "") -> str:
    """Return why a function, or one guarantee of it, is exempt; "" if it is not."""
    return EXEMPT.get(f"{name}: {guarantee}" if guarantee else name, "")


def _printed() -> str:
    width = max(map(len, EXEMPT), default=0)
    return "\n".join(f"{name:{width}}  {reason}" for name, reason in sorted(EXEMPT.items()))


if __name__ == "__main__":
    print(_printed())
