"""What of Python has a meaning here: everything else is found before anything is translated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from legato.script.source import Code, Source

__all__ = ["check", "refused"]

_STATEMENTS: Final = (
    ast.Assert, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Break, ast.Continue, ast.Expr, ast.For, ast.FunctionDef,
    ast.If, ast.Pass, ast.Return, ast.While,
)  # fmt: skip
_EXPRESSIONS: Final = (
    ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.IfExp, ast.Lambda, ast.List,
    ast.ListComp, ast.GeneratorExp, ast.Name, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp,
)  # fmt: skip
_CALLED: Final[dict[type[ast.AST], str]] = {
    ast.AsyncFor: "async for", ast.AsyncFunctionDef: "an async function", ast.AsyncWith: "async with",
    ast.Await: "await", ast.ClassDef: "a class", ast.Delete: "del", ast.Dict: "a dictionary",
    ast.DictComp: "a dictionary comprehension", ast.Global: "global", ast.Import: "import",
    ast.ImportFrom: "import", ast.JoinedStr: "an f-string", ast.Match: "match", ast.NamedExpr: "an assignment inside"
    " an expression", ast.Nonlocal: "nonlocal", ast.Raise: "raise", ast.Set: "a set",
    ast.SetComp: "a set comprehension", ast.Try: "try", ast.With: "with", ast.Yield: "yield",
    ast.YieldFrom: "yield from",
}  # fmt: skip
_HINTS: Final[dict[type[ast.AST], str]] = {
    ast.Dict: "use a tuple, or parameters of their own",
    ast.Global: "return the new value",
    ast.Import: "import it at the top of the file",
    ast.ImportFrom: "import it at the top of the file",
    ast.Match: "use if and elif",
    ast.NamedExpr: "assign in a statement of its own",
    ast.Nonlocal: "return the new value",
    ast.Raise: "Relay has no exceptions; assert checks what is known of shapes",
    ast.Try: "Relay has no exceptions",
    ast.Yield: "return a tuple, or take the step as a function",
}


def check(code: Code) -> None:
    """UnsupportedError, with the further ones, where the function has Python in it that has no meaning in Relay."""
    source, node = code.source, code.node
    faults = [*_parameters(source, node), *(f for s in _body(node) for f in _faults(source, s)), *_late(source, node)]
    if faults:
        found = [source.unsupported(node, message, hint) for node, message, hint in faults]
        raise found[0].with_others(found[1:])


_Fault = tuple[ast.AST, str, str | None]


def _body(node: ast.FunctionDef | ast.Lambda) -> list[ast.stmt] | list[ast.expr]:
    return node.body if isinstance(node, ast.FunctionDef) else [node.body]


def _parameters(source: Source, node: ast.FunctionDef | ast.Lambda) -> Iterator[_Fault]:
    for arg, star in ((node.args.vararg, "*"), (node.args.kwarg, "**")):
        if arg is not None:
            yield arg, f"parameter {star}{arg.arg} stands for any number of arguments", "give each a name"


def _faults(source: Source, root: ast.AST) -> Iterator[_Fault]:
    """What is wrong, in the order of the text; nothing inside of what is wrong."""
    stack: list[ast.AST] = [root]
    while stack:
        node = stack.pop()
        fault = _fault(node)
        if fault is not None:
            yield (node, *fault)
            continue
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from _parameters(source, node)
        stack += reversed([n for n in ast.iter_child_nodes(node) if not _is_annotation(node, n)])


def _is_annotation(node: ast.AST, child: ast.AST) -> bool:
    return child is getattr(node, "annotation", None) or child is getattr(node, "returns", None)


def refused(node: ast.AST) -> tuple[str, str | None]:
    """The message and the hint for a kind of node that has no meaning."""
    return f"{_CALLED.get(type(node), type(node).__name__)} cannot become Relay", _HINTS.get(type(node))


def _fault(node: ast.AST) -> tuple[str, str | None] | None:
    if isinstance(node, ast.stmt | ast.expr) and not isinstance(node, _STATEMENTS + _EXPRESSIONS):
        return refused(node)
    if isinstance(node, ast.While | ast.For) and node.orelse:
        return "else of a loop cannot become Relay", "write it behind the loop"
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        return (
            f"{node.name}, inside a function, has a decorator",
            "write it without: it becomes Relay with what is around",
        )
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        if isinstance(target, ast.Attribute):
            return "an attribute cannot be changed", "return the new value: nothing is changed in place in Relay"
        if isinstance(target, ast.Subscript):
            return "an element cannot be changed", "make a new tensor, with relay.where or relay.scatter_elements"
    return None


def _late(source: Source, root: ast.FunctionDef | ast.Lambda) -> Iterator[_Fault]:
    """Names that an inner function takes from around it and that are assigned after it: Python would see the last."""
    stores = [n for n in ast.walk(root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    for inner in ast.walk(root):
        if inner is root or not isinstance(inner, ast.FunctionDef | ast.Lambda):
            continue
        inside = list(ast.walk(inner))
        own = {a.arg for a in (*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs)}
        own |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        taken = {n.id for n in inside if isinstance(n, ast.Name)} - own
        within = set(map(id, inside))
        for store in stores:
            later = (store.lineno, store.col_offset) > (inner.end_lineno or 0, inner.end_col_offset or 0)
            if store.id in taken and later and id(store) not in within:
                name = f"`{inner.name}`" if isinstance(inner, ast.FunctionDef) else "the lambda"
                message = f"`{store.id}` is assigned again after {name} in line {inner.lineno} has taken it from here"
                yield store, message, "give the new value another name, or pass it as an argument"
                break
