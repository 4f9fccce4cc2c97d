"""The server of ``nkisim serve --lsp``: a session by the client of pytest-lsp."""

import asyncio
import sys
from pathlib import Path

import pytest_lsp
from lsprotocol import types

from .harness_serve import BAD, CRASHING, ENVIRONMENT, GOOD, written

SECONDS = 60
UNWRITTEN = GOOD.replace("    nl.store(out, tile)\n", "")


class Editor:
    """A client with the texts of its documents."""

    def __init__(self, client):
        self.client = client
        self.versions = {}

    def open(self, path):
        uri = Path(path).as_uri()
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, Path(path).read_text())
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def type(self, uri, text):
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, uri):
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def findings(self, uri, wanted):
        """The rules shown for a document, once they are those that are wanted."""

        async def shown():
            while (found := self.client.diagnostics.get(uri)) is None or rules(found) != wanted:
                await self.client.wait_for_notification("textDocument/publishDiagnostics")
            return found

        return await asyncio.wait_for(shown(), SECONDS)

    async def lenses(self, uri):
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        found = await self.client.text_document_code_lens_async(params)
        return [(lens.range.start.line, lens.command.title) for lens in found]

    async def hover(self, uri, line, character):
        place = types.TextDocumentIdentifier(uri), types.Position(line, character)
        found = await self.client.text_document_hover_async(types.HoverParams(*place))
        return found and found.contents.value

    async def fixes(self, uri, shown):
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), shown.range, types.CodeActionContext([shown])
        )
        return await self.client.text_document_code_action_async(params)


def rules(diagnostics):
    return sorted(diagnostic.code for diagnostic in diagnostics)


def session(talk):
    """Run a coroutine function with an editor that is connected to a server."""

    async def connected():
        config = pytest_lsp.ClientServerConfig(
            server_command=[sys.executable, "-m", "nkisim", "serve", "--lsp"],
            server_env=ENVIRONMENT,
        )
        client = await config.start()
        try:
            await client.initialize_session(
                types.InitializeParams(
                    capabilities=types.ClientCapabilities(),
                    root_uri=None,
                )
            )
            await asyncio.wait_for(talk(Editor(client)), 4 * SECONDS)
        finally:
            await client.shutdown_session()
            await client.stop()

    asyncio.run(connected())


def edited(text, edits):
    """The text after edits, which are positions in lines of ASCII."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(position):
        return starts[position.line] + position.character

    for edit in sorted(edits, key=lambda edit: at(edit.range.start), reverse=True):
        text = text[: at(edit.range.start)] + edit.new_text + text[at(edit.range.end) :]
    return text


def line_of(text, part):
    return next(i for i, line in enumerate(text.splitlines()) if part in line)


def test_a_session(tmp_path):
    path = written(tmp_path, GOOD)
    row = line_of(GOOD, "tensor_scalar")

    async def talk(editor):
        uri = editor.open(path)
        await editor.findings(uri, [])
        ((line, title),) = await editor.lenses(uri)
        assert line == line_of(GOOD, "def double")
        assert title.endswith("us on gen3, bound by launch")
        declared = await editor.hover(uri, row, 12)
        assert "nisa.tensor_scalar(dst, data, op0, operand0" in declared
        assert await editor.hover(uri, row, 1) is None

        editor.type(uri, BAD)  # shown before it is saved, without a fix that was not tried
        (shown,) = await editor.findings(uri, ["A025"])
        assert shown.range.start.line == row
        assert not await editor.fixes(uri, shown)

        Path(path).write_text(BAD)
        editor.save(uri)
        await editor.lenses(uri)  # waits for the check
        (shown,) = await editor.findings(uri, ["A025"])
        (action,) = await editor.fixes(uri, shown)
        fixed = edited(BAD, action.edit.changes[uri])
        assert fixed == GOOD
        assert action.title == f"A025: {GOOD.splitlines()[row].strip()}"

        editor.type(uri, fixed)
        await editor.findings(uri, [])

        # A finding of a run.
        unwritten = editor.open(written(tmp_path, UNWRITTEN, "unwritten.py"))
        (shown, *_) = await editor.findings(unwritten, ["M006", "W004"])
        assert shown.source == "nkisim"

        # A crash leaves the server running.
        crashing = editor.open(written(tmp_path, CRASHING, "crashing.py"))
        await editor.lenses(crashing)
        bad = editor.open(written(tmp_path, BAD, "bad.py"))
        await editor.findings(bad, ["A025"])

    session(talk)


LATER = """\
import time
from pathlib import Path

here = Path(__file__)
if here.with_suffix(".once").exists():  # in every import but the first
    while not here.with_suffix(".go").exists():
        time.sleep(0.02)
here.with_suffix(".once").touch()
"""


def test_diagnostics_come_before_the_trials(tmp_path):
    path = Path(written(tmp_path, LATER + BAD))

    async def talk(editor):
        uri = editor.open(path)
        (shown,) = await editor.findings(uri, ["A025"])
        asked = asyncio.ensure_future(editor.fixes(uri, shown))
        await asyncio.sleep(0.2)
        assert not asked.done()  # the trial imports the file
        path.with_suffix(".go").touch()
        (action,) = await asked
        assert edited(LATER + BAD, action.edit.changes[uri]) == LATER + GOOD

    session(talk)


def test_a_fix_without_arguments_is_offered_as_not_tried(tmp_path):
    path = written(tmp_path, BAD.replace("x: nt.tensor[128, 512]", "x"))

    async def talk(editor):
        uri = editor.open(path)
        (shown,) = await editor.findings(uri, ["A025"])
        (action,) = await editor.fixes(uri, shown)
        assert action.title.endswith(" (not tried: no arguments)")
        assert not action.is_preferred

    session(talk)
