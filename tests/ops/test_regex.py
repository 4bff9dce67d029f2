"""Regular expressions: as Python's on what both have, in linear time, and nothing else."""

from __future__ import annotations

import random
import re

import pytest

from legato.ops._regex import RegexError, compiled

_ATOMS = (".", "[ab]", "[^a]", r"\w", r"\d", "[a-c]", r"\b", "^", "$", r"\W", r"\s")


def _pattern(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(9) if depth else rng.randrange(3)
    if kind < 2:
        return rng.choice("abc")
    if kind == 2:
        return rng.choice(_ATOMS)
    a = _pattern(rng, depth - 1)
    b = _pattern(rng, depth - 1)
    return (f"{a}{b}", f"(?:{a}|{b})", f"(?:{a})*", f"({a})+?", f"(?:{a}){{1,2}}", f"(?i:{a})?")[kind - 3]


def test_as_python_has_it() -> None:
    rng = random.Random(1)
    matched = 0
    for _ in range(1000):
        pattern = _pattern(rng, 4)
        python = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
        for _ in range(6):
            text = "".join(rng.choice("abcA \n1") for _ in range(rng.randrange(6)))
            wanted = python.fullmatch(text) is not None
            assert compiled(pattern).matches(text) == wanted, (pattern, text)
            matched += wanted
    assert matched > 500


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a*)*(a*)*b", "(a|a)*b", "(a?){100}b"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    """Each of these takes a search that goes back longer than there is time."""
    assert not compiled(pattern).matches("a" * 20_000)
    assert compiled(pattern).matches("a" * 50 + "b")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"www\.[\w.-]+\.\bcom\b", ["www.google.com"], ["www.bbc.co.uk", "www.com"]),
        (r"\Qa.b\E+", ["a.b", "a.bbb"], ["axb"]),
        (r"\Q\Ea", ["a"], [""]),
        ("[]a]+", ["]a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[^]a]", ["b"], ["]"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("x{", ["x{"], ["x"]),
        (r"\pL+\p{^Lu}\PN", ["éab"], ["é1"]),
        ("[[:alpha:]-]+", ["a-b"], ["a1"]),
        ("[[:^digit:]]", ["a"], ["1"]),
        (r"(?P<x>\d{3})-\z", ["123-"], ["12-"]),
        (r"(?<y>a)", ["a"], ["b"]),
        ("(?i)aé(?-i)b", ["AÉb"], ["aéB"]),
        ("(?s).", ["\n"], [""]),
        (".", ["é", "😀"], ["\n"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"\x41\x{1F600}\101\n", ["A😀A\n"], ["A"]),
        ("a||b", ["", "a", "b"], ["ab"]),
        ("", [""], ["a"]),
        (r"\d", ["1"], ["٣"]),
        (r"(?i)[A-Z]\p{Lu}", ["aé"], ["ß", "ßa", "aß"]),
        ("(?:(?:(?:a{0}){1000}){1000}){1000}", [""], ["a"]),
    ],
)
def test_what_re2_has(pattern: str, matching: list[str], others: list[str]) -> None:
    assert all(map(compiled(pattern).matches, matching))
    assert not any(map(compiled(pattern).matches, others))


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "*a", "a**", "{2}", "[", "[b-a]", "a{2,1}", "a{1001}", r"\1", "(?=a)", "(?<=a)", "(?!a)", r"\p{Greek}",
     r"\C", "(?P<1>a)", r"\q", "a{3}{2}", "(" * 300, "(?:x{1000}){1000}", r"\x{110000}", r"\x{1_0}", r"\x+1",
     "[[:nothing:]]", "(?P>a)"],
)  # fmt: skip
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compiled(pattern)
