"""An operator, one without a loop definition, and a pass, in a script of a user's own: nothing is registered anywhere.

python own_operator.py FOLDER        writes two artifacts there and reads them back
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import legato
from legato.arith.expr import Var as Dim
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Fusion, Op, Relation
from legato.ir.types import TensorType, Type
from legato.pipelines import DEFAULT
from legato.te import math as te
from legato.te.tensor import Tensor, compute
from legato.transform.pass_ import FunctionPass

Array = np.ndarray[Any, Any]

# ------------------------------------------------------------------ an operator


@dataclass(frozen=True, slots=True)
class SquareplusAttrs:
    """b: how round the corner is."""

    b: float = 4.0


def _same(relation: Relation, data: Type, attrs: SquareplusAttrs) -> Type:
    if not isinstance(data, TensorType) or not data.dtype.is_float:
        raise relation.fail("takes one tensor of floats")
    return data


def _squareplus(x: Array, attrs: SquareplusAttrs) -> Array:
    return (x + np.sqrt(x * x + x.dtype.type(attrs.b))) / x.dtype.type(2)


def _squareplus_loops(x: Tensor, attrs: SquareplusAttrs, out: TensorType) -> Tensor:
    def element(*i: Any) -> Any:
        return (x[i] + te.sqrt(x[i] * x[i] + te.literal(attrs.b, x.dtype))) / te.literal(2.0, x.dtype)

    return compute(out.shape, element, "squareplus")


squareplus = Op(
    name="my.squareplus",
    args=("data",),
    attrs=SquareplusAttrs,
    type_rel=_same,
    reference=_squareplus,
    compute=_squareplus_loops,
    fusion=Fusion.ELEMWISE,
    doc="(x + √(x² + b)) / 2: a smooth relu.",
)

# ------------------------------------------------------------------ one that NumPy runs


def _median_type(relation: Relation, data: Type) -> Type:
    if not isinstance(data, TensorType) or not data.rank:
        raise relation.fail("takes one tensor of rank 1 or more")
    return TensorType(data.shape[:-1], data.dtype)


median = Op(
    name="my.median",
    args=("data",),
    type_rel=_median_type,
    reference=lambda x: np.median(x, axis=-1).astype(x.dtype),
    doc="The median of each row.",
)

# ------------------------------------------------------------------ a pass


@dataclass(frozen=True, slots=True)
class DropDoubleNegation(FunctionPass):
    """negative(negative(x))  =>  x"""

    name = "drop-double-negation"

    def function(self, func: Function, mod: Module) -> Function:
        body = transform(func.body, _positive)
        return func if body is func.body else replace(func, body=body)


def _is_negation(e: Expr) -> bool:
    return isinstance(e, Call) and isinstance(e.op, Op) and e.op.name == "negative"


def _positive(node: Expr) -> Expr | None:
    if isinstance(node, Call) and _is_negation(node) and isinstance(node.args[0], Call) and _is_negation(node.args[0]):
        return node.args[0].args[0]
    return None


_AT = [p.name for p in DEFAULT].index("to-a-normal")
PASSES = (*DEFAULT[:_AT], DropDoubleNegation(), *DEFAULT[_AT:])

# ------------------------------------------------------------------ three ways to write the same program

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 5), float32]) {
  negative(negative(my.squareplus(tanh(%x), b=1f)))
}
"""


def by_builder() -> Module:
    b = Builder()
    x = b.var("x", (Dim("n", lo=0), 5))
    y = b.call(squareplus, b.tanh(x), b=1.0)
    return Module.from_expr(b.function([x], b.negative(b.negative(y))))


def by_onnx() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Squareplus", ["a"], ["b"], domain="my.domain", b=1.0),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=8)


def from_onnx_squareplus(builder: Any, x: Expr, *, b: float = 4.0) -> Expr:
    """The converter of my.domain's Squareplus: keyword-only parameters are its attributes."""
    return builder.call(squareplus, x, b=b)  # type: ignore[no-any-return]  # as users write it


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5)).astype(np.float32)
    wanted = _squareplus(np.tanh(x), SquareplusAttrs(1.0))

    programs = {
        "builder": by_builder(),
        "text": legato.parse(TEXT, ops=[squareplus]),
        "onnx": legato.from_onnx(by_onnx(), custom={"my.domain::Squareplus": from_onnx_squareplus}),
    }
    for name, module in programs.items():
        exe = legato.compile(module, ops=[squareplus], passes=PASSES, keep=["drop-double-negation"])
        np.testing.assert_allclose(exe(x), wanted, rtol=1e-5)
        assert "negative" not in exe.module_after("drop-double-negation")
        assert (exe.stats["kernels"], exe.stats["host_operators"]) == (1, 0), exe.stats
        assert legato.verify(module, [x], ops=[squareplus])
        print(f"{name}: one kernel, right to {np.abs(exe(x) - wanted).max():.1e}")

    exe.save(folder / "squareplus.legato")
    np.testing.assert_array_equal(legato.load(folder / "squareplus.legato")(x), exe(x))

    text = TEXT.replace("my.squareplus(tanh(%x), b=1f)", "my.median(tanh(%x))")
    exe = legato.compile(legato.parse(text, ops=[median]), ops=[median])
    np.testing.assert_allclose(exe(x), np.median(np.tanh(x), axis=-1), rtol=1e-5)
    assert exe.stats["host_operators"] == 1
    exe.save(folder / "median.legato")
    np.testing.assert_array_equal(legato.load(folder / "median.legato", ops=[median])(x), exe(x))
    print("median: run by NumPy, called from native code")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
