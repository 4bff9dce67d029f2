"""`@I.ir_module`, `@R.function`, `@T.prim_func`: from Python's objects, or a text, to functions and modules.

A function of its own becomes a loop program or a typed function at once. In a class they wait for the class, through
which they name each other.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, ParseError, UnsupportedError
from legato.base.span import Span
from legato.infer.infer import infer, infer_function
from legato.ir.expr import GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.script.modules.evaluate import Evaluator, Outer, TextNames, raise_all
from legato.script.modules.graph import GraphReader, declared, graph_function
from legato.script.modules.graph_forms import Options
from legato.script.modules.heads import is_definition, read_heads
from legato.script.modules.names import Members, ModuleNames
from legato.script.modules.tensor import tensor_function
from legato.script.source import Source, names_around, parsed, read

__all__ = ["Waiting", "function", "ir_module", "module_from_text", "prim_func"]

T = TypeVar("T")
_MARKS: Final = {"prim_func": "T", "function": "R"}  # decorators by their last name


@dataclass(frozen=True, slots=True)
class Waiting:
    """A function of a class, which is read with the class."""

    function: Any

    def __call__(self, *_: Any, **__: Any) -> Any:
        hint = "write @I.ir_module above the class"
        raise CompileError(f"{self.function.__name__} is part of a class that is no module", hint=hint)


def prim_func(
    function: Any = None, *, private: bool = False, s_tir: bool = True, name: str | None = None, reorder: bool = True,
    host: bool = False, constants: Any = None, **odd: Any,
) -> Any:  # fmt: skip
    """`@T.prim_func` above a function: a loop program (`Func`). In a class, a program of its module.

    name: what it is called, where that is no name of Python. reorder: index parameters go behind the buffers. host: a
    host function, which launches kernels; constants: which of its last buffers are arrays of the module, by name.
    """
    _refuse(odd, "T.prim_func")
    if function is None:
        return lambda f: prim_func(f, private=private, name=name, reorder=reorder, host=host, constants=constants)
    if _is_in_class(function):
        return Waiting(function)
    code = read(function)
    assert isinstance(code.node, ast.FunctionDef)
    given = {"name": name, "reorder": reorder, "host": host, "constants": constants}
    return tensor_function(code.source, code.node, code.outer, **given)


def function(function_: Any = None, **options: Any) -> Any:
    """`@R.function` above a function: a typed function of the graph. In a class, a function of its module.

    The options are `private`, `pure`, and those of `Options`: `form`, `name`, `type_params`, `bounds`.
    """
    given = _options(options)
    if function_ is None:
        return lambda f: function(f, **options)
    if _is_in_class(function_):
        return Waiting(function_)
    code = read(function_)
    node = code.node
    assert isinstance(node, ast.FunctionDef)
    return _typed(lambda: infer_function(graph_function(code.source, node, code.outer, options=given)), code.source)


def _options(given: Mapping[str, Any]) -> Options:
    """The options of `@R.function`; UnsupportedError for one that there is not."""
    known = {k: v for k, v in given.items() if k in ("private", "pure", "form", "let", "name", "type_params", "bounds")}
    _refuse({k: v for k, v in given.items() if k not in known}, "R.function")
    return Options.of(**known)


def _refuse(odd: Mapping[str, Any], where: str) -> None:
    for name, value in odd.items():
        if value not in (None, False):
            raise UnsupportedError(f"{where} has no option {name}={value!r}", hint=f"leave {name} out")


def _is_in_class(function_: Any) -> bool:
    around = getattr(function_, "__qualname__", "").split(".")[:-1]
    return bool(around) and around[-1] != "<locals>"


def ir_module(cls: Any) -> Module:
    """`@I.ir_module` above a class: the module of its functions.

    CompileError, with the line of the script, for what is wrong in any of them.
    """
    if not inspect.isclass(cls):
        hint = "write it above a class; a function alone is @R.function or @T.prim_func"
        raise UnsupportedError(f"@I.ir_module takes a class, got a {type(cls).__name__}", hint=hint)
    waiting = {name: w for name, w in vars(cls).items() if isinstance(w, Waiting)}
    source, node = _class(cls)
    return _module(source, node, _names_around(cls, waiting))


def _names_around(cls: type, waiting: Mapping[str, Waiting]) -> Outer:
    """What names mean in the functions of a class: what is around each of them, or around the class."""
    around = [names_around(w.function) for w in waiting.values()]
    globals_ = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}

    def outer(name: str) -> Any:
        for one in around:
            try:
                return one(name)
            except LookupError:
                continue
        if name in globals_:
            return globals_[name]
        raise LookupError(name)

    return outer


def _class(cls: Any) -> tuple[Source, ast.ClassDef]:
    try:
        lines, first = inspect.findsource(cls)
    except (OSError, TypeError) as error:
        hint = "scripts are read from their files; legato.script.parse reads a text"
        raise UnsupportedError(f"the source of {cls.__name__} cannot be read: {error}", hint=hint) from error
    source = Source(inspect.getsourcefile(cls) or "<script>", "".join(lines))
    found = [n for n in ast.walk(parsed(source.text)) if isinstance(n, ast.ClassDef) and n.name == cls.__name__]
    if not found:
        hint = "scripts are read from their files; legato.script.parse reads a text"
        raise UnsupportedError(f"{cls.__name__} is not written with `class` in {source.name}", hint=hint)
    return source, min(found, key=lambda n: abs(n.lineno - 1 - first))


def module_from_text(
    text: str, names: Mapping[str, Any], source_name: str = "<script>", constants: Mapping[str, Any] | None = None
) -> Module:
    """The module, or the functions, of a script in a text. `names` are those that it may use: `I`, `R` and `T`.

    constants: the arrays that it only names.
    Imports of these are read over; nothing of the text is run. CompileError for anything else.
    """
    source = Source(source_name, text)
    try:
        tree = ast.parse(text, source_name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _syntax(error, source) from None

    outer = TextNames(names)
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    odd = [n for n in tree.body if not isinstance(n, ast.ClassDef | ast.FunctionDef | ast.Import | ast.ImportFrom)]
    odd = [n for n in odd if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    if odd or len(classes) > 1 or (classes and functions) or not (classes or functions):
        where = odd[0] if odd else tree.body[-1] if tree.body else None
        wrong = ParseError("a script is one class under @I.ir_module, or functions",
                           span=None if where is None else source.span(where))  # fmt: skip
        source.quote(wrong)
        raise wrong
    if classes:
        _require_mark(source, classes[0])
        return _module(source, classes[0], outer, constants)
    return _module_of(source, functions, outer, "", constants=constants)


def _require_mark(source: Source, node: ast.ClassDef) -> None:
    if [ast.unparse(d).split("(")[0] for d in node.decorator_list] != ["I.ir_module"]:
        error = ParseError(f"the class {node.name} is no module", span=source.span(node), hint="@I.ir_module above it")
        source.quote(error)
        raise error


def _syntax(error: Exception, source: Source) -> ParseError:
    line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
    found = ParseError(getattr(error, "msg", None) or str(error) or "this nests too deeply",
                       span=Span(source.name, line, column, line, column + 1))  # fmt: skip
    source.quote(found)
    return found


def _module(
    source: Source, node: ast.ClassDef, outer: Outer, constants: Mapping[str, Any] | None = None
) -> Module:  # fmt: skip
    functions = [s for s in node.body if isinstance(s, ast.FunctionDef)]
    for s in node.body:
        is_head = isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant | ast.Call)
        if not (is_head or isinstance(s, ast.FunctionDef | ast.Pass) or is_definition(s)):
            message = f"{type(s).__name__} in a module: it has functions and data types only"
            error = UnsupportedError(message, span=source.span(s), hint="put it above the class, or into a function")
            source.quote(error)
            raise error
    heads = [s for s in node.body if is_definition(s) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call))]
    return _module_of(source, functions, outer, node.name, heads, constants)


def _module_of(
    source: Source, nodes: list[ast.FunctionDef], outer: Outer, name: str, heads: Sequence[ast.stmt] = (),
    constants: Mapping[str, Any] | None = None,
) -> Module:  # fmt: skip
    reader = GraphReader(source, outer)
    reader.options = Options(constants=constants)
    own = read_heads(reader, heads, [n.name for n in nodes])
    kinds = [_kind(reader, n) for n in nodes]
    if len({n.name for n in nodes}) < len(nodes):
        twice = next(n for i, n in enumerate(nodes) if n.name in {m.name for m in nodes[:i]})
        raise reader.error(twice, f"two functions are called {twice.name}")
    made: dict[GlobalVar, GlobalFunc] = {}
    declared_: dict[str, GlobalVar] = {}
    for node, (kind, options) in zip(nodes, kinds, strict=True):
        inside = GraphReader(source, outer, members=Members({}, own.types))
        with inside.at(node):
            ty = declared(inside, node, _options(options)).ty if kind == "R" else None
        declared_[node.name] = GlobalVar(options.get("name") or node.name, ty=ty)
    members = Members(declared_, own.types)
    scope: dict[str, Any] = {name: ModuleNames(members)} if name else dict(declared_)
    faults: list[CompileError] = []
    for node, (kind, options) in sorted(zip(nodes, kinds, strict=True), key=lambda pair: pair[1][0] != "T"):
        gv = declared_[node.name]
        try:
            if kind == "T":
                given = {k: options[k] for k in ("name", "reorder", "host", "constants") if k in options}
                made[gv] = members.programs[gv] = tensor_function(source, node, outer, **given)
            else:
                said = replace(_options(options), constants=constants)
                made[gv] = graph_function(source, node, outer, scope, said, members)
        except CompileError as error:
            faults.append(error)
    raise_all(faults)
    functions = {gv: made[gv] for gv in declared_.values()} | members.programs
    types = {data.header: data for data in members.types.values()}
    return _typed(lambda: infer(Module(functions, types, own.attrs, own.constants)), source)


def _typed(run: Callable[[], T], source: Source) -> T:
    try:
        return run()
    except CompileError as error:
        for one in (error, *error.others):
            source.quote(one)
        raise


def _kind(reader: Evaluator, node: ast.FunctionDef) -> tuple[str, dict[str, Any]]:
    """ "T" or "R", with the options that the decorator gives."""
    if len(node.decorator_list) != 1:
        raise reader.error(node, f"{node.name} has no decorator", "@R.function or @T.prim_func")
    mark = node.decorator_list[0]
    called = mark.func if isinstance(mark, ast.Call) else mark
    last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if last not in _MARKS:
        raise reader.error(mark, f"@{ast.unparse(mark)} is no decorator of a module's function",
                           "@R.function or @T.prim_func", kind=UnsupportedError)  # fmt: skip
    given = {k.arg: reader.value(k.value) for k in mark.keywords if k.arg} if isinstance(mark, ast.Call) else {}
    return _MARKS[last], given
