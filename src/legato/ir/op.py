"""The operator record: everything that anyone needs to know about an operator, in one value.

An `Op` is itself an expression (the callee of a Call). There is no registry: whoever has the object has the operator;
`ops.table()` finds those of the package by looking, and a user's own operator has the same rights.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim, TensorType, TupleType, Type

if TYPE_CHECKING:
    from legato.te.tensor import Tensor

__all__ = ["Cost", "Fusion", "Narrow", "Op", "Relation", "Sample"]


class Fusion(enum.IntEnum):
    """How an operator may join others in one kernel; ordered from most to least willing."""

    ELEMWISE = 0  # output element i reads input element i only
    BROADCAST = 1  # elementwise up to broadcasting
    INJECTIVE = 2  # each output element reads O(1) elements of each input (transpose, pad, slice…)
    REDUCE = 3  # reductions: a consumer may not be fused behind it unless elementwise
    CONTRACTION = 4  # sums of products with much reuse: the anchor of a group; elementwise consumers join its epilogue
    TUPLE = 7
    OPAQUE = 8  # never fused


class Narrow(enum.Enum):
    """What an operator does where float32 data may be held in 16 bits (`precision="bfloat16"`)."""

    NEVER = "never"  # computes in float32, from float32
    MOVES = "moves"  # its results are elements of its float operands, so they are as narrow as these
    CONTRACTS = "contracts"  # sums of products of narrow operands, formed in float32: the attribute out_dtype says so


class Relation(Protocol):
    """What a type relation may ask and say; `infer` implements it.

    Dims given to `same` are unified: holes are solved, provably different dims are a TypeCheckError at the call's span,
    undecided pairs become constraints that are checked at run time.
    """

    def same(self, a: Dim, b: Dim, what: str) -> Dim:
        """Requires a == b and returns the better known of both; `what` names it in the message."""

    def unify(self, a: Type, b: Type, what: str) -> Type:
        """Requires two types to be equal; solves holes (un-annotated weights get their types here)."""

    def fresh(self, name: str, hi: int | None = None) -> Dim:
        """A new dim for a data-dependent extent (existential)."""

    def value(self, arg: int) -> tuple[Dim, ...] | None:
        """The symbolic value (flattened) of argument `arg` if it is a known small integer tensor."""

    def fail(self, message: str, hint: str | None = None, details: Sequence[str] = ()) -> TypeCheckError:
        """An error at this call, to be raised by the relation."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One test case of an operator: types or arrays of the arguments, and attributes.

    `args` are (shape, dtype) pairs filled with random data, or arrays. `exact` compares bit for bit with the reference,
    otherwise `rtol` (relative to the largest |reference|) applies.
    """

    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    rtol: float = 1e-5
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one call: arithmetic operations and bytes moved, as dims."""

    flops: Dim
    bytes: Dim


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Op(Expr):
    """An operator.

    args:      argument names in order; a trailing "*name" is a tuple argument, which may be written as any number of
               arguments (`ir.attrs.pack_args`): a call always holds one expression per name, and the rules below are
               given a TupleType, a tuple of arrays, or a tuple of te tensors there.
    attrs:     the frozen dataclass of attributes, or None. The package's are mappings, too (`attr_record.Attrs`).
    type_rel:  (relation, *arg_types, attrs) -> result type; None means "not enough known yet" (an argument's type may
               hold holes). `attrs` is passed only where the operator has attributes. Raise `relation.fail(…)`.
    reference: (*arrays, attrs) -> array or tuple of arrays, in NumPy: the definition, in the dtype of its inputs.
    compute:   (*te tensors, attrs, out_type) -> te tensor or tuple of them; None: run by its reference.
    value:     (*symbolic values or None, attrs, *arg types) -> symbolic value: for shape arithmetic on small integers.
    grad:      (builder, call, dy) -> for each argument what the cotangent dy of the result adds to its own, or None;
               linear in dy, made of operators (`ops/_gradients`).
    fusion:    how it may join others in one kernel, or that as a function of attrs.
    places:    attrs -> at how many places an element of the result reads each operand (each field of a tuple is one);
               None: at one, or so cheaply that it does not matter.
    cost:      (arg_types, out_type, attrs) -> Cost; None: one flop per output element.
    narrow:    what it does where data may be held in 16 bits, or that as a function of attrs.
    storage:   it takes and gives what is not computed with (`DType.is_computed`), too: it moves elements, converts
               them, or runs by its reference; or that as a function of attrs.
    padded:    for results whose extents the data decides: the operator of the same arguments that gives a tuple of them
               in tensors of their largest extents, filled up with zeros, and behind these a vector of int64, the
               extents that the type relation made (`Relation.fresh`), in order. Compiled code cuts its results.
    expand:    (builder, *arguments, attrs) -> expression: the call by other operators, within lets of the builder. It
               takes the place of the call in compiled code; a dim that the type relation made is there what it is.
    on_host:   names of arguments that the host reads, for extents, wherever the tensors of the call lie.
    of_extents: the result depends on the extents of arguments alone: the host has it, if nobody else wants it.
    stateful:  the result is not a function of the arguments alone: never merged, moved or folded.
    text_defaults: attributes that stand for something else than the record's default where a text leaves them out,
               as they do in Relay's text (whose Python functions had other defaults than its records).
    """

    name: str
    args: tuple[str, ...]
    type_rel: Callable[..., Type | None]
    reference: Callable[..., Any]
    attrs: type | None = None
    compute: Callable[..., Tensor | tuple[Tensor, ...]] | None = None
    value: Callable[..., tuple[Dim, ...] | None] | None = None
    grad: Callable[[Any, Call, Expr], Sequence[Any]] | None = None
    fusion: Fusion | Callable[[Any], Fusion] = Fusion.OPAQUE
    places: Callable[[Any], Sequence[int]] | None = None
    cost: Callable[[Sequence[TensorType], Type, Any], Cost] | None = None
    narrow: Narrow | Callable[[Any], Narrow] = Narrow.NEVER
    storage: bool | Callable[[Any], bool] = False
    padded: Op | None = None
    expand: Callable[..., Expr] | None = None
    on_host: tuple[str, ...] = ()
    of_extents: bool = False
    stateful: bool = False
    text_defaults: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    doc: str = ""

    def fuses(self, attrs: Any) -> Fusion:
        """How a call with `attrs` may join others."""
        return self.fusion if isinstance(self.fusion, Fusion) else self.fusion(attrs)

    def stores(self, attrs: Any) -> bool:
        """Whether a call with `attrs` may be given, and may give, what is not computed with."""
        return self.storage if isinstance(self.storage, bool) else self.storage(attrs)

    def require_computed(self, relation: Relation, attrs: Any, types: Sequence[Type], what: str) -> None:
        """TypeCheckError where a call computes and one of `types` is not computed with: `what` is said of it."""
        if self.stores(attrs):
            return
        for ty in types:
            if isinstance(ty, TupleType):
                self.require_computed(relation, attrs, ty.fields, what)
            elif isinstance(ty, TensorType) and ty.dtype.is_string:
                hint = "strings are moved and compared for equality; strings.… look into them"
                raise relation.fail("it does not take strings", hint=hint)
            elif isinstance(ty, TensorType) and ty.dtype.is_storage:
                hint = "float32, for one, has all of its numbers: cast before, and back where the result is stored"
                raise relation.fail(f"{what.format(ty.dtype)}, which only stores: cast first", hint=hint)

    def tail(self, attrs: Any) -> tuple[Any, ...]:
        """What follows the arguments where a rule of this record is called: `attrs`, or nothing if there are none."""
        return () if self.attrs is None else (attrs,)
