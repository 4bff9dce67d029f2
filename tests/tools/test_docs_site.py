"""The site of the documentation, without its tools: navigation, links and anchors."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from legato import __version__
from legato.cli._main import make_parser
from tools.docs_entries import as_list
from tools.docs_site import NAV, anchors, links, pages, requests, shown, site_text

ROOT = Path(__file__).parents[2]
PAGES = [page for parts in NAV.values() for _, part in parts for page in pages(part)]
PACKAGES = [
    (page, name)
    for page in pages("docs/api/")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def written() -> Iterator[Path]:
    """All Markdown that the repository has for readers."""
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")


def test_each_page_is_once_in_the_navigation() -> None:
    assert sorted(PAGES) == sorted(written()), "NAV in tools/docs_site.py"


def test_titles_are_different() -> None:
    titles = [title for parts in NAV.values() for title, _ in parts]
    assert len(set(titles)) == len(titles)


# One sitting, of what somebody has written: tables that a tool writes are looked up, not read.
LINES, WORDS = 250, 2200
LONGER = {"CHANGELOG.md": "a list by date"}
_BY_A_TOOL = re.compile(r"^<!-- (?!end)[^>]*-->\n.*?^<!-- end[^>]*-->", re.MULTILINE | re.DOTALL)


def length(text: str) -> tuple[int, int]:
    """Lines and words of what is written by hand."""
    if re.search("^<!-- written by", text, re.MULTILINE):
        return 0, 0
    hand = _BY_A_TOOL.sub("", text)
    return hand.count("\n"), len(hand.split())


def test_pages_are_no_longer_than_one_sitting() -> None:
    lengths = {page: length(page.read_text(encoding="utf-8")) for page in PAGES}
    longer = [page for page, (lines, words) in lengths.items() if lines > LINES or words > WORDS]
    assert sorted(page.relative_to(ROOT).as_posix() for page in longer) == sorted(LONGER)
    assert sum(lines > 0 for lines, _ in lengths.values()) > 60


def test_the_length_of_a_page() -> None:
    table = "<!-- names: written by `make names` -->\n| a |\n<!-- end of names -->\n"
    assert length(f"# A page\n\n{table}Two words.\n") == (4, 5)
    assert length("# A page\n\n<!-- names -->\n| a |\n<!-- end -->\n") == (3, 3)
    assert length("# Settings\n\n<!-- written by `make settings` -->\n\nWords\n") == (0, 0)


def test_the_pages_that_sources_name_exist() -> None:
    """In docstrings and in messages: docs/NAME.md, some with #an-anchor."""
    named = [
        (source, *found)
        for folder in ("src", "tools", "examples")
        for source in (ROOT / folder).rglob("*.py")
        for found in re.findall(r"\b(docs/[\w/]+\.md)(?:#([\w-]+))?", source.read_text(encoding="utf-8"))
    ]
    assert len(named) > 50
    lost = [(source.name, page) for source, page, _ in named if not (ROOT / page).is_file()]
    assert lost == []
    assert [(source.name, a) for source, page, a in named if a and a not in _anchors(ROOT / page)] == []


def test_the_tests_that_pages_name_exist() -> None:
    """`tests/a/test_b.py::test_c, ::test_d` in a line: the file, and the functions within it."""
    named = [(page, found) for page in PAGES for found in named_tests(page.read_text(encoding="utf-8"))]
    assert len(named) > 300
    assert [f"{page.name}: {file} {name}" for page, (file, name) in named if not exists(file, name)] == []


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    """Files under tests that a text names, each with "", and with every name behind it."""
    for line in text.splitlines():
        file = ""
        for m in re.finditer(r"\b(tests/[\w/]+\.\w+)|::(\w+\*?)", line):
            file = m[1] or file
            if file:
                yield file, m[2] or ""


def exists(file: str, name: str) -> bool:
    """Whether there is such a file, and such a word in it; `*` stands for the rest of a word."""
    word = name.replace("*", r"\w*")
    return (ROOT / file).is_file() and re.search(rf"\b{word}\b", (ROOT / file).read_text(encoding="utf-8")) is not None


def test_a_test_that_does_not_exist_is_found() -> None:
    assert list(named_tests("tests/a.py::test_b, ::test_c (x::y)\n::d")) == [
        ("tests/a.py", ""),
        ("tests/a.py", "test_b"),
        ("tests/a.py", "test_c"),
        ("tests/a.py", "y"),
    ]
    here = "tests/tools/test_docs_site.py"
    assert exists(here, "test_a_test_that_does_not_exist")
    assert not exists(here, "test_that_is" + "_elsewhere")
    assert not exists("tests/tools/test_docs_sites.py", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    found = links(page)
    assert [str(to) for to, _ in found if not to.exists() or not to.is_relative_to(ROOT)] == []
    lost = [f"{to.name}#{anchor}" for to, anchor in found if anchor and anchor not in _anchors(to)]
    assert lost == []


def _anchors(page: Path, known: dict[Path, set[str]] = {}) -> set[str]:  # noqa: B006  # a cache
    if page not in known:
        known[page] = anchors(page) if page.suffix == ".md" else set()
    return known[page]


@pytest.mark.parametrize(("page", "name"), PACKAGES, ids=[name for _, name in PACKAGES])
def test_the_pages_of_the_interface_name_what_there_is(page: Path, name: str) -> None:
    if name == "legato.torch":
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    assert module.__doc__
    assert [n for n in module.__all__ if not hasattr(module, n)] == []


def test_the_programs_of_every_page_are_run() -> None:
    """By the tests of pages, each of which names those that it runs."""
    tests = ("test_pages.py", "test_readme.py", "test_tutorials.py")
    named = set(
        re.findall(r'"([\w/]+)"', "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in tests))
    )
    named |= {"README", "migration", "migration_running"}  # tests/test_readme.py, relay/test_migration.py
    named |= {page.stem for page in (ROOT / "docs").glob("language*.md")}  # tests/test_language.py
    programs = {page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")}
    assert len(programs) > 20
    names = {page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/") for page in programs}
    assert sorted(names - named) == []


def commands() -> list[tuple[str, str]]:
    """The command lines of `legato` in the pages."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page.name, re.split(" [|>] ", line)[0]) for line in lines if line.startswith("legato ")]
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_have_verbs_and_flags_that_there_are(page: str, command: str) -> None:
    """argparse ends with status 2 otherwise, and says on standard error what is wrong."""
    words = shlex.split(command, comments=True)[1:]
    with suppress_help():
        make_parser().parse_args(words)


@contextmanager
def suppress_help() -> Iterator[None]:
    """`legato --version` ends, too, with status 0."""
    try:
        yield
    except SystemExit as error:
        if error.code:
            raise


def test_what_is_cited_is_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall("^version: (.*)$", cited, re.MULTILINE) == [__version__]
    assert f"version = {{{__version__}}}" in (ROOT / "docs/citing.md").read_text(encoding="utf-8")


def test_links_on_the_site() -> None:
    text = "[a](running.md#threads) [b](../SECURITY.md) ![c](d.svg) [e](https://f) [g](../examples) `[h](i.md)` [j](#k)"
    assert site_text(ROOT / "docs/cli.md", text) == (
        "[a](running.md#threads) [b](security.md) ![c](d.svg) [e](https://f) g `[h](i.md)` [j](cli.md#k)"
    )
    text = "[`x`](../operators.md)\n```text\n[y](z.md)\n```\n[s](../../setup.py), [i](index.md)"
    assert site_text(ROOT / "docs/ops/conv.md", text) == (
        "[`x`](../operators.md)\n```text\n[y](z.md)\n```\n[s](../sources/setup.py.md), [i](index_.md)"
    )
    assert site_text(ROOT / "README.md", "[a](docs/tour.py) [b](docs/ops/README.md)") == (
        "[a](sources/docs/tour.py.md) [b](ops/README.md)"
    )


def test_headings_get_the_anchors_of_github(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "# A page\n\n## nn.max_pool2d\n## `x=`, [a link](b.md)\n## A page\n```\n# no heading\n```\n## Less – more\n"
    )
    assert anchors(page) == {"a-page", "nnmax_pool2d", "x-a-link", "a-page-1", "less--more"}


def test_a_source_is_shown_whole(tmp_path: Path) -> None:
    text = shown(ROOT / "tools/docs_site.py")
    assert "# tools/docs_site.py\n\n``````python\n" in text
    assert (ROOT / "tools/docs_site.py").read_text(encoding="utf-8").rstrip() in text


def test_requests_are_what_a_browser_fetches_by_itself() -> None:
    assert (
        requests('<a href="https://a.b">x</a><link rel="canonical" href="https://a.b"><script src="x.js"></script>')
        == []
    )
    page = '<script async src="https://a/x.js"></script><link rel="stylesheet" href="//b/c.css"><img alt src=https://d/e.png>'
    assert requests(page) == ["//b/c.css", "https://a/x.js", "https://d/e.png"]
    assert requests("@font-face { src: url('https://f/g.woff2') } @import \"https://h/i.css\";") == [
        "https://f/g.woff2",
        "https://h/i.css",
    ]


def test_entries_of_docstrings_are_lists() -> None:
    text = """What it does.

        x:       the first,
                 on two lines
        y, *rest: the others

        Raises: no entry, for its name begins with a capital.
        """
    assert as_list(text) == (
        "What it does.\n\n\n- `x`: the first,\n  on two lines\n- `y`, `*rest`: the others\n\n"
        "Raises: no entry, for its name begins with a capital."
    )
    assert as_list("One line.") == "One line."
    assert as_list("a: one\nThen text.") == "- `a`: one\n\nThen text."
