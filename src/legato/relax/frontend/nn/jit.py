"""Models that are compiled, and called with their own weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from legato.base.errors import CompileError, RunError
from legato.relax.frontend.nn.exporter import INITIAL, distinct, export
from legato.relax.frontend.nn.parts import Composite, Effect, parts
from legato.relax.frontend.nn.spec import MethodSpec, ModuleSpec
from legato.relax.frontend.nn.torch_arrays import from_torch, to_torch
from legato.relax.vm import VirtualMachine, build

__all__ = ["Compiled"]

FORMATS: Final = ("torch", "numpy")


class Compiled:
    """A model whose methods are functions of arrays: `model["forward"](x)`. Effects are kept from call to call."""

    def __init__(
        self, module: Composite, spec: Any, pipeline: Any, out_format: str, debug: bool,
        packed: Mapping[str, object] | None,
    ) -> None:  # fmt: skip
        if out_format not in FORMATS:
            raise CompileError(f"there is no out_format {out_format!r}", hint=" or ".join(FORMATS))
        known = ModuleSpec.from_raw(spec, module)
        program, self._params = export(module, known, debug)
        first = "default" if pipeline == "default_build" else pipeline
        self._vm = VirtualMachine(build(program, relax_pipeline=first, packed=packed))
        self._specs = dict(zip(known.method_names, known.method_specs, strict=True))
        self._has_effects = bool(distinct(parts(module, Effect)))
        self._states: tuple[Any, ...] = ()
        self._out_format = out_format
        self.reset()

    def reset(self) -> None:
        """Effects are what they begin with."""
        self._states = self._vm[INITIAL]() if self._has_effects else ()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A method. RunError if there is none."""
        if name not in self._specs:
            raise RunError(f"the model has no method {name!r}; it has {', '.join(self._specs)}")
        function = self._vm[name]
        return lambda *args: self._shown(self._call(function, self._specs[name], args))

    def _call(self, function: Callable[..., Any], spec: MethodSpec, args: tuple[Any, ...]) -> Any:
        has_states = self._has_effects and spec.effect_mode != "none"
        states = self._states if has_states else ()
        given = [_given(a) for a in args]
        found = function(*given, *states, *(self._weights() if spec.param_mode != "none" else ()))
        if not has_states:
            return found
        result, self._states = found
        return result

    def _weights(self) -> list[Any]:
        missing = [name for name, p in self._params if p.data is None]
        if missing:
            raise RunError(f"parameters {', '.join(missing)} have no data: load_state_dict gives it to them")
        return [p.data for _, p in self._params]

    def _shown(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._shown, value))
        return to_torch(value.numpy()) if self._out_format == "torch" else value


def _given(value: Any) -> Any:
    """An argument, in which tensors of torch are arrays."""
    if isinstance(value, tuple | list):
        return tuple(map(_given, value))
    return from_torch(value, "an argument", RunError)
