"""Programs that grow in one way, by number: what takes time near linear in it to compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["FAMILIES"]

HEADER: Final = '#[version = "0.0.5"]\n'


def _listed(n: int, make: Callable[[int], str], joined: str = ", ") -> str:
    return joined.join(map(make, range(n)))


def _chain(n: int) -> str:
    functions = _listed(n, lambda k: f"def @f{k}(%x: float32) -> float32 {{ @f{k + 1}(tanh(%x)) }}", "\n")
    return f"{functions}\ndef @f{n}(%x: float32) -> float32 {{ %x }}\ndef @main(%x: float32) {{ @f0(%x) }}"


def _recursive(n: int) -> str:
    def function(k: int) -> str:
        again = f"@f{k}(%i - 1, tanh(%x))"
        return f"def @f{k}(%i: int32, %x: float32) -> float32 {{ if (%i == {k}) {{ %x }} else {{ {again} }} }}\n"

    calls = _listed(n, lambda k: f"@f{k}(%i, %x)")
    return f"{_listed(n, function, '')}def @main(%i: int32, %x: float32) {{ ({calls}) }}"


def _nodes(n: int) -> str:
    nodes = _listed(n, lambda k: f"%{k + 1} = tanh(%{k}) + %{k};", " ")
    return f"def @main(%x: Tensor[(8,), float32]) {{ %0 = exp(%x); {nodes} %{n} }}"


def _concat(n: int) -> str:
    params = _listed(n, lambda k: f"%x{k}: Tensor[(n{k}, 2), float32]")
    return f"def @main({params}) {{ concatenate(({_listed(n, lambda k: f'%x{k}')}), axis=0) }}"


def _nested_concats(n: int) -> str:
    def node(k: int) -> str:
        value = f"concatenate((%{k}, %{k}), axis=0)" if k % 8 < 7 else f"sum(%{k}, axis=[0], keepdims=True)"
        return f"%{k + 1} = {value};"

    return f"def @main(%x: Tensor[(1, 2), float32]) {{ %0 = exp(%x); {_listed(n, node, ' ')} %{n} }}"


def _split(n: int) -> str:
    parts = _listed(n, lambda k: f"tanh(%s.{n - 1 - k})")
    split = f"let %s = split(%x, indices_or_sections={n}, axis=0);"
    return f"def @main(%x: Tensor[({n}, 4), float32]) {{ {split} concatenate(({parts}), axis=0) }}"


def _results(n: int) -> str:
    return f"def @main(%x: Tensor[(n,), float32]) {{ ({_listed(n, lambda k: f'%x + {k}f')}) }}"


def _tuple(n: int) -> str:
    fields, total = _listed(n, lambda k: f"%x + {k}f"), _listed(n, lambda k: f"%t.{k}", " + ")
    return f"def @main(%x: float32) {{ let %t = ({fields}); {total} }}"


def _clauses(n: int) -> str:
    constructors = _listed(n, lambda k: f"C{k}(int32)")
    clauses = _listed(n, lambda k: f"(C{k}(%v), C{k}(%w)) => %v * {k} + %w")
    return f"""type T {{ {constructors} }}
def @f(%t: T, %u: T) -> int32 {{ match? ((%t, %u)) {{ {clauses}, (_, C0(%w)) => %w, _ => 7 }} }}
def @main(%x: int32) {{ @f(C1(%x), C2(%x)) }}"""


def _closures(n: int) -> str:
    bound = _listed(n, lambda k: f"let %f{k + 1} = fn (%y: int32) {{ %y + %f{k}(%y) }};", " ")
    return f"def @main(%x: int32) {{ let %f0 = fn (%y: int32) {{ %y * %x }}; {bound} %f{n}(1) }}"


def _closures_in_data(n: int) -> str:
    bound = _listed(n, lambda k: f"let %l = Cons(fn (%y: int32) -> int32 {{ %y + %x * {k} }}, %l);", " ")
    return f"""def @main(%x: int32) {{
  let %l = Nil; {bound}
  @sum(@map(fn (%f: fn (int32) -> int32) -> int32 {{ %f(2) }}, %l))
}}"""


def _continuations(n: int) -> str:
    functions = _listed(
        n,
        lambda k: (
            f"""def @fib{k}(%n: int32, %k: fn (int32) -> int32) -> int32 {{
  if (%n < {k + 2}) {{ %k(%n) }} else {{
    @fib{k}(%n - 1, fn (%a: int32) -> int32 {{ @fib{k}(%n - 2, fn (%b: int32) -> int32 {{ %k(%a + %b) }}) }})
  }}
}}
"""
        ),
        "",
    )
    calls = _listed(n, lambda k: f"@fib{k}(%n, fn (%x) {{ %x }})")
    return f"{functions}def @main(%n: int32) {{ ({calls}) }}"


FAMILIES: Final[Mapping[str, Callable[[int], str]]] = {
    name: lambda n, make=make: HEADER + make(n)  # type: ignore[misc]  # bound here
    for name, make in {
        "functions in a chain": _chain,
        "functions that call themselves": _recursive,
        "nodes in a graph": _nodes,
        "inputs of a concatenation, of any extent": _concat,
        "concatenations in one another": _nested_concats,
        "parts of a split": _split,
        "results": _results,
        "fields of a tuple": _tuple,
        "clauses of a match": _clauses,
        "closures": _closures,
        "closures in a list": _closures_in_data,
        "functions in continuation-passing style": _continuations,
    }.items()
}
