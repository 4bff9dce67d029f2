"""What the tests of an area say of faults in its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

from legato.base.dataclass import dataclass
from tools.faults.rules import Fault
from tools.faults.suite import Suite

__all__ = ["Judge", "Try"]


@dataclass(frozen=True, slots=True)
class Try:
    """A fault in a file of an area (a path from the root), and what its tests said: killed or survived."""

    area: str
    file: str
    fault: Fault
    edit: str
    verdict: str = ""
    test: str = ""  # the first that sees it

    def __str__(self) -> str:
        seen = f"  [{self.test}]" if self.test else ""
        return f"{self.verdict:9s}{self.file}:{self.fault.line}: {self.fault.rule}: {self.edit}{seen}"


@dataclass(frozen=True, slots=True)
class Judge:
    """Each fault alone meets the tests that are likely to see it. Those that are left are then in the sources
    together, and all tests of the area run: where one fails, it says of which of them. What survives is seen by no
    test of the area, unless others hide it; a test that fails without any fault, or with no single one, says nothing.
    """

    suite: Suite
    say: Callable[[Try], None]  # what to do with each verdict, as soon as it is known
    silent: dict[str, bool] = field(default_factory=dict)  # tests that failed: whether they say nothing

    def verdicts(self, faults: Sequence[Try]) -> list[Try]:
        """The faults with their verdicts, in order."""
        done = [self._alone(one) for one in faults]
        for group in _apart([one for one in done if not one.verdict]):
            told = {(one.file, one.fault): one for one in self._together(group)}
            done = [told.get((one.file, one.fault), one) for one in done]
        return done

    def _alone(self, one: Try) -> Try:
        """The fault with the verdict of the tests near it; as it is if they all pass."""
        near = self.suite.near(one.file)
        while near and (test := self._first([one], near)):
            if self._speaks(test):
                return self._told(one, test)
        return one

    def _together(self, group: list[Try]) -> Iterator[Try]:
        """The faults with the verdicts of all tests."""
        files = self.suite.files
        while group and (test := self._first(group, files)):
            seen = [one for one in group if self._sees(test, one)] if self._speaks(test) else []
            yield from (self._told(one, test) for one in seen)
            self.silent[test] = not seen
            group = [one for one in group if one not in seen]
            files = files[files.index(test.partition("::")[0]) :]
        yield from (self._told(one) for one in group)

    def _told(self, one: Try, test: str = "") -> Try:
        known = replace(one, verdict="killed" if test else "survived", test=test)
        self.say(known)
        return known

    def _first(self, faults: Sequence[Try], files: Sequence[str]) -> str:
        with self.suite.tree.having((one.file, one.fault) for one in faults):
            return self.suite.first(files, [test for test, is_silent in self.silent.items() if is_silent])

    def _sees(self, test: str, one: Try) -> bool:
        with self.suite.tree.having([(one.file, one.fault)]):
            return not self.suite.passes(test)

    def _speaks(self, test: str) -> bool:
        if test not in self.silent:
            self.silent[test] = not self.suite.passes(test)
        return not self.silent[test]


def _apart(faults: Sequence[Try]) -> list[list[Try]]:
    """The faults in groups, within which no two change the same characters."""
    groups: list[list[Try]] = []
    for one in faults:
        fits = (g for g in groups if not any(o.file == one.file and o.fault.meets(one.fault) for o in g))
        group = next(fits, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups
