"""The values that executors take and give, and the executor itself, by the names of `relay.backend.interpreter`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.base.errors import RunError
from legato.interp import Ref as RefValue
from legato.ir.expr import Constructor
from legato.relay._names import Named
from legato.relay.build_module import Executor
from legato.runtime.values import Data

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue"]


class ConstructorValue(Data, metaclass=Named):
    """`ConstructorValue(tag, fields, constructor)`: a value of a data type.

    RunError where the tag is not the constructor's, or the number of fields.
    """

    @staticmethod
    def build(tag: int, fields: Iterable[Any], constructor: Constructor) -> Data:
        parts = tuple(fields)
        if tag != constructor.tag or len(parts) != len(constructor.inputs):
            wanted = f"{constructor.tag} and {len(constructor.inputs)} fields"
            raise RunError(f"{constructor.name}: got tag {tag} and {len(parts)} fields, wanted {wanted}")
        return Data(constructor, parts)


class Interpreter(Executor):
    """`Interpreter(mod, device, target)`: the executor "debug"."""

    def __init__(self, mod: Any, device: Any = None, target: Any = "host") -> None:
        from legato.relay.build_module import create_executor

        made = create_executor("debug", mod, device, target)
        super().__init__("debug", made.mod, made.target)
