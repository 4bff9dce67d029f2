"""The source of a Python function: its syntax tree, read with `inspect` and `ast`, and places in it as spans."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, UnsupportedError
from legato.base.span import Span

__all__ = ["Code", "Source", "Syntax", "names_around", "parsed", "read"]

Syntax = ast.FunctionDef | ast.Lambda
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Source:
    """A file of Python: its name and its text."""

    name: str
    text: str

    def span(self, node: ast.AST) -> Span:
        """The place of a node; of a function, its first line's name."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
        if isinstance(node, ast.FunctionDef):
            column += len("def ")
            end_line, end_column = line, column + len(node.name.encode())
        return Span(self.name, line, self._column(line, column), end_line, self._column(end_line, end_column))

    def _column(self, line: int, offset: int) -> int:
        """A column, counted in characters from 1; `ast` counts bytes."""
        lines = _lines(self.text)
        if not 0 < line <= len(lines):
            return offset + 1
        return len(lines[line - 1].encode()[:offset].decode(errors="replace")) + 1

    def unsupported(self, node: ast.AST, message: str, hint: str | None = None) -> UnsupportedError:
        """The error for Python that has no meaning here."""
        error = UnsupportedError(message, span=self.span(node), hint=hint)
        error.quote(self.text, self.name)
        return error

    def quote(self, error: CompileError) -> None:
        """Fills in the lines of this source that an error points at."""
        error.quote(self.text, self.name)


@dataclass(frozen=True, eq=False, slots=True)
class Code:
    """A function as it is written, and what the names mean that are not its own."""

    node: Syntax
    source: Source
    outer: Callable[[str], Any]  # LookupError for a name that means nothing

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "lambda"


def read(function: Any) -> Code:
    """The code of a Python function. It is read, not run.

    UnsupportedError where there is no source to read, or it is no function that was written with `def`.
    """
    if not inspect.isfunction(function):
        hint = "write it above a function, or @relay_model above a class"
        raise UnsupportedError(f"@relay takes a Python function, got {_article(type(function).__name__)}", hint=hint)
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError) as error:
        hint = "functions are read from their files; write this one into a file"
        raise UnsupportedError(f"the source of {function.__name__} cannot be read: {error}", hint=hint) from error
    source = Source(function.__code__.co_filename, "".join(lines))
    try:
        return Code(_definition(source, function), source, names_around(function))
    except (SyntaxError, ValueError) as error:  # the file has changed, or is not Python's
        hint = "the file has changed since it was imported: import it again"
        raise UnsupportedError(f"the source of {function.__name__} cannot be read: {error}", hint=hint) from error


def _definition(source: Source, function: Any) -> ast.FunctionDef:
    """The definition of `function` in its file."""
    first = function.__code__.co_firstlineno
    for node in ast.walk(parsed(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function.__name__:
            if first not in (node.lineno, *(d.lineno for d in node.decorator_list)):
                continue
            if isinstance(node, ast.AsyncFunctionDef):
                raise source.unsupported(node, "an async function cannot become Relay")
            return node
    hint = "lambdas can be used inside functions"
    raise UnsupportedError(f"{function.__name__} is not written with `def` in {source.name}", hint=hint)


@lru_cache(maxsize=16)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a text of Python."""
    return ast.parse(text)


@lru_cache(maxsize=16)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def names_around(function: Any) -> Callable[[str], Any]:
    """What a name means in `function` that is not its own: a variable of a function around it, a global, a builtin."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    builtins: Any = function.__globals__.get("__builtins__", {})
    listed: Mapping[str, Any] = builtins if isinstance(builtins, Mapping) else vars(builtins)

    def outer(name: str) -> Any:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                raise LookupError(name) from None
        found = function.__globals__.get(name, _MISSING)
        if found is _MISSING:
            found = listed.get(name, _MISSING)
        if found is _MISSING:
            raise LookupError(name)
        return found

    return outer


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
