"""Regular expressions in RE2's syntax, matched against whole strings in time linear in these.

A pattern comes from a model file, so no search may backtrack. It becomes an automaton of states, several of which hold
at once; the sets that are met are remembered, so that a string costs one look-up for each character.

    Regex.matches("…")        whether the whole string is matched

What RE2 has and this has not: scripts (\\p{Greek}), \\C. What neither has: references and assertions that look around.
Of what a string is made of are characters, as in Python: `.` takes one of them, but no new line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from legato.base.dataclass import dataclass
from legato.ops._regex_classes import (
    CLASSES,
    ESCAPES,
    LOOKS,
    NAMED,
    RegexError,
    Test,
    category,
    either_case,
    negated,
    of_code,
)

__all__ = ["Regex", "RegexError", "compiled"]

MAX_STATES: Final = 5_000
MAX_DEPTH: Final = 100
MAX_COUNT: Final = 1000  # RE2's
_KEPT: Final = 1_000_000  # states in the steps that are remembered
_END: Final = -1

# ---------------------------------------------------------------------------------------------------- automaton


@dataclass(frozen=True, slots=True)
class _Take:
    """Takes a character, goes on at `next`."""

    test: Test
    next: int


@dataclass(frozen=True, slots=True)
class _Fork:
    """Goes on at all these, without a character."""

    next: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Assert:
    """Goes on at `next` if the characters around, "" at an end, are as they should."""

    holds: Callable[[str, str], bool]
    next: int


_State = _Take | _Fork | _Assert


class Regex:
    """A pattern, ready to be matched."""

    def __init__(self, pattern: str) -> None:
        self._states: list[_State] = []
        self._first = _Parser(pattern, self._states).parsed()
        self._looks = any(isinstance(s, _Assert) for s in self._states)
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._size = 0

    def matches(self, text: str) -> bool:
        """Whether the whole of a string is matched."""
        now = frozenset([self._first])
        before = ""
        for c in text:
            now = self._step(now, before, c)
            if not now:
                return False
            before = c if self._looks else ""
        return _END in self._closure(now, before, "")

    def _step(self, states: frozenset[int], before: str, c: str) -> frozenset[int]:
        key = (states, before, c)
        found = self._steps.get(key)
        if found is None:
            reached = (self._states[n] for n in self._closure(states, before, c) if n != _END)
            found = frozenset(s.next for s in reached if isinstance(s, _Take) and s.test(c))
            self._size += len(found) + 1
            if self._size > _KEPT:
                self._steps, self._size = {}, 0
            self._steps[key] = found
        return found

    def _closure(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """What holds without another character."""
        found = set(states)
        todo = list(states)
        while todo:
            n = todo.pop()
            state = self._states[n] if n != _END else None
            reached: tuple[int, ...] = ()
            if isinstance(state, _Fork):
                reached = state.next
            elif isinstance(state, _Assert) and state.holds(before, after):
                reached = (state.next,)
            for m in reached:
                if m not in found:
                    found.add(m)
                    todo.append(m)
        return found


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Regex:
    """The pattern, ready to be matched. RegexError for what is none, or too large."""
    return Regex(pattern)


# ---------------------------------------------------------------------------------------------------- syntax


@dataclass(frozen=True, slots=True)
class _Flags:
    """i: in either case, m: lines, s: `.` takes new lines."""

    i: bool = False
    m: bool = False
    s: bool = False


# What a part of a pattern is: given where it goes on, the state at which it begins. Made from the end.
_Part = Callable[[int], int]


class _Parser:
    """Reads a pattern; its states go into a list."""

    def __init__(self, pattern: str, states: list[_State]) -> None:
        self._text, self._at, self._states = pattern, 0, states
        self._flags = _Flags()
        self._depth = 0

    def parsed(self) -> int:
        """The first state."""
        part = self._either()
        if self._at < len(self._text):
            raise RegexError("a ) without its (")
        return part(_END)

    # ------------------------------------------------------------------ states

    def _add(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise RegexError(f"it has more than {MAX_STATES} states", "write fewer or smaller counts {n,m}")
        self._states.append(state)
        return len(self._states) - 1

    def _taking(self, test: Test) -> _Part:
        return lambda after: self._add(_Take(test, after))

    def _asserting(self, holds: Callable[[str, str], bool]) -> _Part:
        return lambda after: self._add(_Assert(holds, after))

    def _repeated(self, part: _Part, least: int, most: int | None) -> _Part:
        def made(after: int) -> int:
            if most is None:
                loop = self._add(_Fork(()))
                self._states[loop] = _Fork((part(loop), after))
                after = loop
            for _ in range(0 if most is None else most - least):
                after = self._add(_Fork((part(after), after)))
            for _ in range(least):
                before = part(after)
                if before == after:  # nothing is nothing however often it is there
                    break
                after = before
            return after

        return made

    # ------------------------------------------------------------------ tokens

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise RegexError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise RegexError(f"there is no {end} at its end")
        found = self._text[self._at : stop]
        self._at = stop + len(end)
        return found

    # ------------------------------------------------------------------ grammar

    def _either(self) -> _Part:
        flags = self._flags
        parts = [self._sequence()]
        while self._skip("|"):
            parts.append(self._sequence())
        self._flags = flags
        if len(parts) == 1:
            return parts[0]
        return lambda after: self._add(_Fork(tuple([part(after) for part in parts])))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            if self._skip("\\Q"):
                quoted = self._quoted()
                parts += [self._literal(c) for c in quoted[:-1]]
                if not quoted:
                    continue
                part: _Part | None = self._literal(quoted[-1])
            else:
                part = self._atom()
            if part is not None:
                parts.append(self._counted(part))

        def made(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return made

    def _quoted(self) -> str:
        stop = self._text.find("\\E", self._at)
        found = self._text[self._at : stop if stop >= 0 else None]
        self._at = stop + 2 if stop >= 0 else len(self._text)
        return found

    def _counted(self, part: _Part) -> _Part:
        """A part with what says how often it is there; one such, as in RE2."""
        start = self._at
        bounds = self._bounds()
        if bounds is None:
            return part
        self._skip("?")  # as few as possible: the whole string is matched or not, whichever
        here = self._at
        if self._bounds() is not None:
            raise RegexError(f"{self._text[start : self._at]!r} repeats what is repeated", "write (?:…) around it")
        self._at = here
        return self._repeated(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        start = self._at
        if not self._skip("{"):
            return None
        least = self._count()
        most = self._count() if least is not None and self._skip(",") else least
        if least is None or not self._skip("}"):
            self._at = start  # a brace that is one
            return None
        if self._text[self._at - 2] == ",":
            most = None
        if max(least, most or 0) > MAX_COUNT or (most is not None and most < least):
            raise RegexError(
                f"{self._text[start : self._at]} is no count", f"at most {MAX_COUNT}, the smaller one first"
            )
        return least, most

    def _count(self) -> int | None:
        start = self._at
        while self._peek() in tuple("0123456789"):
            self._at += 1
        digits = self._text[start : self._at]
        return int(digits[:9]) if digits else None

    def _atom(self) -> _Part | None:
        c = self._next()
        match c:
            case "(":
                return self._group()
            case "[":
                return self._taking(self._set())
            case ".":
                return self._taking((lambda c: True) if self._flags.s else (lambda c: c != "\n"))
            case "^":
                lines = self._flags.m
                return self._asserting(lambda before, _: not before or (lines and before == "\n"))
            case "$":
                lines = self._flags.m
                return self._asserting(lambda _, after: not after or (lines and after == "\n"))
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise RegexError(f"there is nothing that {c} repeats")
            case _:
                if c == "{" and self._is_count():
                    raise RegexError("there is nothing that a count repeats")
                return self._literal(c)

    def _is_count(self) -> bool:
        here = self._at
        self._at -= 1
        found = self._bounds() is not None
        self._at = here
        return found

    def _literal(self, c: str) -> _Part:
        return self._taking(self._cased(lambda x: x == c))

    def _cased(self, test: Test) -> Test:
        return either_case(test) if self._flags.i else test

    def _group(self) -> _Part | None:
        flags = self._flags
        if self._skip("?P<") or (self._peek(2) == "?<" and self._peek(3) not in ("?<=", "?<!") and self._skip("?<")):
            name = self._until(">")
            if not name.isidentifier():
                raise RegexError(f"{name!r:.40} is no name of a group")
        elif self._skip("?") and self._set_flags():
            return None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RegexError(f"groups nest more than {MAX_DEPTH} deep")
        part = self._either()
        self._depth -= 1
        if not self._skip(")"):
            raise RegexError("a ( without its )")
        self._flags = flags
        return part

    def _set_flags(self) -> bool:
        """Reads `i-s:` or `i)`; whether it stands alone."""
        on, found = True, {"i": self._flags.i, "m": self._flags.m, "s": self._flags.s}
        while (c := self._next()) not in ":)":
            if c == "-" and on:
                on = False
            elif c in found:
                found[c] = on
            elif c != "U":  # which of the repetitions are greedy
                raise RegexError(f"(?{c} is nothing that RE2 has", "there is no looking around, and no back reference")
        self._flags = _Flags(**found)
        return c == ")"

    # ------------------------------------------------------------------ escapes and sets

    def _escape(self) -> _Part:
        c = self._peek()
        if c in ("A", "z", "b", "B"):
            self._at += 1
            return self._asserting(LOOKS[c])
        if c == "C":
            raise RegexError("\\C takes one byte", "strings are made of characters here")
        test = self._class()
        return self._taking(test) if test is not None else self._literal(self._character())

    def _class(self) -> Test | None:
        """The class of characters that a letter behind \\ stands for, if it does."""
        c = self._peek()
        if c in CLASSES:
            self._at += 1
            return self._cased(CLASSES[c])
        if c not in ("p", "P"):
            return None
        self._at += 1
        name = self._until("}") if self._skip("{") else self._next()
        is_other = (c == "P") != name.startswith("^")
        test = self._cased(category(name.removeprefix("^")))
        return negated(test) if is_other else test

    def _character(self) -> str:
        """The character that stands behind \\."""
        c = self._next()
        if c in ESCAPES:
            return ESCAPES[c]
        if c == "x":
            digits = self._until("}") if self._skip("{") else self._next() + self._next()
            return of_code(digits, 16)
        if c == "0" or (c in "1234567" and self._peek() in tuple("01234567")):
            digits = c
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._next()
            return of_code(digits, 8)
        if c.isascii() and c.isalnum():
            raise RegexError(f"\\{c} is nothing that RE2 has", "there is no back reference")
        return c

    def _set(self) -> Test:
        is_other = self._skip("^")
        tests: list[Test] = []
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            tests.append(self._member())
        self._at += 1
        test = self._cased(lambda c: any(t(c) for t in tests))
        return negated(test) if is_other else test

    def _member(self) -> Test:
        if self._skip("[:"):
            is_other, name = self._skip("^"), self._until(":]")
            if name not in NAMED:
                raise RegexError(f"[:{name:.20}:] is no class")
            return negated(NAMED[name]) if is_other else NAMED[name]
        if self._skip("\\"):
            test = self._class()
            if test is not None:
                return test
            first = self._character()
        else:
            first = self._next()
        if self._peek() != "-" or self._peek(2) in ("-", "-]"):
            return lambda c: c == first
        self._at += 1
        last = self._character() if self._skip("\\") else self._next()
        if last < first:
            raise RegexError(f"{first}-{last} is an empty range")
        return lambda c: first <= c <= last
