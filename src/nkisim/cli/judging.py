"""``nkisim judge``: is a kernel legal, right and fast.

Exit status: 0 right, 1 refused or wrong, 2 a mistake on the command line, 3 nothing was judged, 5
out of time, 6 no verdict.
"""

from __future__ import annotations

import os
import signal
import sys

import click

from nkisim.arch import resolve_target
from nkisim.cli.baseline import Baseline, baseline_options, read_baseline
from nkisim.cli.group import PROCESS, commands, format_option, lnc_option, nki_option
from nkisim.cli.streams import claimed_stdout, emit
from nkisim.cli.targets import project_of, reference_of, split_name, stdin_file
from nkisim.filecheck.modules import CannotImport
from nkisim.files import require_writable, write_text
from nkisim.judging import Fault, Settings, Verdict, verdict_on
from nkisim.judging.child import Limits


@commands.command()
@click.argument("file", metavar="FILE[::KERNEL]|PROGRAM.json")
@click.option("--reference", required=True, metavar="FILE::FUNCTION", help="NumPy or torch.")
@click.option("--shapes", multiple=True, help='Arguments: "x=bf16[128,512] eps=1e-6".')
@click.option("--target", help="trn1, trn2, trn3, gen2, ...; default: trn2.")
@nki_option
@lnc_option
@format_option("text", "json")
@click.option("--output", default="-", metavar="FILE", help="File to write to; by default, print.")
@click.option("--source", metavar="OUT.py", help="Write the programs that were judged, as NKI.")
@click.option("--tolerance", type=click.FloatRange(min=0), help="Relative; default: derived.")
@click.option("--out-dtype", help="Narrowest float type of outputs; default: inputs, reference.")
@click.option("--nonfinite", is_flag=True, help="Try infinities, too.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of a verdict that is repeated.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), default=120.0)
@click.option("--max-memory", type=click.FloatRange(min=1.5), default=4.0, help="In GiB.")
@baseline_options
def judge(
    file: str,
    reference: str,
    shapes: tuple[str, ...],
    target: str | None,
    form: str,
    output: str,
    source: str | None,
    tolerance: float | None,
    out_dtype: str | None,
    nonfinite: bool,
    seed: int | None,
    max_seconds: float,
    max_memory: float,
    baseline: str | None,
    fail_if_slower: str,
) -> int:
    """Judge a kernel of FILE: is it legal, right and fast, and what gains most.

    FILE may be - for stdin. The kernel's file is imported in a child process with limits; the
    reference, which is called with inputs cast up to float64, is imported here and must be in
    another file. Arguments come from --shapes or from nkisim_examples() in the kernel's file. Exit
    status: 0 right, 1 refused or wrong, 2 a mistake on the command line, 3 nothing was judged, 5
    out of time, 6 no verdict: no program can hold the kernel.
    """
    if click.get_current_context().find_root().obj is PROCESS:
        # An exception, so that the child process is ended at once and not at its limits.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    path, kernel = split_name(file, stdin=True)
    home, _ = split_name(reference)
    if not path.is_file() or not home.is_file():
        raise click.UsageError("name a file, and the reference as FILE::FUNCTION")
    if path.resolve() == home.resolve():
        raise click.UsageError(
            "--reference: it is in the kernel's file, which only the child process imports; put "
            "it into another file"
        )
    project = project_of(path)
    earlier = read_baseline(baseline, fail_if_slower)
    try:
        for name in {output, source or "-"} - {"-"}:
            require_writable(name)
        settings = Settings(
            target=resolve_target(target or project.target or None).name,
            limits=Limits(seconds=max_seconds, memory=int(max_memory * 2**30)),
            tolerance=tolerance,
            out_dtype=out_dtype,
            nonfinite=nonfinite,
            seed=seed,
        )
        cases = [" ".join(shapes)] if shapes else []
        with claimed_stdout() as stdout, reference_of(reference, max_seconds) as found:
            verdict = verdict_on(path.resolve(), kernel, found, settings, cases)
            _compare(verdict, earlier)
            text = verdict.to_json() if form == "json" else _relative(str(verdict))
            if source is not None:
                texts = [program.source() for program in verdict.programs.values()]
                write_text(source, "\n\n".join(texts))
            if given := stdin_file():
                text = text.replace(given, "-")
            emit(text, output, stdout)
    except (ValueError, CannotImport, OSError) as error:
        raise click.UsageError(str(error)) from None
    return verdict.status


def _compare(verdict: Verdict, earlier: Baseline | None) -> None:
    """Add the fault of a right kernel that is slower than before."""
    if earlier is None or verdict.latency_us is None:
        return
    call = (verdict.kernel, verdict.target, verdict.cases[0].arguments)
    if not earlier.knows(*call):
        click.echo(f"nkisim: --baseline has no {' '.join(call[:2])} with {call[2]}", err=True)
    text = earlier.slower(*call, verdict.latency_us)
    if text:
        verdict.faults.append(Fault("slower", text))
        verdict.outcome = "wrong"


def _relative(text: str) -> str:
    return text.replace(os.getcwd() + os.sep, "")
