"""Elements of one sequence whose extents differ: tensors in cells.

The elements of a List have one type. Where a sequence of any length has tensors of several shapes, of one element type
and rank, its elements are cells: values of a data type whose one constructor has a tensor with extents of its own,

    type Cell_float32_4_any { Cell_float32_4_any(Tensor[(4, ?), float32]) }
"""

from __future__ import annotations

from legato.arith.expr import Const, const, fresh
from legato.frontend.onnx.emitter import Emitter
from legato.ir.clauses import Pattern, PatternConstructor, PatternVar
from legato.ir.expr import Call, Constructor, Expr, Var
from legato.ir.types import GlobalTypeVar, TensorType, Type, TypeData

__all__ = ["cell_of", "contents", "filled", "head_of", "head_pattern", "held"]


def _data(b: Emitter, ty: Type) -> TypeData | None:
    """The data type that `ty` is, if its values are cells."""
    return next((data for data in b.cells.values() if data.header == ty), None)


def contents(b: Emitter, ty: Type) -> TensorType | None:
    """The type of the tensors that are of type `ty`, or in cells of type `ty`; None for another type."""
    data = _data(b, ty)
    found = ty if data is None else data.constructors[0].inputs[0]
    return found if isinstance(found, TensorType) else None


def cell_of(b: Emitter, x: Type, y: Type) -> Type | None:
    """The type of cells for tensors of types `x` and `y`, or for what cells of these types hold; None if there is
    none."""
    one, other = contents(b, x), contents(b, y)
    if one is None or other is None or (one.dtype, one.rank) != (other.dtype, other.rank):
        return None
    pairs = zip(one.shape, other.shape, strict=True)
    shape = tuple(int(d.value) if isinstance(d, Const) and d == e else None for d, e in pairs)
    key = shape, one.dtype
    if key not in b.cells:
        name = "_".join(["Cell", one.dtype.name, *("any" if d is None else str(d) for d in shape)])
        header = GlobalTypeVar(name)
        ty = TensorType(tuple(fresh("d", 0) if d is None else const(d) for d in shape), one.dtype)
        b.cells[key] = TypeData(header, (), (Constructor(name, (ty,), header),))
    return b.cells[key].header


def filled(b: Emitter, x: Expr, ty: Type) -> Expr:
    """A tensor, or a cell that holds one, as an element of type `ty`."""
    data, x = _data(b, ty), held(b, x)
    return x if data is None else Call(data.constructors[0], (x,), ty=ty, span=b.span)


def held(b: Emitter, x: Expr) -> Expr:
    """What a cell that was just made holds; other values themselves."""
    return x.args[0] if isinstance(x, Call) and x.ty is not None and _data(b, x.ty) is not None else x


def head_of(b: Emitter, element: Type, name: str) -> Var:
    """A variable for an element of a container, or for the tensor in it if that is a cell; see `head_pattern`."""
    tensor = contents(b, element)
    if tensor is None or tensor == element:
        return Var(name, ty=element)
    shape = tuple(d if isinstance(d, Const) else b.unknown_dim("d") for d in tensor.shape)
    return Var(name, ty=TensorType(shape, tensor.dtype))


def head_pattern(b: Emitter, element: Type, var: Var) -> Pattern:
    """The pattern of an element that binds `var`."""
    data = _data(b, element)
    return PatternVar(var) if data is None else PatternConstructor(data.constructors[0], (PatternVar(var),))
