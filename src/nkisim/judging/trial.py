"""The making of one verdict: read, record, replay, compare, predict, decide."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray as Array

from nkisim.checks import file_findings
from nkisim.diagnostics import RULES
from nkisim.filecheck import BROKEN_FILE, parse_shapes
from nkisim.filecheck.arguments import shapes_hint, without_value
from nkisim.filecheck.calls import SourceFile
from nkisim.filecheck.files import check_shape_names, named_kernel
from nkisim.judging.authored import (
    Recorded,
    arguments_asked,
    checked_answer,
    plain,
    refusal_of,
)
from nkisim.judging.cases import AS_GIVEN, Case, cases_of, signatures_of, without_values
from nkisim.judging.child import Child, Ended
from nkisim.judging.guard import root_of
from nkisim.judging.settings import Settings
from nkisim.judging.verdict import OF_RESULTS, CaseResult, Fault, Verdict
from nkisim.options import LNC_VARIABLE
from nkisim.profiling.text import duration
from nkisim.program import Program, ProgramError
from nkisim.program.calls import arguments_without_values
from nkisim.rewriting import SourceError
from nkisim.runs.host import described
from nkisim.suggestions import complete
from nkisim.trials import Arguments
from nkisim.trials.arguments import given as drawn
from nkisim.trials.comparison import Expected
from nkisim.trials.references import Reference, Refused
from nkisim.trials.running import arrays_of
from nkisim.versions import NKI_VARIABLE, judged_by


class Trial:
    """The making of one verdict."""

    def __init__(self, verdict: Verdict, settings: Settings, reference: Reference) -> None:
        self.verdict = verdict
        self.settings = settings
        self.reference = reference
        self._written = 0  # bytes of the results of the first case
        self._source: SourceFile

    # -- legal: the source -------------------------------------------------------------------------

    def read(self, file: Path, kernel: str | None) -> None:
        """Read the source, and check its rules."""
        verdict = self.verdict
        name, _ = named_kernel(kernel)
        try:
            with judged_by(verdict.nki):
                kernels, findings = file_findings(str(file), name or None)
                complete(findings)
        except (SyntaxError, SourceError) as error:
            line = getattr(error, "lineno", None) or 1
            self._fault(BROKEN_FILE.id, f"the file cannot be parsed: {error}", str(file), line)
            return
        if len(kernels) != 1:
            names = ", ".join(k.name for k in kernels) or "none with @nki.jit"
            raise ValueError(f"kernel: name one of {file.name}: {names}")
        if kernel is None:
            verdict.kernel = kernels[0].name
        self._source = SourceFile(file, kernels, [], name, None)
        for finding in findings:
            self._note(finding.to_dict())

    # -- right: programs and their replays ---------------------------------------------------------

    def run(self, cases: Sequence[Any]) -> None:
        """Record the kernel, replay it on all cases, and predict its time."""
        verdict, settings = self.verdict, self.settings
        file = Path(verdict.file)
        with self._child("author") as author, self._child("replaying") as replaying:
            given = self._given(author, cases)
            recorded = [self._recorded(author, arguments) for arguments in given]
            if verdict.faults or verdict.unheld or not given:
                return
            self._replay(replaying, given, recorded, root_of(file))
            if settings.advice and verdict.fast is not None:
                with contextlib.suppress(Ended):
                    self._advise(author, given[0])

    def run_program(self, file: Path, cases: Sequence[Any]) -> None:
        """Replay a program of a file on the shapes that it was recorded for."""
        verdict = self.verdict
        try:
            program = Program.from_bytes(file.read_bytes())
        except ProgramError as error:
            raise ValueError(f"kernel: {file.name}: {error}") from None
        verdict.kernel, verdict.target, verdict.nki = program.kernel, program.target, program.nki
        given = [*map(_arguments, cases)] or [_drawn(program)]
        recorded = [[Recorded(program, {})] for _ in given]
        with self._child("replaying") as replaying:
            self._replay(replaying, given, recorded)

    def _child(self, module: str) -> Child:
        cores = os.environ.get(LNC_VARIABLE, "")
        environment = {NKI_VARIABLE: self.verdict.nki, LNC_VARIABLE: cores}
        return Child(f"nkisim.judging.{module}", self.settings.limits, environment)

    def _given(self, author: Child, cases: Sequence[Any]) -> list[Arguments]:
        """Return the calls; none, with a fault or an advice, if there are none."""
        verdict = self.verdict
        texts = [case for case in cases if isinstance(case, str)]
        found = [_arguments(case) for case in cases if not isinstance(case, str)]
        texts = texts if texts or found else [""]
        # An error of a text is raised here, and not in the child.
        asked = [parse_shapes(text) if text else {} for text in texts]
        shapes: dict[str, Any] = {}
        for one in asked:
            shapes |= one
        check_shape_names([self._source], shapes)
        reply = author.ask(
            {
                "do": "load",
                "file": verdict.file,
                "kernel": verdict.kernel,
                "shapes": texts,
                "options": self._options,
            }
        )
        (kernel,) = self._source.kernels
        with checked_answer():
            if "problem" in reply:
                self._fault("import", _quoted(reply["problem"]), verdict.file, int(reply["line"]))
                return []
            for one, calls in zip(asked, reply["cases"], strict=True):
                found += [arguments_asked(args, kwargs, one, kernel) for args, kwargs in calls]
                if not calls:
                    found.clear()
                    break
        if not found:
            hint = shapes_hint(kernel, without_value(kernel, shapes), shapes)
            text = f'no arguments: give --shapes "{hint}", or define nkisim_examples()'
            verdict.advice = {"kind": "arguments", "text": text, "code": ""}
        return found

    @property
    def _options(self) -> dict[str, str]:
        return {"target": self.verdict.target, "nki": self.verdict.nki}

    def _recorded(self, author: Child, given: Arguments) -> list[Recorded]:
        """Return the kernel's program for each signature of a call, the given one first."""
        found: list[Recorded] = []
        for extents in signatures_of(given, shapes=self.settings.shapes):
            if self.verdict.faults or self.verdict.unheld:
                break
            call = without_values(given, extents)._asdict()
            reply = author.ask({"do": "record", **call})
            with checked_answer():
                found.append(self._program_of(reply, extents))
        return found

    def _program_of(self, reply: Any, extents: dict[int, int]) -> Recorded:
        """Return what the author's child recorded, with a fault if the given shapes have none."""
        verdict, program = self.verdict, None
        if "program" in reply:
            try:
                program = Program.from_bytes(reply["program"].tobytes())
                _, cores = named_kernel(verdict.kernel)
                if cores not in (None, program.cores):
                    raise ProgramError(f"it was recorded for {program.cores} cores, not {cores}")
            except ProgramError as error:
                verdict.unheld = str(error)
            return Recorded(program, extents)
        if extents:
            refusal = reply.get("raised") or reply.get("unheld") or reply["findings"]
            return Recorded(None, extents, str(refusal))
        if "raised" in reply:
            self._fault("stopped", _quoted(reply["raised"]), verdict.file, int(reply["line"]))
        elif "unheld" in reply:
            verdict.unheld = str(reply["unheld"])
        else:
            for finding in map(refusal_of, reply["findings"]):
                self._note(finding)
            if not verdict.faults:
                raise ValueError("neither a program nor a reason")
        return Recorded(None, extents)

    def _replay(
        self,
        replaying: Child,
        given: Sequence[Arguments],
        recorded: Sequence[Sequence[Recorded]],
        folder: Path | None = None,
    ) -> None:
        """Replay all programs on all cases; their values are drawn here, after the programs."""
        verdict, settings = self.verdict, self.settings
        programs = [one.program for call in recorded for one in call if one.program is not None]
        verdict.programs = {program.digest: program for program in programs}
        if settings.seed is None:
            verdict.seed = secrets.randbits(32)
        places = {file for program in programs for file, _ in program.files}
        shown = [file for file in sorted(places) if folder and _is_below(file, folder)]
        message = {
            "do": "load",
            "programs": [np.frombuffer(program.to_bytes(), np.uint8) for program in programs],
            "files": shown,
            "options": self._options,
        }
        verdict.unheld = str(replaying.ask(message))
        if verdict.unheld:
            return
        first = 0
        for number, (arguments, of_call) in enumerate(zip(given, recorded, strict=True)):
            numbers = {}
            for signature, one in enumerate(of_call):
                if one.program is not None:
                    numbers[signature] = first
                    first += 1
            signatures = [one.extents for one in of_call]
            kinds = {"hostile": settings.hostile, "nonfinite": settings.nonfinite}
            for case in cases_of(arguments, verdict.seed + number, signatures, **kinds):
                self._try(replaying, case, of_call[case.signature], numbers.get(case.signature))
                if verdict.faults or verdict.unheld:
                    return
        self._predict(replaying, given[0])

    def _try(self, replaying: Child, case: Case, recorded: Recorded, program: int | None) -> None:
        """Replay one case and compare its results."""
        verdict = self.verdict
        text = ", ".join(_described(case.arguments))
        try:
            expected = Expected(self.reference, case.arguments, verdict.seed)
        except Refused as refused:
            if case.name == AS_GIVEN:
                raise ValueError(f"reference: {refused}") from refused
            note = f"the reference refuses it: {refused}"
            verdict.cases.append(CaseResult(case.name, text, False, False, note[:200]))
            return
        reply: Mapping[str, Any] = {"refused": recorded.refusal}
        if program is not None:
            call = {**case.arguments._asdict(), "thorough": case.name == AS_GIVEN}
            reply = replaying.ask({"do": "run", "program": program, **call})
        if reply.get("unheld"):
            verdict.unheld = str(reply["unheld"])
            return
        if case.signature and (program is None or reply["refused"]):
            note = f"refused: {_quoted(reply['refused'])}"
            verdict.cases.append(CaseResult(case.name, text, False, False, note))
            return
        for finding in reply.get("findings", ()):
            self._note(self._of_case(case, finding))
        if reply["stopped"] and not verdict.faults:
            self._fault("stopped", _quoted(reply["stopped"]))
        if reply.get("changed"):
            self._fault("input", "changes an argument that it does not return")
        if verdict.faults:
            verdict.cases.append(CaseResult(case.name, text, True, False, str(verdict.error)))
        else:
            verdict.cases.append(self._compared(replaying, case, text, reply["outputs"], expected))

    def _compared(
        self, replaying: Child, case: Case, text: str, outputs: list[Array], expected: Expected
    ) -> CaseResult:
        """Return the comparison of a case, with a fault if its results are wrong."""
        self._written = self._written or sum(array.nbytes for array in outputs)
        found = expected.compared(outputs, self.settings.tolerance, self.settings.out_dtype)
        file, line = "", 0
        element = {"output": found.output, "index": list(found.index)}
        if not found.passed:
            if not found.problem:
                file, line = replaying.ask({"do": "writer", **element}) or ("", 0)
            self._fault("result", f"{case.name}: {found}", file, line)
        values = {"got": found.got, "expected": found.expected, "file": file, "line": line}
        return CaseResult(
            name=case.name,
            arguments=text,
            counted=True,
            passed=found.passed,
            note=found.problem,
            ulps=found.ulps,
            norm=found.norm,
            tolerance=found.relative,
            tolerated=found.tolerance,
            dtypes=found.dtypes,
            reference_dtypes=found.reference_dtypes,
            wrong=found.wrong,
            worst=None if found.problem else element | values,
        )

    # -- fast, next --------------------------------------------------------------------------------

    def _predict(self, replaying: Child, given: Arguments) -> None:
        """Add the predicted time."""
        fast = replaying.ask({"do": "profile", "program": 0, **given._asdict()})
        work = fast["latency_us"] - fast["fixed_us"]
        fast["of_shape_us"] = min(fast["bound_us"], work)
        fast["of_kernel_us"] = work - fast["of_shape_us"]
        fast["least_bytes"] = self._least_bytes(given)
        self.verdict.fast = fast

    def _advise(self, author: Child, given: Arguments) -> None:
        """Add the advice that gains most; it edits the author's code, and decides nothing."""
        pieces = author.ask({"do": "advise", **given._asdict()})
        with checked_answer():
            for best in pieces:
                text = f"{best['title']}: to save {duration(best['gain_us'])}, {best['action']}"
                kept = {key: best[key] for key in ("rule", "code", "gain_us", "change")}
                self.verdict.advice = plain({"kind": "advice", "text": text, **kept})

    def _least_bytes(self, given: Arguments) -> int:
        """Return the bytes of the arguments, each read once, and of the results."""
        arrays = [a for a in arrays_of((given.args, given.kwargs)) if a.dtype != object]
        return sum(a.nbytes for a in arrays if a.ndim) + self._written

    # -- faults ------------------------------------------------------------------------------------

    def note_end(self, ended: Ended) -> None:
        """Add the fault for which a child ended; one that was ended by the guard has none."""
        if ended.reason == "refused":
            line = f" ({ended.data['file']}:{ended.data['line']})" if ended.data.get("line") else ""
            self.verdict.unheld = f"its code was ended: {_quoted(str(ended))}{line}"
            return
        kind = {"raised": "stopped"}.get(ended.reason, ended.reason)
        place = (str(ended.data.get("file", "")), int(ended.data.get("line") or 0))
        self._fault(kind, _quoted(str(ended)), *place)

    def _of_case(self, case: Case, finding: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a finding; as a note if it is about values that the reference cannot take."""
        is_drawn = case.name != AS_GIVEN and RULES[finding["rule"]].on_values
        if not is_drawn or self.reference.takes(case.arguments):
            return finding
        return {**finding, "severity": "note"}

    def _note(self, finding: Mapping[str, Any]) -> None:
        """Add a finding, and the fault that it is if it is an error."""
        key = ("rule", "file", "line", "severity")
        known = [[f[name] for name in key] for f in self.verdict.findings]
        if [finding[name] for name in key] in known:
            return
        self.verdict.findings.append(dict(finding))
        if finding["severity"] == "error":
            self._fault(finding["rule"], finding["message"], finding["file"], finding["line"])

    def _fault(self, kind: str, text: str, file: str = "", line: int = 0) -> None:
        self.verdict.faults.append(Fault(kind, text, file, line))

    def decide(self) -> None:
        """Decide on the outcome, and on what to do next."""
        verdict = self.verdict
        kinds = [fault.kind for fault in verdict.faults]
        if "time" in kinds:
            verdict.outcome = "time"
        elif verdict.unheld:
            verdict.outcome = "no verdict"
        elif kinds:
            verdict.outcome = "wrong" if OF_RESULTS.issuperset(kinds) else "refused"
        elif any(case.counted for case in verdict.cases):
            verdict.outcome = "right"
        if kinds:
            verdict.advice = self._fix()

    def _fix(self) -> dict[str, Any]:
        """Return the fix of the first error, or the place of the first wrong element."""
        verdict = self.verdict
        fault = verdict.faults[0]
        for finding in verdict.findings:
            if finding["rule"] == fault.kind and finding["line"] == fault.line:
                text = f"line {fault.line}: {finding['fix'] or finding['message']}"
                code = (finding["rewrite"] or {"code": ""})["code"]
                return {"kind": "fix", "text": text, "code": code}
        where = f"{Path(fault.file).name}:{fault.line}: " if fault.line else ""
        return {"kind": "fault", "text": f"{where}{fault.text}", "code": ""}


def _drawn(program: Program) -> Arguments:
    """Return the arguments that a program was recorded for, with values."""
    return drawn(Arguments(arguments_without_values(program), {}))


def _is_below(file: str, folder: Path) -> bool:
    """Return whether a file that a program names may be read to show its lines."""
    path = Path(file).resolve()
    return path.suffix == ".py" and path.is_relative_to(folder) and path.is_file()


def _arguments(case: Any) -> Arguments:
    """Return a case of the caller as arguments."""
    if isinstance(case, Mapping):
        return Arguments((), dict(case))
    if isinstance(case, tuple):
        return Arguments(case, {})
    raise TypeError(
        f"case: got {type(case).__name__}; accepted: a tuple or a dict of the kernel's arguments, "
        'or a text such as "x=bf16[128,512]"'
    )


def _described(arguments: Arguments) -> list[str]:
    named = [f"{name}={described(value)}" for name, value in arguments.kwargs.items()]
    return [*map(described, arguments.args), *named]


def _quoted(text: Any) -> str:
    """Return a text of the kernel as data: one line of printable characters, in quotes."""
    return repr(str(text)[:500])
