"""Statements of a loop in groups, each group in a loop of its own or one iteration behind.

The condition follows from names: groups share tiles that each iteration allocates, and what
they only read. Lists keep the tiles that a later group uses.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Found
from nkisim.rewriting import Edit
from nkisim.source import Effect, Effects, Statement


def groups_of(
    found: Found, case: Statement, body: Sequence[ast.stmt], labels: Sequence[str]
) -> Groups | None:
    """Return the groups of successive statements; None if their effects are not certain.

    A statement with a label runs in the first group after what it depends on that has no other
    label. One without, such as an allocation, runs with what it depends on or with its first use.
    """
    effects, known = found.of_block(case, body) or (None, ())
    done = [effect for effect in known if effect is not None]
    if effects is None or len(done) < len(body):
        return None
    numbers: list[int] = []
    of_group: dict[int, str] = {}
    for i, label in enumerate(labels):
        number = max((numbers[j] for j in range(i) if done[j].conflicts(done[i])), default=0)
        while label and of_group.setdefault(number, label) != label:
            number += 1
        numbers.append(number)
    for i in reversed(range(len(body))):
        after = [numbers[j] for j in range(i + 1, len(body)) if done[j].conflicts(done[i])]
        if not labels[i] and numbers[i] == 0 and after:
            numbers[i] = min(after)
    return Groups(found, case, body, numbers, done, effects)


@dataclass(frozen=True)
class Groups:
    """Statements of a block and the group of each.

    Attributes:
        found, case: The program, and a statement of the file.
        statements, numbers: The statements, and the numbers of their groups.
        done, effects: Their effects, and those of their function.
    """

    found: Found
    case: Statement
    statements: Sequence[ast.stmt]
    numbers: Sequence[int]
    done: Sequence[Effect]
    effects: Effects

    def _are_independent(self, loop: ast.For) -> bool:
        """Return whether groups may run in different iterations of ``loop`` at the same time.

        Whatever one group writes and another one accesses must be allocated in each iteration.
        """
        for (i, a), (j, b) in itertools.combinations(enumerate(self.done), 2):
            if self.numbers[i] != self.numbers[j]:
                shared = (a.touched & b.written) | (a.written & b.touched)
                if not all(self.effects.is_new(variable, loop) for variable in shared):
                    return False
                if not all(self.effects.is_inside(n, loop) for n in a.conflicts(b) - shared):
                    return False
        return True

    def _needs(self, group: int) -> tuple[list[int], list[str]] | None:
        """Return the statements that a group runs, and the names that an earlier group binds.

        The group repeats pure statements of earlier groups, such as indices. None if a name has
        several values, or the value of the previous iteration.
        """
        again: set[int] = set()
        kept: set[str] = set()
        own = [i for i, number in enumerate(self.numbers) if number == group]
        waiting = {name for i in own for name in self.done[i].names}
        while waiting:
            name = waiting.pop()
            makers = [i for i, effect in enumerate(self.done) if name in effect.binds]
            if not makers or name in kept:
                continue
            maker = makers[0]
            if len(self.effects.bound_at(name)) > 1:
                return None
            if any(name in effect.names for effect in self.done[:maker]):
                return None
            if self.numbers[maker] == group or maker in again:
                continue
            made = self.effects.value(name)
            if made is None:
                return None
            if self.effects.is_pure(made):
                again.add(maker)
                waiting |= self.done[maker].names
            else:
                kept.add(name)
        return sorted({*own, *again}), sorted(kept)

    def edits(self, loop: ast.For, *, overlapped: bool) -> list[Edit]:
        """Return the edits of a loop; none if it is not certain that results stay the same.

        Args:
            loop: The loop around the statements.
            overlapped: Whether the second of two groups runs one iteration behind the first one;
                otherwise each group gets a loop.
        """
        tree, body, count = self.case.tree, self.statements, max(self.numbers) + 1
        index = self.effects.iteration([loop], loop)
        needs = [need for group in range(count) if (need := self._needs(group)) is not None]
        line = tree.data.find(b"\n", tree.span(loop.iter)[1])
        if index is None or count < 2 or len(needs) < count or not self._are_independent(loop):
            return []
        if overlapped and (count != 2 or index != ast.unparse(loop.target)):
            return []
        lasting = {name: "" for _, names in needs for name in names}
        if any(
            t.placed or (is_psum(t.region) and t.name in lasting) for t in self.found.program.tiles
        ):
            return []
        if loop.orelse or line > tree.span(body[0])[0]:
            return []
        kept = {name: self.found.fresh(f"kept_{name}") for name in lasting}
        texts = tree.texts(line, body)
        newline, outer, inner = tree.newline, tree.indent(loop), tree.indent(body[0])
        start = tree.span(loop)[0]
        head = tree.data[start:line].decode().rstrip("\r")
        parts = []
        for group, (statements, names) in enumerate(needs):
            text = "".join(f"{newline}{inner}{name} = {kept[name]}[{index}]" for name in names)
            text += "".join(texts[i] for i in statements)
            own = [i for i, number in enumerate(self.numbers) if number == group]
            made = {name for i in own for name in self.done[i].binds}
            saved = [name for name in kept if name in made]
            text += "".join(f"{newline}{inner}{kept[name]}.append({name})" for name in saved)
            parts.append(text)
        lists = "".join(f"{name} = []{newline}{outer}" for name in kept.values())
        if overlapped:
            text = self._overlapped(loop, self.found.fresh("step"), parts)
        else:
            text = f"{newline}{outer}".join(head + part for part in parts)
        return [Edit(start, tree.end_of_line(body[-1]), lists + text)]

    def _overlapped(self, loop: ast.For, step: str, parts: Sequence[str]) -> str:
        """Return a loop whose step runs the first group, and the second of the step before."""
        tree, variable = self.case.tree, ast.unparse(loop.target)
        assert isinstance(loop.iter, ast.Call)
        count, inner = loop.iter.args[0], tree.indent(self.statements[0])
        bound = tree.code(count)
        bound = f"({bound})" if isinstance(count, ast.IfExp | ast.BoolOp | ast.Compare) else bound
        deeper = inner + inner.removeprefix(tree.indent(loop))
        lines = [f"for {step} in {tree.code(loop.iter.func)}({bound} + 1):"]
        for condition, value, part in zip(
            (f"{step} < {bound}", f"{step} > 0"), (step, f"{step} - 1"), parts, strict=True
        ):
            lines += [f"{inner}if {condition}:", f"{deeper}{variable} = {value}"]
            rows = part.splitlines()[1:]
            lines += [row.replace(inner, deeper, 1) if row.strip() else row for row in rows]
        return tree.newline.join(lines)
