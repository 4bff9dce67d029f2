"""Every hint that the sources write, and the cases that try hints (`tried/`).

A hint is what is given as `hint=…`, assigned to a name that is given so, given back by a function that is called there,
or stands behind "hint:" in a text. Parts that are only known when it is made are `{}`. Hints of one text are one: they
tell the user to do one thing.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import legato

SOURCE = Path(legato.__file__).parent
TRIED = Path(__file__).with_name("tried")
_IMPORTS: Final = "import numpy as np\nfrom legato import relay\nfrom legato.relay import Tensor, relay_model\n"
_KERNEL: Final = """@T.prim_func
def k(x: T.handle, w: T.handle, Y: T.Buffer(("n",), "float32")):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n,), "float32")
    W = T.match_buffer(w, (n, m), "float32")
"""
_NUMBERS: Final = count()
_PAGE = re.compile(r"docs/\w+\.md")  # pages are divided and renamed
_MARK = re.compile(r"(?:^|\s)hint: (.+)", re.DOTALL)


@cache
def hints() -> dict[str, tuple[str, ...]]:
    """The places of each hint, by its text."""
    sources = _Sources()
    found: dict[str, list[str]] = defaultdict(list)
    for file, tree in sources.trees.items():
        for line, written in _of(tree, file, sources):
            text = _PAGE.sub("{}", written)
            place = f"{file}:{line}"
            if text.replace("{}", "").strip() and place not in found[text]:
                found[text].append(place)
    return {text: tuple(places) for text, places in found.items()}


def _of(tree: ast.AST, file: str, sources: _Sources) -> Iterator[tuple[int, str]]:
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    nodes = list(ast.walk(tree))
    are_listed = any(isinstance(node, ast.comprehension) and _has_hint(node.target) for node in nodes)
    for node in nodes:
        if id(node) in parts:
            continue
        if are_listed and isinstance(node, ast.Return | ast.Yield) and isinstance(node.value, ast.Tuple):
            yield from ((node.lineno, text) for text in sources.texts(node.value.elts[-1], file))
        if isinstance(node, ast.keyword) and node.arg == "hint":
            yield from ((node.value.lineno, text) for text in sources.texts(node.value, file))
        elif isinstance(node, ast.Call) and (given := sources.passed(node)) is not None:
            yield from ((given.lineno, text) for text in sources.texts(given, file))
        elif isinstance(node, ast.JoinedStr | ast.Constant) and (marked := _MARK.search(_written(node))):
            last = node.values[-1] if isinstance(node, ast.JoinedStr) else node
            if marked[1] == "{}" and isinstance(last, ast.FormattedValue):  # "hint: {hint}"
                yield from ((node.lineno, text) for text in sources.texts(last.value, file))
            yield node.lineno, marked[1]


def _has_hint(target: ast.expr) -> bool:
    """Whether `… for node, message, hint in …` takes hints out of a list."""
    return isinstance(target, ast.Tuple) and any(isinstance(e, ast.Name) and e.id == "hint" for e in target.elts)


def _written(node: ast.expr) -> str:
    """The text of a literal, with {} for its fields."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class _Sources:
    """The syntax trees of all files; what the names in them are given, and what their functions give back."""

    def __init__(self) -> None:
        self.trees: dict[str, ast.Module] = {}
        self._given: dict[tuple[object, str], list[tuple[str, ast.expr]]] = defaultdict(list)  # by file or function
        self._anywhere: dict[str, list[tuple[str, ast.expr]]] = defaultdict(list)
        self._function: dict[ast.AST, ast.FunctionDef] = {}  # the innermost that a node stands in
        self._takers: dict[str, set[int]] = defaultdict(set)
        for path in sorted(SOURCE.rglob("*.py")):
            text, file = path.read_text(encoding="utf-8"), str(path.relative_to(SOURCE))
            if re.search(r"hint|INSTEAD|DEFAULT_PASSES|WRAP|frame\.(wrong|unsupported)\(", text):
                self.trees[file] = ast.parse(text)
                self._read(self.trees[file], file)

    def _read(self, tree: ast.Module, file: str) -> None:
        waiting: list[tuple[ast.AST, ast.FunctionDef | None]] = [(tree, None)]
        while waiting:
            node, inside = waiting.pop()
            if inside is not None:
                self._function[node] = inside
            if isinstance(node, ast.FunctionDef):
                inside = node
                self._note_taker(node)
            waiting += ((inner, inside) for inner in ast.iter_child_nodes(node))
            for name, value in _bindings(node):
                self._given[inside or file, name].append((file, value))
                if inside is None:
                    self._anywhere[name].append((file, value))
            if isinstance(node, ast.Return) and node.value is not None and inside is not None:
                self._given[file, f"{inside.name}()"].append((file, node.value))
                self._anywhere[f"{inside.name}()"].append((file, node.value))

    def _note_taker(self, function: ast.FunctionDef) -> None:
        names = [a.arg for a in function.args.args]
        if "hint" in names and _passes_on(function):
            self._takers[function.name].add(names.index("hint") - (names[0] == "self"))

    def texts(self, node: ast.expr, file: str, depth: int = 6) -> set[str]:
        """What an expression may be, as texts; none where that is what another error had."""
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                return {_written(node)}
            case ast.IfExp(body=a, orelse=b):
                return self.texts(a, file, depth) | self.texts(b, file, depth)
            case ast.BoolOp(values=values) | ast.Dict(values=values):
                return set().union(*(self.texts(v, file, depth) for v in values))
            case ast.BinOp(left=a, op=ast.Add(), right=b):
                ends = [self.texts(e, file, 0) or {"{}"} for e in (a, b)]
                return {re.sub(r"(\{\})+", "{}", x + y) for x in ends[0] for y in ends[1]}
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=elt), *_]):
                return self.texts(elt, file, depth)
            case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[_, value]):
                return self.texts(value, file, depth)
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value, attr="get")):
                return self.texts(value, file, depth)
            case ast.Attribute(attr=name) if name != "hint":
                return self._named(node, name, file, depth, anywhere=False)
            case ast.Name(id=name):
                return self._named(node, name, file, depth, anywhere=name.isupper())
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                name = f"{name}()"
                return self._named(node, name, file, depth, anywhere=len(self._anywhere[name]) < 4)
        return set()

    def passed(self, call: ast.Call) -> ast.expr | None:
        """What a call passes by its place to a function whose parameter there is called `hint`."""
        match call.func:
            case ast.Attribute(value=ast.Name(id="source"), attr="unsupported") if len(call.args) < 3:
                return None  # a node and a message
            case ast.Name(id=name) | ast.Attribute(attr=name):
                places = [n for n in self._takers[name] if n < len(call.args)]
                return call.args[max(places)] if places else None
        return None

    def _named(self, node: ast.expr, name: str, file: str, depth: int, *, anywhere: bool) -> set[str]:
        scopes = (self._function.get(node, file), file)
        found = next((self._given[scope, name] for scope in scopes if (scope, name) in self._given), [])
        found = found or (self._anywhere[name] if anywhere else [])
        return set().union(*(self.texts(value, place, depth - 1) for place, value in found)) if depth else set()


def _passes_on(node: ast.FunctionDef) -> bool:
    """Whether a function makes an error with its parameter `hint`."""
    body = ast.unparse(node)
    return "hint=hint" in body or "hint: {hint}" in body or "super().unexpected" in body


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names that a node gives, and what they are."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((t.id, value) for t in targets if isinstance(t, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value


def matches(template: str, text: str) -> bool:
    """Whether a hint that is made has this text in the sources."""
    return re.fullmatch(".*".join(map(re.escape, template.split("{}"))), text.strip(), re.DOTALL) is not None


# ------------------------------------------------------------------ cases


@dataclass(frozen=True)
class Case:
    """What is refused with a hint, and what the hint says to do."""

    hint: str
    refused: str
    followed: tuple[str, ...]
    start: str = ""

    def __str__(self) -> str:
        return self.hint[:50]


@cache
def cases() -> tuple[Case, ...]:
    """Those of the files in `tried/`: `== HINT`, what is refused, and behind each `--` what does what the hint says.

    In files `.txt` that is code, and what stands before the first `==` begins every case; in others it is a text that
    `READ` has a function for.
    """
    return tuple(case for path in sorted(TRIED.iterdir()) for case in _cases(path))


def _cases(path: Path) -> Iterable[Case]:
    start, *blocks = re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for block in blocks:
        title, _, code = block.partition("\n")
        refused, *followed = re.split(r"^--\n", code, flags=re.MULTILINE)
        if path.suffix in READ:
            start = "from tests.errors import hints\n"
            refused, *followed = (f"hints.READ[{path.suffix!r}]({text!r})" for text in (refused, *followed))
        yield Case(title, refused, tuple(followed), start)


def _program(text: str) -> Any:
    """A program in Relay's text."""
    return legato.parse('#[version = "0.0.5"]\n' + text)


def _script(text: str) -> Any:
    """A script; what begins with no definition is the body of a tensor program over X, Y (n) and W (n × m)."""
    from legato.script import parse

    if not text.startswith(("@", "class", "def")):
        text = _KERNEL + "".join(f"    {line}\n" for line in text.splitlines())
    return parse(text)


def _decorated(text: str) -> Any:
    """The module of the function or model `f` in a file of Python."""
    path = Path(f"read_{next(_NUMBERS)}.py")
    path.write_text(_IMPORTS + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f.module


READ: Final[Mapping[str, Callable[[str], Any]]] = {".relay": _program, ".script": _script, ".python": _decorated}
