"""A recurrent network that writes text, one character after the other: a loop around an LSTM cell."""

from __future__ import annotations

from typing import Any, Final

from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ops import table
from legato.prelude import parse
from legato.testing.init import create_workload

__all__ = ["get_net", "get_workload"]

_PROGRAM: Final = """
fn (%data: int32, %embed_weight: {embed}, %state_weight: {state}, %out_weight: {out}, %out_bias: {bias}) -> {text} {{
  let %step = fn (%i: int32, %char: int32, %h: {h}, %c: {h}, %text: {text}) -> {text} {{
    if (%i == {steps}) {{ %text }} else {{
      let %sums = take(%embed_weight, %char, axis=0) + nn.dense(%h, %state_weight);
      let %gates = split(%sums, indices_or_sections=4, axis=1);
      let %cell = sigmoid(%gates.1) * %c + sigmoid(%gates.0) * tanh(%gates.2);
      let %hidden = sigmoid(%gates.3) * tanh(%cell);
      let %next = argmax(nn.dense(%hidden, %out_weight) + %out_bias, axis=[1]);
      let %written = scatter_elements(%text, reshape(%i, newshape=[1]), %next, axis=0);
      %step(%i + 1, reshape(%next, newshape=[]), %hidden, %cell, %written)
    }}
  }};
  %step(0, %data, {zeros}, {zeros}, zeros(shape=[{steps}], dtype="int32"))
}}
"""


def get_net(num_chars: int = 96, num_hidden: int = 128, steps: int = 200, dtype: str = "float32") -> Function:
    """The number of a character to those of the `steps` characters that follow it, each the likeliest.

    Gates are in the order input, forget, cell, output; `embed_weight` has a row of them for each character.
    """

    def tensor(*shape: int) -> str:
        return f"Tensor[({', '.join(map(str, shape))},), {dtype}]"

    text = _PROGRAM.format(
        embed=tensor(num_chars, 4 * num_hidden),
        state=tensor(4 * num_hidden, num_hidden),
        out=tensor(num_chars, num_hidden),
        bias=tensor(num_chars),
        h=tensor(1, num_hidden),
        text=f"Tensor[({steps},), int32]",
        steps=steps,
        zeros=f'zeros(shape=[1, {num_hidden}], dtype="{dtype}")',
    )
    main = parse(text, source="char_rnn", ops=table())["main"]
    assert isinstance(main, Function)
    return main


def get_workload(
    num_chars: int = 96, num_hidden: int = 128, steps: int = 200, dtype: str = "float32"
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(num_chars, num_hidden, steps, dtype))
