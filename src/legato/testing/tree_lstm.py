"""The Child-Sum Tree-LSTM (Tai, Socher and Manning, "Improved semantic representations from tree-structured long
short-term memory networks", 2015): a recursive function over the prelude's trees."""

from __future__ import annotations

from typing import Any, Final

from legato.ir.module import Module
from legato.ops import table
from legato.prelude import parse
from legato.testing.init import create_workload

__all__ = ["get_net", "get_workload"]

_PROGRAM: Final = """
def @main(%data: Tree[{x}], %input_weight: {input}, %input_bias: {bias}, %state_weight: {state},
          %forget_weight: {forget}) -> {h} {{
  let %node = fn (%t: Tree[{x}]) -> ({h}, {h}) {{
    match (%t) {{
      Rose(%x, %children) => {{
        let %below = @map(%node, %children);
        let %parts = split(nn.dense(%x, %input_weight) + %input_bias, indices_or_sections=[{three}], axis=1);
        let %sum = @foldl(fn (%sum: {h}, %s: ({h}, {h})) {{ %sum + %s.0 }}, {zeros}, %below);
        let %gates = split(%parts.0 + nn.dense(%sum, %state_weight), indices_or_sections=3, axis=1);
        let %cell = @foldl(
          fn (%sum: {h}, %s: ({h}, {h})) {{ %sum + sigmoid(%parts.1 + nn.dense(%s.0, %forget_weight)) * %s.1 }},
          sigmoid(%gates.0) * tanh(%gates.2), %below);
        (sigmoid(%gates.1) * tanh(%cell), %cell)
      }}
    }}
  }};
  %node(%data).0
}}
"""


def get_net(num_inputs: int = 300, num_hidden: int = 150, dtype: str = "float32") -> Module:
    """A module whose @main takes a tree of vectors (1, num_inputs) to the state of its root, (1, num_hidden).

    Gates are in the order input, output, cell, and forget, which each child has of its own.
    """

    def tensor(*shape: int) -> str:
        return f"Tensor[({', '.join(map(str, shape))},), {dtype}]"

    text = _PROGRAM.format(
        x=tensor(1, num_inputs),
        h=tensor(1, num_hidden),
        input=tensor(4 * num_hidden, num_inputs),
        bias=tensor(4 * num_hidden),
        state=tensor(3 * num_hidden, num_hidden),
        forget=tensor(num_hidden, num_hidden),
        three=3 * num_hidden,
        zeros=f'zeros(shape=[1, {num_hidden}], dtype="{dtype}")',
    )
    return parse(text, source="tree_lstm", ops=table())


def get_workload(num_inputs: int = 300, num_hidden: int = 150, dtype: str = "float32") -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(num_inputs, num_hidden, dtype))
