"""Pages as the tests see them: their code blocks, links and headings."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("api", "benchmarks", "instructions", "rules")
SITE_ONLY = ("api", "benchmarks", "instructions")

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FILE_COMMENT = re.compile(r"# (\w+\.py)\n")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


def written_pages() -> list[Path]:
    """README.md and every page of docs/ that is not generated."""
    pages = DOCS.rglob("*.md")
    return [
        ROOT / "README.md",
        *sorted(p for p in pages if p.relative_to(DOCS).parts[0] not in GENERATED),
    ]


@dataclass
class Block:
    """One fenced block.

    Attributes:
        info: Words behind the opening fence.
        text: What is inside.
        line: Line of the page on which the text begins.
        output: Text of the ``text`` or ``json`` block that follows directly, else empty.
        not_run: Reason of the comment ``<!-- not run: REASON -->`` directly above, else empty.
    """

    info: list[str]
    text: str
    line: int
    output: str = ""
    not_run: str = ""

    @property
    def runs(self) -> bool:
        return self.info[:1] == ["python"] and "no-run" not in self.info

    @property
    def is_shell(self) -> bool:
        return self.info[:1] == ["sh"]

    def prints(self, text: str) -> bool:
        """Whether ``text`` is the output shown, but for spaces at the ends of lines."""
        return _trimmed(text) == _trimmed(self.output)


@dataclass
class Page:
    """A Markdown file.

    Attributes:
        blocks: Its fenced blocks in order.
        prose: The lines outside of them.
    """

    path: Path
    blocks: list[Block] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Page:
        page = cls(path)
        opened: Block | None = None
        last: Block | None = None  # the block that only blank lines separate from this line
        not_run = ""  # likewise the comment
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if opened is not None:
                if line != "```":
                    opened.text += line + "\n"
                    continue
                if last is not None and opened.info[:1] in (["text"], ["json"]):
                    last.output = opened.text
                last = opened if opened.runs or opened.is_shell else None
                opened = None
            elif line.startswith("```"):
                opened = Block(line[3:].split(), "", number + 1, not_run=not_run)
                page.blocks.append(opened)
                not_run = ""
            else:
                page.prose.append(line)
                if line != "":
                    comment = _NOT_RUN.fullmatch(line)
                    not_run = comment[1] if comment else ""
                    last = None
        assert opened is None, f"{path}: the block at line {opened and opened.line} is never closed"
        return page

    @property
    def links(self) -> list[str]:
        """Targets of all links that stay on the site."""
        found = _LINK.findall(re.sub(r"`[^`]*`", "", "\n".join(self.prose)))
        return [target for target in found if not re.match(r"[a-z]+:", target)]

    @property
    def anchors(self) -> set[str]:
        """What can stand behind a # in a link to the page."""
        titles = [line.lstrip("#").strip() for line in self.prose if re.match(r"#+ ", line)]
        return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}

    def run(self) -> None:
        """Run the python blocks as one file, and compare what each prints with what is shown.

        The file is called what the comment on its first line says, else like the page. Findings
        name it, so it must be in linecache before anything runs.
        """
        blocks = [block for block in self.blocks if block.runs]
        if not blocks:
            return
        named = _FILE_COMMENT.match(blocks[0].text)
        name = named[1] if named else f"{self.path.stem.replace('-', '_')}.py"
        file = "\n".join(block.text for block in blocks)
        module = ModuleType(name.removesuffix(".py"))
        linecache.cache[name] = (len(file), None, file.splitlines(keepends=True), name)
        try:
            before = 0
            for block in blocks:
                code = compile("\n" * before + block.text, name, "exec")
                before += block.text.count("\n") + 1
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(code, module.__dict__)
                where = f"{self.path.name}, line {block.line}"
                assert block.prints(printed.getvalue()), where
        finally:
            del linecache.cache[name]


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]
