"""The server of ``nkisim serve --lsp``: findings, fixes, names and times in an editor.

While a text is typed, its source is checked. Once it is saved, its kernels also run; then the fixes
are tried and the device time is predicted. All this is for that text alone, so that a later text
shows the findings of its own source and offers no fix.
"""

from __future__ import annotations

import asyncio
import json
import linecache
import os
import re
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import ServerTextPosition, ServerTextRange, TextDocument

import nkisim
from nkisim.diagnostics import Rewrite
from nkisim.rewriting import NotPastedError, edits_of
from nkisim.serve.completion import (
    imports_of,
    members_of,
    missing_arguments,
    open_call,
    signature,
    typed_at,
    version_of,
)
from nkisim.serve.requests import Server
from nkisim.source import file_globals

_PAUSE = 0.15
"""Seconds without a key after which a text is checked."""

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}

_DOTTED = re.compile(r"[A-Za-z_][\w.]*")


@dataclass
class _Text:
    """An open document, with the results of its last check.

    Attributes:
        checked: The text whose fixes were tried; they apply to it.
        findings: The findings of the last check, as data.
        lenses: Lines of kernels, counted from 0, and their predicted times.
        work: The task of a check that is under way, if any.
        trials: The task of trials of fixes that is under way, if any.
        times: The task of a prediction that is under way, if any.
    """

    checked: str = ""
    findings: list[dict[str, Any]] = field(default_factory=list)
    lenses: list[tuple[int, str]] = field(default_factory=list)
    work: asyncio.Task[None] | None = None
    trials: asyncio.Task[None] | None = None
    times: asyncio.Task[None] | None = None


def serve_stdio(server: Server) -> None:
    """Answer on stdin and stdout until stdin ends."""
    _Editor(server).start_io()


class _Editor(LanguageServer):
    """The protocol's server; requests run in children of a warm process."""

    def __init__(self, server: Server) -> None:
        super().__init__("nkisim", nkisim.__version__)
        self._warm = server
        self._texts: dict[str, _Text] = {}
        features: dict[str, Any] = {
            types.TEXT_DOCUMENT_DID_OPEN: self._saved,
            types.TEXT_DOCUMENT_DID_CHANGE: self._typed,
            types.TEXT_DOCUMENT_DID_SAVE: self._saved,
            types.TEXT_DOCUMENT_DID_CLOSE: self._closed,
            types.TEXT_DOCUMENT_HOVER: self._hover,
            types.TEXT_DOCUMENT_CODE_ACTION: self._actions,
            types.TEXT_DOCUMENT_CODE_LENS: self._lenses,
        }
        features |= {
            types.TEXT_DOCUMENT_COMPLETION: self._completions,
            types.COMPLETION_ITEM_RESOLVE: self._described,
            types.TEXT_DOCUMENT_SIGNATURE_HELP: self._signature,
        }
        options: dict[str, Any] = {
            types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(["."], resolve_provider=True),
            types.TEXT_DOCUMENT_SIGNATURE_HELP: types.SignatureHelpOptions(["(", ",", "="]),
        }
        for name, handler in features.items():
            # ``feature`` sets attributes on the handler, and a bound method cannot have any.
            self.feature(name, options.get(name))(partial(handler))

    # -- checks ------------------------------------------------------------------------------------

    async def _typed(self, params: types.DidChangeTextDocumentParams) -> None:
        self._begin(params.text_document.uri, self._check_source(params.text_document.uri))

    async def _saved(
        self, params: types.DidOpenTextDocumentParams | types.DidSaveTextDocumentParams
    ) -> None:
        self._begin(params.text_document.uri, self._check(params.text_document.uri))

    async def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        text = self._texts.pop(params.text_document.uri, _Text())
        _cancel(text.work, text.trials, text.times)
        self._publish(params.text_document.uri, [])

    def _begin(self, uri: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a check of a text in place of the one that runs."""
        text = self._texts.setdefault(uri, _Text())
        _cancel(text.work, text.trials)
        text.work = asyncio.create_task(work)

    async def _check_source(self, uri: str) -> None:
        await asyncio.sleep(_PAUSE)
        document = self.workspace.get_text_document(uri)
        found = await self._found(document, "--source-only", draft=True)
        if found is not None:
            self._show(uri, document.source, found)

    async def _check(self, uri: str) -> None:
        """Run the kernels of a file and show the findings; then try the fixes and predict times."""
        document = self.workspace.get_text_document(uri)
        source = document.source
        found = await self._found(document, "--no-trials")
        if found is None:  # a crash, or no such file: what is left is the source
            await self._check_source(uri)
            return
        self._show(uri, source, found)
        text = self._texts[uri]
        _cancel(text.times)
        text.trials = asyncio.create_task(self._try(uri, source))
        text.times = asyncio.create_task(self._predict(uri, found))

    async def _try(self, uri: str, source: str) -> None:
        document = self.workspace.get_text_document(uri)
        found = await self._found(document)
        if found is not None and document.source == source:
            self._keep(uri, found).checked = source

    async def _found(self, document: TextDocument, *options: str, draft: bool = False) -> Any:
        """Return the report of a check as data, None if it did not end."""
        line = ("check", document.path, *options, "--allow-none", "--format", "json")
        texts = {document.path: document.source} if draft else None
        reply = await self._warm.answer(line, texts)
        return json.loads(reply.output) if reply.output else None

    async def _predict(self, uri: str, found: dict[str, Any]) -> None:
        path = self.workspace.get_text_document(uri).path
        reply = await self._warm.answer(["profile", path, "--format", "json"])
        lines = {k["name"]: k["line"] for k in found["kernels"] if _is_at(k["file"], path)}
        profiles = json.loads(reply.output)["profiles"] if reply.output else []
        self._texts[uri].lenses = [
            (
                lines[p["kernel"]] - 1,
                f"{p['latency_us']:.1f} us on {p['target']}, bound by {p['bound_by']}",
            )
            for p in profiles
            if p["kernel"] in lines
        ]
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.code_lens and workspace.code_lens.refresh_support:
            await self.workspace_code_lens_refresh_async(None)

    def _show(self, uri: str, source: str, found: dict[str, Any]) -> None:
        document = self.workspace.get_text_document(uri)
        if uri not in self._texts or document.source != source:
            return  # a later text is checked already
        text = self._keep(uri, found)
        self._publish(uri, [_diagnostic(document, finding) for finding in text.findings])

    def _keep(self, uri: str, found: dict[str, Any]) -> _Text:
        path, text = self.workspace.get_text_document(uri).path, self._texts[uri]
        text.findings = [f for f in found["findings"] if _is_at(f["file"], path)]
        text.checked = ""
        return text

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))

    # -- requests ----------------------------------------------------------------------------------

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        document = self.workspace.get_text_document(params.text_document.uri)
        position = document.position_from_client_units(params.position)
        lines = document.lines
        row = lines[position.line] if position.line < len(lines) else ""
        at = [m[0] for m in _DOTTED.finditer(row) if m.start() <= position.character <= m.end()]
        path = _meant(document.path, at[0]) if at else ""
        if not path.startswith("nki."):
            return None
        call = await self._declared(path, version_of(document.path))
        if not call:
            return None
        text = f"```python\n{call['call']}\n```\n\n{call['text']}"
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    async def _declared(self, path: str, version: str) -> dict[str, str]:
        """Return call and documentation of a function of NKI; empty for other names."""
        reply = await self._warm.answer(["find", "--format", "json", "--nki", version, path])
        found = json.loads(reply.output or '{"remedy": "", "calls": []}')
        alone = not found["remedy"] and len(found["calls"]) == 1
        return dict(found["calls"][0]) if alone else {}

    async def _completions(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        document = self.workspace.get_text_document(params.text_document.uri)
        version, before = version_of(document.path), _text_before(document, params.position)
        owner, _ = typed_at(before.rpartition("\n")[2])
        if owner:
            return members_of(_meant_in(document.source, owner), version)
        call = open_call(before)
        if call.keyword:  # its value is typed
            return []
        return missing_arguments(_meant_in(document.source, call.function), call, version)

    async def _described(self, item: types.CompletionItem) -> types.CompletionItem:
        if item.data:
            call = await self._declared(item.data["path"], item.data["version"])
            item.documentation = call.get("text")
        return item

    async def _signature(self, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        document = self.workspace.get_text_document(params.text_document.uri)
        version, call = (
            version_of(document.path),
            open_call(_text_before(document, params.position)),
        )
        path = _meant_in(document.source, call.function)
        if not path.startswith("nki."):
            return None
        text = (await self._declared(path, version)).get("text", "")
        return signature(path, call, version, text)

    async def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        document, text = self.workspace.get_text_document(uri), self._texts.get(uri, _Text())
        await _ended(text, "work", "trials")
        if document.source != text.checked:
            return []
        return [
            action
            for finding in text.findings
            if finding["rewrite"] and _is_at(finding["rewrite"]["file"], document.path)
            for shown in [_diagnostic(document, finding)]
            if shown.range.start.line <= params.range.end.line
            and params.range.start.line <= shown.range.end.line
            for action in _fixes(uri, document, finding, shown)
        ]

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        text = self._texts.get(params.text_document.uri, _Text())
        await _ended(text, "work", "times")
        return [
            types.CodeLens(
                types.Range(types.Position(line, 0), types.Position(line, 0)),
                types.Command(title, ""),
            )
            for line, title in text.lenses
        ]


async def _ended(text: _Text, *names: str) -> None:
    """Wait until no task of a text is under way; one starts another, a later text takes over."""
    while running := [t for name in names if (t := getattr(text, name)) and not t.done()]:
        await asyncio.wait(running)


def _cancel(*tasks: asyncio.Task[None] | None) -> None:
    for task in tasks:
        if task is not None:
            task.cancel()


def _is_at(file: str, path: str) -> bool:
    """Return whether the file of a report is the one at a path."""
    return os.path.realpath(file) == os.path.realpath(path)


def _meant(path: str, dotted: str) -> str:
    """Return the path of an object of NKI that a name in a file refers to; empty for others."""
    linecache.checkcache(path)
    scope = file_globals(path)
    if scope is None:
        return ""
    head, *rest = dotted.split(".")
    meaning = scope.meaning(head)
    for name in rest:
        meaning = meaning.attribute(name)
    return meaning.path if meaning.kind == "nki" else ""


def _meant_in(text: str, dotted: str) -> str:
    """Return the path of an object of NKI that a name in a text refers to; empty for others.

    The text may be incomplete: only its imports are read.
    """
    name = "<imports of an editor's text>"
    lines = imports_of(text)
    linecache.cache[name] = (len(lines), None, lines.splitlines(keepends=True), name)
    return _meant(name, dotted) if dotted else ""


def _text_before(document: TextDocument, at: types.Position) -> str:
    """Return the text of a document up to a position of the client."""
    return document.source[: document.offset_at_position(at)]


def _diagnostic(document: TextDocument, finding: dict[str, Any]) -> types.Diagnostic:
    """Return a finding at its operand, or at its line."""
    row = min(max(finding["line"] - 1, 0), max(len(document.lines) - 1, 0))
    line = document.lines[row] if document.lines else ""
    span = (row, len(line) - len(line.lstrip()), row, len(line.rstrip()))
    if finding["span"]:
        first, start, last, end = finding["span"]
        span = (first - 1, start, last - 1, end)
    message = finding["message"] + (f"\nfix: {finding['fix']}" if finding["fix"] else "")
    return types.Diagnostic(
        document.range_to_client_units(
            ServerTextRange(
                ServerTextPosition(span[0], span[1]), ServerTextPosition(span[2], span[3])
            )
        ),
        message,
        severity=_SEVERITIES[finding["severity"]],
        code=finding["rule"],
        source="nkisim",
    )


def _title(finding: dict[str, Any]) -> str:
    """Return the rule and the new code of a finding: its first line, and the number of others."""
    first, *others = finding["rewrite"]["code"].strip().splitlines()
    more = f" ... and {len(others)} more line{'s' * (len(others) > 1)}" if others else ""
    mark = f" (not tried: {finding['untried']})" if finding["untried"] else ""
    return f"{finding['rule']}: {first}{more}{mark}"


def _fixes(
    uri: str, document: TextDocument, finding: dict[str, Any], shown: types.Diagnostic
) -> Iterator[types.CodeAction]:
    """Yield the fix of a finding, if its code can be pasted without losing a comment."""
    data = document.source.encode()

    def position(byte: int) -> types.Position:
        return document.client_position_at_offset(len(data[:byte].decode()))

    try:
        edits = edits_of(document.source, Rewrite(**finding["rewrite"]))
    except NotPastedError:
        return
    changes = [
        types.TextEdit(types.Range(position(edit.start), position(edit.stop)), edit.text)
        for edit in edits
    ]
    yield types.CodeAction(
        _title(finding),
        types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        is_preferred=finding["tried"],
        edit=types.WorkspaceEdit(changes={uri: changes}),
    )
