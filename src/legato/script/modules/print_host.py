"""Statements of host functions as parts of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from legato.arith.expr import Expr
from legato.script.modules.print_lines import quoted
from legato.tir.buffer import Buffer
from legato.tir.objects import Object, Open, Release, Resize, Retain
from legato.tir.stmt import HostOp, Invoke, Launch, Stmt, View

__all__ = ["HOST", "host_line"]

HOST: Final = (View, Launch, Invoke, HostOp, Object, Open, Resize, Retain, Release)  # what is one line, and its body


def host_line(
    s: Stmt, texts: Callable[[Sequence[Expr]], list[str]], names: Callable[[Any], str], buffer: Callable[[Buffer], str]
) -> str:
    """The line for a statement; `texts` are those of its expressions, `buffer` gives the shape and dtype of one."""
    match s:
        case View(made, base, _):
            return f"{names(made)} = T.view({names(base)}, {texts(s.exprs())[0]}, {buffer(made)})"
        case Object(made, tag, pointers):
            return f"{names(made)} = T.object({buffer(made)}, tag={tag}, pointers={pointers})"
        case Open(made) | Resize(made):
            word = "open" if isinstance(s, Open) else "resize"
            return f"{names(made)} = T.{word}({texts(s.exprs())[0]}, {buffer(made)})"
        case Retain() | Release():
            return f"T.{'retain' if isinstance(s, Retain) else 'release'}({texts(s.exprs())[0]})"
        case Launch() | Invoke() | HostOp():
            scalars = iter(texts(s.exprs()))
            args = [names(a) if isinstance(a, Buffer) else next(scalars) for a in s.args]
            match s:
                case Launch(_, kernel):
                    return f"T.launch({', '.join([quoted(kernel), *args])})"
                case Invoke(_, func):
                    return f"T.invoke({', '.join([quoted(func), *args])})"
                case HostOp(_, number):
                    return f"T.host_op({', '.join([str(number), *args])})"
    raise TypeError(f"{type(s).__name__} is no statement of host functions alone")
