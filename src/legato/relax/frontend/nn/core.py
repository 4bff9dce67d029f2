"""Modules: models, made of parameters and other modules, which are their attributes. (`nn` has an example.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.ir.module import Module as Program
from legato.relax.frontend.nn.exporter import export
from legato.relax.frontend.nn.parts import Composite, Effect, parts
from legato.relax.frontend.nn.subroutine import SubroutineMixin
from legato.relax.frontend.nn.tensor import (
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)
from legato.runtime.ndarray import require_cpu

if TYPE_CHECKING:
    from legato.relax.frontend.nn.jit import Compiled

__all__ = ["Effect", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "ParameterDict", "ParameterList",
           "Tensor", "get_default_dtype", "set_default_dtype", "wrap_nested"]  # fmt: skip


class Module(Composite, SubroutineMixin):
    """A model, or a part of one: parameters, effects and modules are its attributes, and its methods compute.

    A call is one of `forward`.
    """

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        forward = getattr(self, "forward", None)
        if forward is None:
            raise CompileError(f"{type(self).__name__} has no method forward")
        return forward(*args, **keywords)

    def _replace(self, name: str, part: Any) -> None:
        """Another part in place of that of a name."""
        setattr(self, name, part)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names ("layers.0.weight") in the order of attributes; those that have several names,
        under each."""
        yield from parts(self, Parameter, prefix)

    def parameters(self) -> Iterator[Parameter]:
        """Parameters in the order of their names."""
        for _, p in self.named_parameters():
            yield p

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:  # fmt: skip
        """Parameters by their names, added to `destination`."""
        found = {} if destination is None else destination
        found.update(self.named_parameters(prefix))
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Takes data of parameters, or arrays, by name; the names that are missing, and those that are no parameter's.

        CompileError for any of these where it is strict, TypeCheckError for data of another shape or dtype: nothing
        is taken then.
        """
        own = self.state_dict()
        missing, odd = [n for n in own if n not in state_dict], [n for n in state_dict if n not in own]
        if strict and (missing or odd):
            told = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("odd", odd)) if names]
            raise CompileError(f"the state of {type(self).__name__}: {'; '.join(told)}", hint="strict=False takes it")
        fitting = {}
        for name in (n for n in own if n in state_dict):
            given = state_dict[name]
            try:
                fitting[name] = own[name].fitting(given.data if isinstance(given, Parameter) else given)
            except TypeCheckError as error:
                raise TypeCheckError(f"{name}: {error.message}", hint=error.hint) from None
        for name, data in fitting.items():
            own[name].data = data
        return missing, odd

    def to(self, dtype: str | None = None) -> None:
        """Another dtype of all that it is made of. TypeCheckError where data is there already."""
        for _, value in self._items():
            if isinstance(value, Module | Parameter | Effect):
                value.to(dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(
        self, spec: Any, debug: bool = False, allow_extern: bool = False
    ) -> tuple[Program, list[tuple[str, Parameter]]]:  # fmt: skip
        """The program of the methods that `spec` names, and the parameters, by name, that follow the inputs of each.

        spec: by method, by argument, what it is (see `nn.spec`). debug: `nn.op.print_` and `debug_func` are allowed.
        TypeCheckError for a spec that does not fit.
        """
        if allow_extern:
            raise UnsupportedError("programs hold no functions from outside", hint="relax.build(mod, packed={…})")
        return export(self, spec, debug)

    def jit(
        self, spec: Any, device: Any = "cpu", pipeline: Any = "default_build", out_format: str = "torch",
        debug: bool = False, *, packed: Mapping[str, object] | None = None,
    ) -> Compiled:  # fmt: skip
        """The methods that `spec` names, compiled: `m.jit(spec)["forward"](x)`, with the data of the parameters.

        pipeline: a pass that comes first. out_format: "torch" or "numpy", what results are. Effects are kept. packed:
        functions outside of the program, by name, as for `legato.compile`.
        """
        from legato.relax.frontend.nn.jit import Compiled  # on use: nothing else here needs the compiler

        require_cpu(device)
        return Compiled(self, spec, pipeline, out_format, debug, packed)


class Object:
    """An opaque object: there are none."""

    def __init__(self, *, _expr: object = None, _name: str = "") -> None:
        hint = "nn.Tensor, or a tuple of them; state goes in and out as arguments and results"
        raise UnsupportedError("there is no nn.Object: values are tensors, shapes, and tuples of these", hint=hint)


class _Parts(Module):
    """Modules or parameters by position or by name."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._parts = found
        for key, value in found.items():
            self._check(key, value)

    kind: type = Module

    def _check(self, key: object, value: object) -> None:
        if not isinstance(value, self.kind):
            raise TypeCheckError(f"{type(self).__name__} of a {type(value).__name__} at {key}: {self.kind.__name__}s")

    def _items(self) -> Iterable[tuple[str, Any]]:
        return list(self._parts.items())

    def _replace(self, name: str, part: Any) -> None:
        self._check(name, part)
        self._parts[name] = part

    def __len__(self) -> int:
        return len(self._parts)


class _List(_Parts):
    def __init__(self, found: Iterable[Any] | None) -> None:
        super().__init__({str(i): part for i, part in enumerate(found or ())})

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parts.values()))

    def __getitem__(self, idx: Any) -> Any:
        """The part at a position, or a list of those of a slice."""
        found = list(self._parts.values())[idx]
        return type(self)(found) if isinstance(idx, slice) else found

    def __setitem__(self, idx: int, part: Any) -> None:
        self._check(idx, part)
        self._parts[list(self._parts)[idx]] = part

    def append(self, part: Any) -> None:
        """Adds a part behind the others."""
        self._check(len(self), part)
        self._parts[str(len(self))] = part

    def extend(self, parts: Iterable[Any]) -> None:
        """Adds parts behind the others."""
        for part in parts:
            self.append(part)


class ModuleList(_List):
    """Modules in order; a call passes what one gives to the next."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """What the last one gives, of what those before it give."""
        for module in self:
            x = module(x)
        return x


class ParameterList(_List):
    """Parameters in order."""

    kind = Parameter

    def __init__(self, params: Iterable[Parameter] | None = None) -> None:
        super().__init__(params)


class _Dict(_Parts):
    def __init__(self, found: Mapping[str, Any] | None) -> None:
        super().__init__(dict(found or {}))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._parts))

    def __contains__(self, key: object) -> bool:
        return key in self._parts

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]

    def __setitem__(self, key: str, part: Any) -> None:
        self._check(key, part)
        self._parts[key] = part

    def __delitem__(self, key: str) -> None:
        del self._parts[key]

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """The parts."""
        return iter(list(self._parts.values()))

    def items(self) -> Iterator[tuple[str, Any]]:
        """The parts with their names."""
        return iter(list(self._parts.items()))

    def get(self, key: str, default: Any = None) -> Any:
        """The part of a name, or `default`."""
        return self._parts.get(key, default)

    def update(self, parts: Mapping[str, Any]) -> None:
        """Adds parts, or replaces them."""
        for key, part in parts.items():
            self[key] = part

    def clear(self) -> None:
        """Removes all."""
        self._parts.clear()

    def pop(self, key: str) -> Any:
        """Removes a part: it."""
        return self._parts.pop(key)


class ModuleDict(_Dict):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__(modules)


class ParameterDict(_Dict):
    """Parameters by name."""

    kind = Parameter

    def __init__(self, params: Mapping[str, Parameter] | None = None) -> None:
        super().__init__(params)
