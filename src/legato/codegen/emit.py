"""LLVM IR text of a module: kernels and host functions.

    kernel   i32 @k(ptr args, i64 tid, i64 nt)        word i of args is param i: a pointer, or an index scalar;
                                                      behind them the call
    host     i32 @h(ptr call, ptr args)

The text is final: nothing below runs IR passes on it. Vectors, phis and addresses are emitted in the form that the
instruction selector wants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from legato.arith.expr import Var
from legato.base import dtype as dt
from legato.base.target import Target
from legato.codegen.analysis import analyse
from legato.codegen.builder import Builder
from legato.codegen.expr import Evaluator
from legato.codegen.host import HostStatements, recursive
from legato.codegen.idle import touched
from legato.codegen.intrinsics import Intrinsics
from legato.codegen.level import level_line
from legato.codegen.outlined import definitions
from legato.codegen.stmt import RARELY, Statements
from legato.codegen.symbols import symbol
from legato.codegen.value import Value, literal
from legato.tir.buffer import Buffer
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func, FuncKind, Invoke, Switch, While
from legato.tir.walk import statements

__all__ = ["LONG", "emit_hosts", "emit_module"]

LONG: Final = 10_000  # statements of a host function

_RARELY = '!0 = !{!"branch_weights", i32 1, i32 1000}'


def emit_module(
    funcs: Sequence[Func],
    target: Target,
    constant_offsets: Mapping[str, int],
    launches: Mapping[str, LaunchKind] | None = None,
) -> str:
    """The LLVM IR of `funcs` for `target`.

    `constant_offsets` says where each named constant lies in the constant segment. `launches` says of kernels that are
    launched but not in `funcs` (they are in other objects of the image) how that is done.
    """
    often = _run_often(funcs)
    quick = not often and all(f.kind is FuncKind.HOST for f in funcs)
    return _module(funcs, target, constant_offsets, launches or {}, recursive(_calls(funcs)), 0 if quick else 2)


def emit_hosts(
    funcs: Sequence[Func], target: Target, constant_offsets: Mapping[str, int], launches: Mapping[str, LaunchKind]
) -> list[str]:
    """The LLVM IR of all host functions of a program: a module of those that are compiled quickly, one of the others.

    The arguments are as for `emit_module`.
    """
    loops, often = recursive(_calls(funcs)), _run_often(funcs)
    parts = [([f for f in funcs if f.name not in often], 0), ([f for f in funcs if f.name in often], 2)]
    return [_module(part, target, constant_offsets, launches, loops, level) for part, level in parts if part]


def _module(
    funcs: Sequence[Func],
    target: Target,
    offsets: Mapping[str, int],
    launches: Mapping[str, LaunchKind],
    loops: Collection[str],
    level: int,
) -> str:
    """The text of `funcs`, to be compiled at `level`; `loops` names those that may reach themselves."""
    has_hosts = any(f.kind is FuncKind.HOST for f in funcs)  # only they launch
    known = {**launches, **{f.name: launch_kind(f) for f in funcs if has_hosts and f.kind is FuncKind.KERNEL}}
    outlined: set[str] = set()
    parts, declared = [f'{level_line(level)}\ntarget triple = "{target.triple}"'], dict[str, str]()
    for f in funcs:
        if f.kind is FuncKind.KERNEL:
            parts.append(_kernel(f, target, outlined))
        else:
            text, called = _host(f, target, offsets, known, outlined, counts_depth=f.name in loops)
            parts.append(text)
            declared |= called
    for f in funcs:
        declared.pop(f.name, None)
    weights = [_RARELY] if any(RARELY in text for text in parts) else []
    return "\n\n".join([*parts, *declared.values(), *definitions(outlined), *weights, _attributes(target)]) + "\n"


def _run_often(funcs: Sequence[Func]) -> set[str]:
    """The host functions that may run many times in a call of the program: that call themselves, loop, switch, or are
    called by such a one.

    The others are straight and run once, and compiling them quickly counts for more than their speed. So it does for
    those that are long: LLVM takes more than twice the time for twice as long a function.
    """
    calls = _calls(funcs)
    todo = [*recursive(calls), *(f.name for f in funcs if f.name in calls and _decides(f))]
    often = set[str]()
    while todo:
        name = todo.pop()
        if name not in often:
            often.add(name)
            todo += calls.get(name, ())
    return often & {f.name for f in funcs if f.name in calls and not _is_long(f)}


def _is_long(func: Func) -> bool:
    return sum(1 for _ in islice(statements(func), LONG)) == LONG


def _calls(funcs: Sequence[Func]) -> dict[str, frozenset[str]]:
    """What each host function calls."""
    return {f.name: _invoked(f) for f in funcs if f.kind is FuncKind.HOST}


def _decides(func: Func) -> bool:
    """Whether a host function does more than to run what the program lists."""
    return any(isinstance(s, While | Switch) for s in statements(func))


def _invoked(func: Func) -> frozenset[str]:
    return frozenset(s.func for s in statements(func) if isinstance(s, Invoke))


def _attributes(target: Target) -> str:
    width = 8 * target.vector_bytes
    vectors = f'"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
    names = f'nounwind "no-builtins" "frame-pointer"="none" {vectors}'
    return f"attributes #0 = {{ {names} }}"


def _kernel(func: Func, target: Target, outlined: set[str]) -> str:
    builder = Builder()
    ev = Evaluator(builder, target, Intrinsics(builder, target, outlined), volatile=False)
    bind_params(ev, func)
    threads = (Value("%tid", "i64", 1, 0), Value("%nt", "i64", 1, 0))
    body = Statements(ev, analyse(func), threads, len(func.params))
    body.idle = touched(func)
    body.run(func.body)
    body.finish()
    ev.close()
    lines = "\n".join(builder.lines())
    return f'define hidden i32 @"{symbol(func.name)}"(ptr %args, i64 %tid, i64 %nt) #0 {{\n{lines}\n}}'


def _host(
    func: Func,
    target: Target,
    offsets: Mapping[str, int],
    launches: Mapping[str, LaunchKind],
    outlined: set[str],
    *,
    counts_depth: bool,
) -> tuple[str, dict[str, str]]:
    """The text of a host function, and declarations of the symbols that it uses."""
    builder = Builder()
    ev = Evaluator(builder, target, Intrinsics(builder, target, outlined), volatile=True)
    bind_params(ev, func)
    body = HostStatements(ev, analyse(func), launches)
    body.constants(func.constants, offsets)
    frame = body.push(literal(0, dt.index)) if counts_depth else None
    body.run(func.body)
    if frame is not None:
        body.pop(frame)
    body.finish()
    ev.close()
    lines = "\n".join(builder.lines())
    return f'define hidden i32 @"{symbol(func.name)}"(ptr %call, ptr %args) #0 {{\n{lines}\n}}', body.called


def bind_params(ev: Evaluator, func: Func) -> None:
    """Reads the words of `%args` into the params of `func`."""
    b = ev.builder
    for n, param in enumerate(func.params):
        word = b.pure(f"getelementptr i8, ptr %args, i64 {8 * n}", "ptr", 1, 0)
        if isinstance(param, Buffer):
            ev.memory.bind(param, b.pure(f"load ptr, ptr {word.text}, align 8", "ptr", 1, 0))
        elif isinstance(param, Var):
            ev.env[param] = b.pure(f"load i64, ptr {word.text}, align 8", "i64", 1, 0)
