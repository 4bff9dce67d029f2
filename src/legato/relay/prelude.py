"""The functional library in a module: lists, options, trees, and the functions over them; tensor arrays on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legato.arith.expr import Const
from legato.arith.expr import Expr as Dim
from legato.base import dtype as dt
from legato.base.errors import CompileError
from legato.ir import parser
from legato.ops import table
from legato.prelude import library
from legato.prelude.tensor_arrays import (
    dynamic_definitions,
    dynamic_name,
    shape_name,
    static_definitions,
    static_name,
)
from legato.relay.module import IRModule

__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps"]

Shape = Sequence[Any]


class Prelude:
    """`p = Prelude(mod)`: `mod` (or a new module) gets the library, whose names `p` has.

    Functions are attributes (`p.map`, `p.foldl`, …); `p.mod.get_type("List")` is a type with its constructors,
    `p.get_ctor("List", "cons")` one of these. With a dtype, names are those of tensor arrays
    (`p.get_global_var("tensor_array_read", "float32")`), which the module gets when one is asked for.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.mod.update(IRModule(library()))

    def get_name(self, canonical: str, dtype: str) -> str:
        """What a name of tensor arrays is for a dtype."""
        TensorArrayOps(self, dtype).register()
        return dynamic_name(canonical, dtype)

    def get_type(self, name: str, dtype: str | None = None) -> Any:
        """The type of the library called `name`, then its constructors; with a dtype, the type alone."""
        return self.mod.get_type(name) if dtype is None else self.mod.get_global_type_var(self.get_name(name, dtype))

    def get_ctor(self, ty_name: str, name: str, dtype: str | None = None) -> Any:
        """The constructor of a type, by name (`cons` is found as `Cons` too)."""
        wanted = name if dtype is None else self.get_name(name, dtype)
        for constructor in self.mod.get_type(ty_name)[1:]:
            if constructor.name.lower() == wanted.lower():
                return constructor
        raise AttributeError(f"type {ty_name} has no constructor {wanted}")

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Any:
        """A constructor of tensors of any shape: "tensor_nil", "tensor0", … "tensor6"."""
        return self.get_ctor(self.get_name("tensor_t", dtype), canonical, dtype)

    def get_global_var(self, name: str, dtype: str | None = None) -> Any:
        """The function of the library called `name`."""
        return self.mod.get_global_var(name if dtype is None else self.get_name(name, dtype))

    def get_name_static(self, canonical: str, dtype: str, shape: Shape, batch_dim: int | None = None) -> str:
        """What a name of tensor arrays is for a dtype and a shape; `StaticTensorArrayOps.register` defines it."""
        return static_name(canonical, dtype, shape_name(_extents(shape)), batch_dim)

    def get_global_var_static(self, canonical: str, dtype: str, shape: Shape, batch_dim: int | None = None) -> Any:
        """The function called so for a dtype and a shape."""
        return self.mod.get_global_var(self.get_name_static(canonical, dtype, shape, batch_dim))

    def get_type_static(self, canonical: str, dtype: str, shape: Shape) -> Any:
        """The type called so for a dtype and a shape."""
        return self.mod.get_global_type_var(self.get_name_static(canonical, dtype, shape))

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Shape) -> Any:
        """A constructor of the type called so for a dtype and a shape."""
        return self.get_ctor(self.get_name_static(ty_name, dtype, shape), self.get_name_static(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Shape) -> Any:
        """A constructor of tensors of a shape: "tensor_nil", "tensor_constructor"."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def define(self, definitions: Mapping[str, str], replaced: Sequence[str] = ()) -> None:
        """Defines what of `definitions` (texts by name) the module does not have, and the functions `replaced` anew."""
        types = {f"{header.name}" for header in self.mod.get_global_type_vars()}
        known = types | {f"@{gv.name}" for gv in self.mod.get_global_vars()}
        texts = [text for name, text in definitions.items() if name not in known or name in replaced]
        if texts:
            text = "\n".join(('#[version = "0.0.5"]', *texts))
            self.mod.update(IRModule(parser.parse(text, source="tensor arrays", ops=table(), module=self.mod.module)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "mod" or name not in self.mod.module:
            raise AttributeError(f"the library has no function {name}")
        return self.mod.get_global_var(name)


class TensorArrayOps:
    """Lists of tensors of one dtype and any shape; `register` defines them in the module of a prelude."""

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        self.prelude, self.dtype = prelude, _dtype(dtype)

    def register(self) -> None:
        """Defines type and functions, unless the module has them."""
        if f"tensor_array_{self.dtype}" not in self.prelude.mod:
            self.prelude.define(dynamic_definitions(self.dtype))

    def get_name(self, canonical: str) -> str:
        """What a name is for this dtype."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> Any:
        """The function called so for this dtype."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> Any:
        """The type called so for this dtype."""
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Any:
        """The constructor called so for this dtype."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)


class StaticTensorArrayOps:
    """Lists of tensors of one dtype and shape, whose dims are integers and `relay.Any()`."""

    def __init__(self, prelude: Prelude, dtype: str, shape: Shape, batch_dim: int | None = None) -> None:
        self.prelude, self.dtype, self.shape, self.batch_dim = prelude, _dtype(dtype), shape, batch_dim

    def register(self) -> None:
        """Defines types and functions, unless the module has them."""
        self.prelude.define(static_definitions(self.dtype, _extents(self.shape), self.batch_dim))

    def define_tensor_array_scatter(self, indices_shape: Shape | None = None, force_update: bool = False) -> None:
        """Defines a scatter for indices of a shape, which is part of its name: nothing is there to be updated."""
        indices = None if indices_shape is None else _extents(indices_shape)
        self.prelude.define(static_definitions(self.dtype, _extents(self.shape), self.batch_dim, indices=indices))

    def define_tensor_array_split(
        self, value_shape: Shape | None = None, lengths_shape: Shape | None = None, force_update: bool = False
    ) -> None:
        """Defines split for values and lengths of these shapes; anew only if it is told to."""
        split = tuple(None if shape is None else _extents(shape) for shape in (value_shape, lengths_shape))
        made = static_definitions(self.dtype, _extents(self.shape), self.batch_dim, split=(split[0], split[1]))
        names = [f"@{self.get_name(name)}" for name in ("ta_split_helper", "tensor_array_split")]
        self.prelude.define(made, names if force_update else ())

    def get_name(self, canonical: str, extra_shapes: Mapping[str, Shape] | None = None) -> str:
        """What a name is for this dtype and shape."""
        parts = [shape_name(_extents(self.shape))]
        parts += [f"{name}_{shape_name(_extents(shape))}" for name, shape in (extra_shapes or {}).items()]
        return static_name(canonical, self.dtype, "_".join(filter(None, parts)), self.batch_dim)

    def get_global_var(self, canonical: str) -> Any:
        """The function called so for this dtype and shape."""
        return self.prelude.get_global_var_static(canonical, self.dtype, self.shape, self.batch_dim)

    def get_type(self, canonical: str) -> Any:
        """The type called so for this dtype and shape."""
        return self.prelude.get_type_static(canonical, self.dtype, self.shape)

    def get_ctor(self, canonical: str) -> Any:
        """The constructor called so for this dtype and shape."""
        return self.prelude.get_tensor_ctor_static(canonical, self.dtype, self.shape)


def _dtype(name: str) -> str:
    return dt.dtype(name).name


def _extents(shape: Shape) -> tuple[int | None, ...]:
    """A shape with None for dims that are not known; CompileError for what is no extent."""
    found: list[int | None] = []
    for d in shape:
        value = int(d.value) if isinstance(d, Const) else d
        if isinstance(value, Dim):
            found.append(None)
        elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            found.append(value)
        else:
            raise CompileError(f"{d!r} is no extent", hint="use an int, or relay.Any()")
    return tuple(found)
