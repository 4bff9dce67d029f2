"""Python functions as programs: `@relay` reads a function's source and translates it; the function itself never runs.

    from legato import relay
    from legato.relay import Tensor

    @relay
    def count(n: int) -> int:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    print(count)                 the program: a tail-recursive function, and @main
    count(27)                    by the interpreter
    legato.compile(count)        compiled

`source` and `syntax` read a function, `names` says what its statements need, `values` is what expressions stand for,
`expressions` and `statements` translate, `lifting` makes functions of loops, `program` makes the module.
"""

from __future__ import annotations

from legato.script.annotations import Tensor
from legato.script.decorate import ScriptFunction, relay
from legato.script.model import ScriptModel, relay_model

__all__ = ["ScriptFunction", "ScriptModel", "Tensor", "relay", "relay_model"]
