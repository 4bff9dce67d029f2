"""What methods of a module take.

    {"forward": {"x": nn.spec.Tensor([1, "n", 64], "float32"), "total": int, "$": {"param_mode": "packed"}}}

A dim is an integer, or a text: a name, or arithmetic over names. Dims of one name are one dim, those of parameters,
too. `int` (`spec.Int`) is a dim that is called like its argument; a call gives it as a number. Lists and tuples hold
specs.

"$" says how parameters and effects follow the inputs: "plain", one by one; "packed", as one tuple; "none".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, Final, NoReturn

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.ir.types import TupleType, Type, scalar_type, tensor_type
from legato.relax.frontend.nn.scope import as_shape

__all__ = ["Int", "MethodSpec", "ModuleSpec", "Object", "Tensor", "Tuple"]

MODES: Final = ("plain", "packed", "none")


@dataclass(frozen=True, slots=True)
class Int:
    """An integer: a dim that is called like its argument, which is a scalar of int64."""

    def type_for(self, name: str) -> Type:
        """The type of an argument that is called `name`."""
        return scalar_type("int64")


class Tensor:
    """A tensor of a shape and dtype."""

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        self.ty = tensor_type(as_shape(shape), dt.dtype(dtype))
        self.shape, self.dtype = list(shape), self.ty.dtype.name

    def type_for(self, name: str) -> Type:
        """The type of an argument that is called `name`."""
        return self.ty

    def __repr__(self) -> str:
        return f'Tensor([{", ".join(map(str, self.shape))}], "{self.dtype}")'


class Tuple:
    """Several values; `elements` is a tuple or a list of specs, and of such a kind is what the method gets."""

    def __init__(self, name: str, elements: Sequence[Any]) -> None:
        if not isinstance(elements, tuple | list):
            raise TypeCheckError(f"argument {name}: {elements!r} are no specs", hint="a tuple or a list of them")
        self.name = name
        found = [spec_of(e, f"{name}_{i}") for i, e in enumerate(elements)]
        self.elements: Sequence[Spec] = tuple(found) if isinstance(elements, tuple) else found

    def type_for(self, name: str) -> Type:
        """The type of an argument that is called `name`."""
        return TupleType(tuple(e.type_for(f"{name}_{i}") for i, e in enumerate(self.elements)))

    def __repr__(self) -> str:
        return repr(self.elements)


class Object:
    """An opaque object: there are none."""

    def __init__(self, object_type: object) -> NoReturn:
        hint = "spec.Tensor, spec.Int, spec.Tuple"
        raise UnsupportedError(
            "an argument is a tensor, an integer, or a tuple of these, and no opaque object", hint=hint
        )


Spec = Int | Tensor | Tuple


def spec_of(given: Any, name: str) -> Spec:
    """What is given for argument `name`, as a spec. TypeCheckError where it is none."""
    if given is int:
        return Int()
    if isinstance(given, Int | Tensor | Tuple):
        return given
    if isinstance(given, tuple | list):
        return Tuple(name, given)
    raise TypeCheckError(f"argument {name}: {given!r} is no spec", hint='nn.spec.Tensor([1, "n"], "float32"), int, …')


class MethodSpec:
    """A method, the arguments that it is called with, and how parameters and effects follow them."""

    def __init__(
        self, method: Callable[..., Any], arg_names: Sequence[str], arg_specs: Sequence[Any],
        param_mode: str = "plain", effect_mode: str = "plain",
    ) -> None:  # fmt: skip
        for what, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in MODES:
                raise TypeCheckError(f"{what} is {' or '.join(MODES)}, got {mode!r}")
        if len(arg_names) != len(arg_specs):
            raise TypeCheckError(f"{len(arg_specs)} specs for the arguments {', '.join(arg_names)}")
        self.method, self.arg_names = method, tuple(arg_names)
        self.arg_specs = tuple(spec_of(s, n) for n, s in zip(arg_names, arg_specs, strict=True))
        self.param_mode, self.effect_mode = param_mode, effect_mode

    @staticmethod
    def from_raw(spec: Any, method: Callable[..., Any]) -> MethodSpec:
        """What a dict of specs by argument, and options at "$", says. TypeCheckError where it does not fit the method.

        Arguments that have a default may be left out.
        """
        if isinstance(spec, MethodSpec):
            return spec
        name = getattr(method, "__name__", "the method")
        if not isinstance(spec, Mapping):
            raise TypeCheckError(f"the spec of {name} is a {type(spec).__name__}, wanted a dict by argument")
        given = {k: v for k, v in spec.items() if k != "$"}
        takes = signature(method).parameters
        needed = [n for n, p in takes.items() if p.default is Argument.empty and p.kind not in _MORE]
        open_ended = any(p.kind in _MORE for p in takes.values())
        wrong = [n for n in needed if n not in given] + [n for n in given if n not in takes and not open_ended]
        if wrong:
            raise TypeCheckError(f"{name} takes {', '.join(takes) or 'nothing'}; its spec tells {', '.join(given)}")
        names = [n for n in takes if n in given] + [n for n in given if n not in takes]
        return MethodSpec(method, names, [given[n] for n in names], **_options(name, spec.get("$", {})))

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """Of arguments that it is called with, in order: tensors have the shapes and dtypes of these."""
        names = list(signature(method).parameters)
        if len(args) > len(names):
            raise TypeCheckError(f"the method takes {', '.join(names) or 'nothing'}, got {len(args)} arguments")
        return MethodSpec.from_raw(dict(zip(names, map(_spec_like, args), strict=False)), method)


def _spec_like(value: Any) -> Any:
    """The spec of what is such a value."""
    if isinstance(value, tuple | list):
        found = [_spec_like(v) for v in value]
        return tuple(found) if isinstance(value, tuple) else found
    if isinstance(value, int) and not isinstance(value, bool):
        return int
    if not hasattr(value, "shape"):
        raise TypeCheckError(f"{value!r} is no argument of a method", hint="an array, an integer, or several of these")
    return Tensor([int(d) for d in value.shape], str(value.dtype).removeprefix("torch."))


_MORE: Final = (Argument.VAR_POSITIONAL, Argument.VAR_KEYWORD)


def _options(name: str, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or given.keys() - {"param_mode", "effect_mode"}:
        raise TypeCheckError(f'"$" in the spec of {name}: {given!r}', hint='{"param_mode": …, "effect_mode": …}')
    return dict(given)


class ModuleSpec:
    """A module, and specs of the methods that become functions."""

    def __init__(self, module: Any, method_names: Sequence[str], method_specs: Sequence[MethodSpec]) -> None:
        self.module, self.method_names, self.method_specs = module, list(method_names), list(method_specs)

    @staticmethod
    def from_raw(spec: Any, module: Any) -> ModuleSpec:
        """What a dict by method says. TypeCheckError where it does not fit the module."""
        if isinstance(spec, ModuleSpec):
            return spec
        if not isinstance(spec, Mapping) or not spec:
            raise TypeCheckError(f"a spec of {spec!r}", hint='{"forward": {"x": nn.spec.Tensor([1, "n"], "float32")}}')
        for name in spec:
            if not callable(getattr(module, name, None)):
                raise TypeCheckError(f"{type(module).__name__} has no method {name}")
        return ModuleSpec(module, list(spec), [MethodSpec.from_raw(s, getattr(module, n)) for n, s in spec.items()])
