"""The site of the documentation: which pages it has, in which order, and how they link to each other.

`make site` calls mkdocs, which calls the functions `on_…` below (mkdocs.yml names this file). Pages are Markdown as
GitHub shows it, so that they can be read in the repository as well. On the site

- the pages beside docs/ (README, CHANGELOG, …) are pages like the others;
- a link to a source file leads to a page that shows the file;
- a link to a folder is text.

    python -m tools.docs_site FOLDER    says what the built pages ask of other machines: nothing, or exit code 1
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["NAV", "anchors", "links", "main", "pages", "requests"]

ROOT: Final = Path(__file__).parents[1]

# Title and page; a folder stands for all of its pages. Pages are named from the root of the repository.
NAV: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "Start": (
        ("Overview", "README.md"),
        ("Tutorial", "docs/tutorial.md"),
        ("The first day, measured", "docs/first_day.md"),
    ),
    "How-to": (
        ("Deploying", "docs/deploying.md"),
        ("Threads", "docs/howto/threads.md"),
        ("Instruction sets of a fleet", "docs/howto/fleet.md"),
        ("Serving", "docs/howto/serving.md"),
        ("Many inputs", "docs/howto/batch.md"),
        ("More than one machine", "docs/scaling.md"),
        ("Modules of PyTorch", "docs/pytorch.md"),
        ("torch.compile", "docs/pytorch_backend.md"),
        ("PyTorch: limits and differences", "docs/pytorch_limits.md"),
        ("Training", "docs/training.md"),
        ("Seeing programs", "docs/seeing.md"),
        ("Operators of one's own", "docs/operators.md"),
        ("Rewrite rules", "docs/patterns.md"),
        ("Code generators of others", "docs/generators.md"),
        ("Coming from Relay", "docs/migration.md"),
        ("Relay's executors and tvmc", "docs/migration_running.md"),
        ("Coming from Relax", "docs/from_tvm_relax.md"),
    ),
    "Language": (
        ("The language", "docs/language.md"),
        ("Dims in types", "docs/language_dims.md"),
        ("Let, graphs and order", "docs/language_order.md"),
        ("Functions and recursion", "docs/language_functions.md"),
        ("Data types and references", "docs/language_data.md"),
        ("Modules", "docs/language_modules.md"),
        ("Scripts of both levels", "docs/relax.md"),
        ("Tensor programs", "docs/tensor_programs.md"),
        ("Packed functions", "docs/packed.md"),
        ("Relax in Python", "docs/relax_python.md"),
        ("Models of layers", "docs/relax_nn.md"),
    ),
    "Understand": (
        ("Calls", "docs/running.md"),
        ("Sizes", "docs/shapes.md"),
        ("Precision", "docs/precision.md"),
        ("bfloat16 and less", "docs/precision_narrow.md"),
        ("Passes", "docs/passes.md"),
        ("What each pass is worth", "docs/passes_ablation.md"),
        ("Partial evaluation", "docs/partial_evaluation.md"),
        ("Gradients", "docs/gradients.md"),
        ("Layouts", "docs/layouts.md"),
        ("Devices", "docs/devices.md"),
        ("Compile time", "docs/compile_time.md"),
        ("Models measured", "docs/zoo.md"),
        ("The Relay paper's figures", "docs/paper.md"),
        ("Without AVX-512", "docs/avx2.md"),
        ("Architecture", "docs/architecture.md"),
    ),
    "Reference": (
        ("Command line", "docs/cli.md"),
        ("Comparing and measuring", "docs/cli_measure.md"),
        ("Settings", "docs/settings.md"),
        ("Errors", "docs/errors.md"),
        ("Relay's names", "docs/migration_names.md"),
        ("Python", "docs/api/"),
        ("Operators", "docs/ops/"),
        ("ONNX", "docs/onnx.md"),
        ("Other than ONNX Runtime", "docs/onnx_differences.md"),
    ),
    "Project": (
        ("Changes", "CHANGELOG.md"),
        ("Versions", "docs/versions.md"),
        ("Reliability", "docs/reliability.md"),
        ("What the tests found", "docs/reliability_found.md"),
        ("Faults of programs and dims", "docs/faults_programs.md"),
        ("Faults of models and numbers", "docs/faults_models.md"),
        ("Faults of running", "docs/faults_running.md"),
        ("Security", "SECURITY.md"),
        ("Contributing", "CONTRIBUTING.md"),
        ("Citing", "docs/citing.md"),
    ),
}
# Code is matched so that what looks like a link within it is none.
_LINK: Final = re.compile(
    r"^(?P<fence>```+).*?^(?P=fence)|(?P<ticks>`+)(?:(?!`).)+?(?P=ticks)(?!`)|(?<!!)\[(?P<label>(?:[^\[\]`]|`[^`]*`)*)\]"
    r"\((?P<to>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(r"^```.*?^```|^#{1,6} +(?P<title>.+?) *#*$", re.MULTILINE | re.DOTALL)
_ELSEWHERE: Final = re.compile(r"[a-z]+:")
# What a browser fetches by itself: not links that a reader follows.
_FETCHED: Final = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|next|prev)\b)[^>]*?\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|(?:url\(|@import )[\"']?((?:https?:)?//[^\"')\s]+)",
    re.IGNORECASE,
)
_LANGUAGES: Final = {".py": "python", ".c": "c", ".h": "c", ".toml": "toml", ".relay": "text"}


# ------------------------------------------------------------------------------- pages


def pages(part: str) -> list[Path]:
    """The pages that an entry of the table stands for: itself, or all of a folder: its README, those that this links to
    in their order, and the others."""
    if not part.endswith("/"):
        return [ROOT / part]
    first = ROOT / part / "README.md"
    order = [first, *(target for target, _ in links(first) if target.parent == first.parent)]
    return list(dict.fromkeys([*order, *sorted(first.parent.glob("*.md"))]))


def _all_pages() -> Iterator[Path]:
    return (page for parts in NAV.values() for _, part in parts for page in pages(part))


def _place(path: Path) -> str:
    """Where a file of the repository is on the site, as a source of mkdocs: pages of docs keep their places."""
    if path.is_relative_to(ROOT / "docs") and path.suffix == ".md":
        kept = path.relative_to(ROOT / "docs")
        return (
            kept.with_name("index_.md") if path.name == "index.md" else kept
        ).as_posix()  # README is a folder's index
    if path == ROOT / "README.md":
        return "index.md"
    if path in _roots():
        return f"{path.stem.lower()}.md"
    return f"sources/{path.relative_to(ROOT).as_posix()}.md"


@cache
def _roots() -> frozenset[Path]:
    """The pages beside docs."""
    return frozenset(page for page in _all_pages() if page.parent == ROOT)


def _nav() -> list[dict[str, Any]]:
    """The table as mkdocs has it."""
    return [{group: [{title: _entry(part)} for title, part in parts]} for group, parts in NAV.items()]


def _entry(part: str) -> str | list[str]:
    found = [_place(page) for page in pages(part)]
    return found if part.endswith("/") else found[0]


# ------------------------------------------------------------------------------- links


def links(path: Path) -> list[tuple[Path, str]]:
    """What a page links to within the repository, each a file or folder and an anchor ("": none)."""
    found = (m["to"] for m in _LINK.finditer(path.read_text(encoding="utf-8")) if m["to"])
    return [_target(path, to) for to in found if not _ELSEWHERE.match(to)]


def _target(path: Path, to: str) -> tuple[Path, str]:
    file, _, anchor = to.partition("#")
    return (Path(os.path.normpath(path.parent / file)) if file else path), anchor


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site name them."""
    found: set[str] = set()
    for m in _HEADING.finditer(path.read_text(encoding="utf-8")):
        if m["title"]:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", m["title"])
            slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
            found.add(next(s for n in range(1000) if (s := f"{slug}-{n}" if n else slug) not in found))
    return found


def site_text(path: Path, text: str) -> str:
    """The text of a page with its links as they are on the site."""
    here = Path(_place(path)).parent

    def moved(m: re.Match[str]) -> str:
        if not m["to"] or _ELSEWHERE.match(m["to"]):
            return m[0]
        target, anchor = _target(path, m["to"])
        if target.is_dir():
            return m["label"]
        to = os.path.relpath(_place(target), here)
        return f"[{m['label']}]({to}{anchor and f'#{anchor}'})"

    return _LINK.sub(moved, text)


def shown(path: Path) -> str:
    """The page that shows a source file."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    ticks = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
    language = _LANGUAGES.get(path.suffix, "text")
    head = "---\nsearch:\n  exclude: true\n---\n"  # by names in a text, not by texts of programs
    return f"{head}# {name}\n\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


# ------------------------------------------------------------------------------- called by mkdocs


def on_config(config: Any) -> Any:
    """Gives the navigation."""
    from mkdocs.exceptions import ConfigurationError

    if missing := [str(page) for page in _all_pages() if not page.is_file()]:
        raise ConfigurationError(f"NAV of tools/docs_site.py names pages that are not there: {', '.join(missing)}")
    config.nav = _nav()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are elsewhere than the site has them, and one for each source file that a page links to."""
    from mkdocs.structure.files import File

    every = list(_all_pages())
    moved = {p: p.read_text(encoding="utf-8") for p in every if ROOT / "docs" / _place(p) != p}
    linked = {target for page in every for target, _ in links(page) if target.is_file() and target.suffix != ".md"}
    for path, text in {**moved, **{p: shown(p) for p in sorted(linked)}}.items():
        files.append(File.generated(config, _place(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Moves the links of a page."""
    path = {_place(p): p for p in _all_pages()}.get(page.file.src_uri)
    return markdown if path is None else site_text(path, markdown)


# ------------------------------------------------------------------------------- what was built


def requests(text: str) -> list[str]:
    """The addresses of other machines that a browser asks by itself when it shows a page or a style sheet."""
    return sorted({next(filter(None, found)) for found in _FETCHED.findall(text)})


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what the pages in a folder ask of other machines."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs_site", description=__doc__)
    parser.add_argument("folder", type=Path, help="the built site")
    built = [p for p in parser.parse_args(argv).folder.rglob("*") if p.suffix in (".html", ".css")]
    asking = {p: found for p in built if (found := requests(p.read_text(encoding="utf-8")))}
    for path, addresses in asking.items():
        print(f"{path}: {', '.join(addresses)}")
    print(f"{len(built)} pages and style sheets; {len(asking)} ask other machines")
    return int(not built or bool(asking))


if __name__ == "__main__":
    sys.exit(main())
