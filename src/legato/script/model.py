"""`@relay_model`: a Python class with weights and a method `forward` as a program of the language."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MemberDescriptorType
from typing import Any

import numpy as np

from legato.base.errors import RunError, TypeCheckError, UnsupportedError
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.ir.types import TensorType, Type
from legato.script.annotations import Dims, Tensor, type_of
from legato.script.decorate import relay, run, translated
from legato.script.expressions import slot
from legato.script.frame import Frame
from legato.script.program import Translation, annotated, unquoted
from legato.script.source import read
from legato.script.syntax import check
from legato.script.values import Bound, Closure, Parts, Value, describe, mapped

__all__ = ["ScriptModel", "relay_model"]


class ScriptModel(Parts):
    """A model: what an instance of a class under `@relay_model` is.

    Attributes that the class annotates with tensors (`w: Tensor[(4, 8), "float32"]`) are weights: parameters of @main
    behind the inputs, called by their names, those of a model inside a model by the path to them (`first_w`). Other
    arrays are constants; numbers, text and tuples are known when the program is made; models and tuples of models are
    parts of it. An instance may have the arrays of its weights, which calls of it then use.
    """

    @property
    def module(self) -> Module:
        """The typed module, whose @main is `forward`. CompileError, with the line, for what cannot become Relay."""
        return translated(self._translate)

    @property
    def mod(self) -> Module:
        """`module`."""
        return self.module

    @property
    def params(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights that the instance has, by the names of their parameters."""
        return {name: np.asarray(data) for name, _, data in _weights(self) if data is not None}

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What `forward` gives for inputs, with the weights of the instance, by the interpreter.

        RunError where a weight has no value, or the inputs do not fit.
        """
        missing = [name for name, _, data in _weights(self) if data is None and name not in named]
        if missing:
            raise RunError(f"{type(self).__name__}: no value for weight {', '.join(missing)}")
        return run(self.module, args, {**self.params, **named})

    def __str__(self) -> str:
        return str(self.module)

    def part(self, frame: Any, name: str) -> Value:
        """An attribute where a function that is not of the model is translated: its weights are constants there."""
        found = {path: data for path, _, data in _weights(self)}
        missing = [path for path, data in found.items() if data is None]
        if missing:
            hint = "set the attribute before, or make the model a part of a model"
            raise frame.wrong(f"{type(self).__name__}: no value for weight {', '.join(missing)}", hint)
        return _Whole(self, "", {path: frame.program.constant(frame, data) for path, data in found.items()}).part(
            frame, name
        )

    def _translate(self, program: Translation) -> None:
        dims = Dims()
        weights = {path: Var(path, ty=ty) for path, ty, _ in _weights(self, "", dims)}
        code = read(inspect.getattr_static(self, "forward"))
        program.translate(code, "main", given=[_Whole(self, "", weights)], more=list(weights.values()), dims=dims)


class _Whole(Parts):
    """A model, or one inside it, as `self` is seen while its methods are translated, with its weights by path."""

    def __init__(self, model: ScriptModel, path: str, weights: Mapping[str, Value]) -> None:
        self.model, self.path = model, path
        self.weights = {name: w for name, w in weights.items() if name.startswith(path)}

    def mapped(self, expr: Callable[[Expr], Value]) -> Parts:
        """The same with other expressions as weights."""
        return _Whole(self.model, self.path, {name: mapped(w, expr) for name, w in self.weights.items()})

    def part(self, frame: Frame, name: str) -> Value:
        """A weight, a method, a model inside, or what else the instance holds."""
        if self.path + name in self.weights:
            return self.weights[self.path + name]
        try:
            held = inspect.getattr_static(self.model, name)
        except AttributeError:
            raise frame.wrong(f"{type(self.model).__name__} has no attribute {name!r}") from None
        if inspect.isfunction(held):
            code = read(held)
            check(code)
            return Bound(Closure(code, {}), (self,))
        if isinstance(held, staticmethod):
            return held.__func__
        if isinstance(held, MemberDescriptorType):
            held = slot(frame, self.model, name, held)
        if isinstance(held, property):
            raise frame.unsupported(f"self.{name} is a property", "make it a method, which is read")
        return self._inside(held, f"{self.path}{name}_")

    def _inside(self, held: Any, path: str) -> Value:
        if isinstance(held, ScriptModel):
            return _Whole(held, path, self.weights)
        if isinstance(held, list | tuple):
            return tuple([self._inside(one, f"{path}{n}_") for n, one in enumerate(held)])
        return held


def relay_model(cls: Any) -> Any:
    """`@relay_model` above a class: its instances are programs, and Python objects as before.

    @relay_model
    class Linear:
        w: Tensor[(4, 8), "float32"]

        def forward(self, x: Tensor[("n", 8), "float32"]):
            return relay.nn.dense(x, self.w)

    Linear(w=array).module

    A class without `__init__` takes its attributes by name. `forward` and the methods that it calls are read, never
    run. A function is a model without weights of its own: what `@relay` makes of it. UnsupportedError where there is no
    `forward`, or it has Python in it that has no meaning in Relay.
    """
    if inspect.isfunction(cls):
        return relay(cls)
    if not inspect.isclass(cls):
        hint = "write it above a class with a method forward, or above a function"
        raise UnsupportedError(f"@relay_model takes a class or a function, got {describe(cls)}", hint=hint)
    forward = inspect.getattr_static(cls, "forward", None)
    if not inspect.isfunction(forward):
        raise UnsupportedError(f"class {cls.__name__} has no method forward", hint="def forward(self, x: Tensor[…]): …")
    check(read(forward))
    body: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if cls.__init__ is object.__init__:
        body["__init__"] = _given
    return type(cls.__name__, (cls, ScriptModel), body)


def _given(self: Any, **attributes: Any) -> None:
    """Takes the attributes that the class names."""
    known = {n for c in type(self).__mro__ for n in (*c.__dict__, *inspect.get_annotations(c))}
    for name, data in attributes.items():
        if name not in known:
            raise TypeCheckError(f"class {type(self).__name__} has no attribute {name!r}")
        setattr(self, name, data)


# ------------------------------------------------------------------ weights


def _weights(model: ScriptModel, path: str = "", dims: Dims | None = None) -> Iterator[tuple[str, Type, Any]]:
    """The weights of a model and of those inside it: name, type, array (None where there is none).

    `dims` is what names of dims mean in the model; a model inside it has its own.
    """
    for name, ty in _annotated(model, dims or Dims()).items():
        yield path + name, ty, getattr(model, name, None)
    for name, held in vars(model).items():
        yield from _inside(held, f"{path}{name}_")


def _inside(held: Any, path: str) -> Iterator[tuple[str, Type, Any]]:
    if isinstance(held, ScriptModel):
        yield from _weights(held, path)
    elif isinstance(held, list | tuple):
        for n, one in enumerate(held):
            yield from _inside(one, f"{path}{n}_")


def _annotated(model: ScriptModel, dims: Dims) -> dict[str, Type]:
    """The attributes that the class and its bases annotate with types of the language."""
    found: dict[str, Type] = {}
    for cls in reversed(type(model).__mro__):
        for name, written in inspect.get_annotations(cls).items():
            if isinstance(written, str):
                ty = _read(model, written, dims)
            else:
                ty = type_of(written, dims) if isinstance(written, Tensor | Type) else None
            if isinstance(ty, TensorType):
                found[name] = ty
    return found


def _read(model: ScriptModel, written: str, dims: Dims) -> Type | None:
    """An annotation that is text, as all are under `from __future__ import annotations`; None: no tensor's."""
    if "Tensor" not in written:
        return None
    code = read(inspect.getattr_static(model, "forward"))
    return annotated(Frame(Translation(), code, "main"), unquoted(written, code.node), dims)
