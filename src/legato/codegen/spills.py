"""Looks at assembly: the instructions of innermost loops, and their references to the stack.

A register tile that does not fit the registers is spilled without a word and halves the speed of a kernel, so the
number of stack references in its inner loop is worth a test.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass

__all__ = ["InnerLoop", "innermost_loops"]


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop without loops inside: its label and instructions (mnemonic and operands)."""

    label: str
    instructions: tuple[str, ...]

    @property
    def stack_references(self) -> int:
        """Instructions that touch the stack frame. There is no frame pointer: rbp is a register like any other."""
        return sum("(%rsp" in i for i in self.instructions)

    def count(self, prefix: str) -> int:
        """Instructions whose mnemonic begins with `prefix`."""
        return sum(i.startswith(prefix) for i in self.instructions)


def innermost_loops(assembly: str) -> tuple[InnerLoop, ...]:
    """The innermost loops of AT&T assembly text, in order: from a label to a later jump back to it."""
    labels: dict[str, int] = {}
    instructions: list[str] = []
    spans: list[tuple[int, int, str]] = []
    for line in assembly.splitlines():
        text = line.strip()
        if text.endswith(":"):
            labels[text[:-1]] = len(instructions)
        elif text and not text.startswith((".", "#")):
            mnemonic, _, operands = text.partition("\t")
            instructions.append(f"{mnemonic} {operands}")
            if mnemonic.startswith("j") and operands in labels:
                spans.append((labels[operands], len(instructions), operands))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return tuple(InnerLoop(label, tuple(instructions[start:end])) for start, end, label in inner)
