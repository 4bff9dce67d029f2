"""Modules as JSON in the form of `tvm.ir.save_json`, for tests: what TVM's serializer writes.

Each record of attributes has its C++ fields by how they are written: n the number of a node, i an integer, f a double,
b a bool, d a dtype, s a String (a node), t a std::string.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.base.node import post_order
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

CONV = "strides:n padding:n dilation:n groups:i channels:n kernel_size:n data_layout:s kernel_layout:s out_layout:s"
POOL = "pool_size:n strides:n padding:n dilation:n layout:s out_layout:s ceil_mode:b"
SCHEDULED = "auto_scheduler_rewritten_layout:s meta_schedule_original_shape:n"
NORM = "axis:i epsilon:f center:b scale:b"
RECORDS = {
    "nn.conv2d": (
        "Conv2DAttrs",
        f"{CONV} {SCHEDULED} out_dtype:d",
    ),
    "nn.conv2d_transpose": ("Conv2DTransposeAttrs", f"{CONV} output_padding:n out_dtype:d"),
    "nn.dense": ("DenseAttrs", f"units:n {SCHEDULED} out_dtype:d"),
    "nn.batch_matmul": (
        "BatchMatmulAttrs",
        f"out_dtype:d transpose_a:b transpose_b:b {SCHEDULED}",
    ),
    "nn.bias_add": ("BiasAddAttrs", "axis:i"),
    "nn.batch_norm": ("BatchNormAttrs", NORM),
    "nn.layer_norm": ("LayerNormAttrs", NORM),
    "nn.softmax": ("SoftmaxAttrs", "axis:i"),
    "nn.leaky_relu": ("LeakyReluAttrs", "alpha:f"),
    "nn.lrn": ("LRNAttrs", "size:i axis:i alpha:f beta:f bias:f"),
    "nn.pad": ("PadAttrs", "pad_width:n pad_mode:t"),
    "nn.max_pool2d": ("MaxPool2DAttrs", POOL),
    "nn.avg_pool2d": ("AvgPool2DAttrs", f"{POOL} count_include_pad:b"),
    "nn.global_avg_pool2d": ("GlobalPool2DAttrs", "layout:s out_layout:s"),
    "nn.adaptive_avg_pool2d": ("AdaptivePool2DAttrs", "output_size:n layout:t out_layout:s"),
    "nn.dropout": ("DropoutAttrs", "rate:f"),
    "concatenate": ("ConcatenateAttrs", "axis:i"),
    "split": ("SplitAttrs", "indices_or_sections:n axis:i"),
    "transpose": ("TransposeAttrs", "axes:n"),
    "reshape": ("ReshapeAttrs", "newshape:n allowzero:b"),
    "expand_dims": ("ExpandDimsAttrs", "axis:i num_newaxis:i"),
    "squeeze": ("SqueezeAttrs", "axis:n"),
    "strided_slice": ("StridedSliceAttrs", "begin:n end:n strides:n slice_mode:t axes:n"),
    "take": ("TakeAttrs", "batch_dims:n axis:n mode:t"),
    "stack": ("StackAttrs", "axis:n"),
    "repeat": ("RepeatAttrs", "repeats:n axis:n"),
    "gather": ("GatherAttrs", "axis:n"),
    "sum": ("ReduceAttrs", "axis:n keepdims:b exclude:b"),
    "mean": ("ReduceAttrs", "axis:n keepdims:b exclude:b"),
    "argmax": ("ArgReduceAttrs", "axis:n keepdims:b select_last_index:b exclude:b"),
    "topk": ("TopKAttrs", "k:n axis:i is_ascend:b ret_type:t dtype:d"),
    "one_hot": ("OneHotAttrs", "depth:i axis:i dtype:d"),
    "cast": ("CastAttrs", "dtype:d"),
    "clip": ("ClipAttrs", "a_min:f a_max:f"),
    "zeros": ("InitOpAttrs", "shape:n dtype:d"),
    "image.resize2d": (
        "Resize2DAttrs",
        "size:n roi:n layout:t method:t coordinate_transformation_mode:t rounding_method:t cubic_alpha:f "
        "cubic_exclude:i extrapolation_value:f out_dtype:d",
    ),
}


class Writer:
    """The table of nodes; node 0 is null."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}, {}]  # the root comes first, and is filled in last
        self.arrays: list[str] = []
        self.known: dict[Any, int] = {}

    def text(self, root: dict[str, Any]) -> str:
        """The JSON whose root is that node."""
        self.nodes[1] = root
        found = {"root": 1, "nodes": self.nodes, "b64ndarrays": self.arrays, "attrs": {"tvm_version": "0.18.0"}}
        return json.dumps(found, indent=2)

    def add(self, kind: str, /, **attrs: Any) -> int:
        return self.put({"type_key": kind, "attrs": {name: str(value) for name, value in sorted(attrs.items())}})

    def put(self, node: dict[str, Any]) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def array(self, parts: list[int]) -> int:
        return self.put({"type_key": "Array", **({"data": parts} if parts else {})})

    def string(self, value: str) -> int:
        return self.put({"type_key": "runtime.String", "repr_str": value})

    def value(self, value: Any) -> int:
        """An attribute value, or a dim."""
        match value:
            case None:
                return 0
            case Const():
                return self.value(value.value)
            case DimVar():
                if value not in self.known:
                    self.known[value] = self.add("tir.Var", name=self.string(value.name), dtype="int32", span=0,
                                                 type_annotation=0)  # fmt: skip
                return self.known[value]
            case bool() | int():
                return self.add(
                    "IntImm", dtype="bool" if isinstance(value, bool) else "int32", value=int(value), span=0
                )
            case float():
                return self.add("FloatImm", dtype="float64", value=value, span=0)
            case str():
                return self.string(value)
            case tuple():
                return self.array([self.value(v) for v in value])
        raise AssertionError(value)

    # ------------------------------------------------------------------ types

    def type(self, ty: Type | None) -> int:
        match ty:
            case None:
                return 0
            case TensorType():
                shape = self.array([self.value(d) for d in ty.shape])
                return self.add("relay.TensorType", shape=shape, dtype=ty.dtype, span=0)
            case TupleType():
                return self.add("TupleType", fields=self.array([self.type(f) for f in ty.fields]), span=0)
            case FuncType():
                args, bound = (self.array([self.type(t) for t in ts]) for ts in (ty.arg_types, ty.type_params))
                return self.add("FuncType", arg_types=args, type_params=bound, type_constraints=self.array([]), span=0,
                                ret_type=self.type(ty.ret_type))  # fmt: skip
            case RefType():
                return self.add("relay.RefType", value=self.type(ty.value), span=0)
            case TypeCall():
                return self.add("TypeCall", func=self.header(ty.func), args=self.array([self.type(t) for t in ty.args]),
                                span=0)  # fmt: skip
            case GlobalTypeVar():
                return self.add("TypeCall", func=self.header(ty), args=self.array([]), span=0)
            case TypeVar():
                if ty not in self.known:
                    self.known[ty] = self.add("TypeVar", name_hint=self.string(ty.name), kind=0, span=0)
                return self.known[ty]
        raise AssertionError(ty)

    def header(self, ty: Any) -> int:
        if ty not in self.known:
            self.known[ty] = self.add("GlobalTypeVar", name_hint=self.string(ty.name), kind=5, span=0)
        return self.known[ty]

    # ------------------------------------------------------------------ expressions

    def expr(self, root: Expr) -> int:
        made: dict[int, int] = {}
        for node in post_order([root]):
            made[id(node)] = self.node(node, made)
        return made[id(root)]

    def node(self, e: Expr, made: dict[int, int]) -> int:  # noqa: C901  # a case for each kind
        def of(*parts: Expr) -> int:
            return self.array([made[id(p)] for p in parts])

        common = {"_checked_type_": 0, "span": 0, "virtual_device_": 0}
        match e:
            case Var():
                return self.var(e)
            case GlobalVar():
                return self.named(e, "GlobalVar", name_hint=self.string(e.name), **common)
            case Op():
                if e not in self.known:
                    self.known[e] = self.put({"type_key": "Op", "repr_str": e.name})
                return self.known[e]
            case Constructor():
                inputs = self.array([self.type(t) for t in e.inputs]) if e not in self.known else 0
                return self.named(e, "relay.Constructor", name_hint=self.string(e.name), inputs=inputs, tag=e.tag,
                                  belong_to=self.header(e.belongs_to), span=0, _checked_type_=0)  # fmt: skip
            case Constant():
                self.arrays.append(blob(e.data))
                return self.add("relay.Constant", data=len(self.arrays) - 1, **common)
            case Function():
                attrs = self.dict_attrs(dict(e.attrs))
                return self.add("relay.Function", params=of(*e.params), body=made[id(e.body)], attrs=attrs,
                                ret_type=self.type(e.ret_type), **common, type_params=self.array(
                                    [self.type(t) for t in e.type_params if isinstance(t, TypeVar)]))  # fmt: skip
            case Call():
                attrs = self.record(e.op.name, e.attrs) if isinstance(e.op, Op) and e.attrs is not None else 0
                return self.add("relay.Call", op=made[id(e.op)], args=of(*e.args), attrs=attrs, type_args=0, **common)
            case Let():
                return self.add(
                    "relay.Let", var=self.var(e.var), value=made[id(e.value)], body=made[id(e.body)], **common
                )
            case If():
                parts = (made[id(p)] for p in e.children())
                return self.add("relay.If", **dict(zip(("cond", "true_branch", "false_branch"), parts, strict=True)),
                                **common)  # fmt: skip
            case Tuple():
                return self.add("relay.Tuple", fields=of(*e.fields), **common)
            case TupleGetItem():
                return self.add("relay.TupleGetItem", tuple_value=made[id(e.tuple_value)], index=e.index, **common)
            case RefCreate():
                return self.add("relay.RefCreate", value=made[id(e.value)], **common)
            case RefRead():
                return self.add("relay.RefRead", ref=made[id(e.ref)], **common)
            case RefWrite():
                return self.add("relay.RefWrite", ref=made[id(e.ref)], value=made[id(e.value)], **common)
            case Match():
                clauses = [
                    self.add("relay.Clause", lhs=self.pattern(c.pattern), rhs=made[id(c.body)]) for c in e.clauses
                ]
                return self.add("relay.Match", data=made[id(e.data)], clauses=self.array(clauses),
                                complete=int(e.complete), **common)  # fmt: skip
        raise AssertionError(e)

    def named(self, key: Any, kind: str, /, **attrs: Any) -> int:
        if key not in self.known:
            self.known[key] = self.add(kind, **attrs)
        return self.known[key]

    def var(self, v: Var) -> int:
        if v not in self.known:
            vid = self.add("relay.Id", name_hint=self.string(v.name))
            self.known[v] = self.add("relay.Var", vid=vid, type_annotation=self.type(v.ty), span=0, _checked_type_=0,
                                     virtual_device_=0)  # fmt: skip
        return self.known[v]

    def pattern(self, p: Pattern) -> int:
        match p:
            case PatternVar():
                return self.add("relay.PatternVar", var=self.var(p.var), span=0)
            case PatternTuple():
                return self.add(
                    "relay.PatternTuple", patterns=self.array([self.pattern(q) for q in p.patterns]), span=0
                )
            case PatternConstructor():
                return self.add("relay.PatternConstructor", constructor=self.node(p.constructor, {}), span=0,
                                patterns=self.array([self.pattern(q) for q in p.patterns]))  # fmt: skip
        return self.add("relay.PatternWildcard", span=0)

    def record(self, name: str, attrs: Any) -> int:
        kind, fields = RECORDS[name]
        found = {}
        for field in fields.split():
            field, _, how = field.partition(":")
            value = getattr(attrs, field, "" if how == "s" else None)
            if how == "n":
                found[field] = self.value(value)
            elif how == "s":
                found[field] = self.string(value)
            elif how == "b":
                found[field] = int(value)
            elif how == "f":
                found[field] = f"{value:.17g}"
            else:
                found[field] = value if value is not None else ""
        return self.add(f"relay.attrs.{kind}", **found)

    def dict_attrs(self, attrs: dict[str, Any]) -> int:
        if not attrs:
            return 0
        values = [self.value(v) for v in attrs.values()]
        return self.add("DictAttrs", __dict__=self.put({"type_key": "Map", "keys": list(attrs), "data": values}))


def blob(data: np.ndarray[Any, Any]) -> str:
    """An array as TVM's b64ndarrays have it."""
    return base64.b64encode(raw_array(data)).decode()


def raw_array(data: np.ndarray[Any, Any]) -> bytes:
    """An array as TVM saves it."""
    code = {"i": 0, "u": 1, "f": 2, "b": 1}[data.dtype.kind]
    bits = 1 if data.dtype.kind == "b" else 8 * data.dtype.itemsize
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, data.ndim, code, bits, 1)
    shape = struct.pack(f"<{data.ndim}q", *data.shape)
    raw = np.ascontiguousarray(data).tobytes()
    return head + shape + struct.pack("<q", len(raw)) + raw


def tvm_json(mod: Module) -> str:
    """A module as TVM saves it."""
    w = Writer()
    types = []
    for header, data in mod.types.items():
        made = w.array([w.node(c, {}) for c in data.constructors])
        bound = w.array([w.type(t) for t in data.type_vars])
        types += [w.header(header), w.add("relay.TypeData", header=w.header(header), type_vars=bound, constructors=made,
                                          span=0)]  # fmt: skip
    functions = []
    for gv, func in mod.graph_functions():
        functions += [w.node(gv, {}), w.expr(func)]
    maps = {
        "functions": w.put({"type_key": "Map", "data": functions}),
        "type_definitions": w.put({"type_key": "Map", **({"data": types} if types else {})}),
        "attrs": w.dict_attrs(dict(mod.attrs)),
        "global_infos": w.put({"type_key": "Map"}),
        "global_var_map_": 0, "global_type_var_map_": 0, "source_map": 0,
    }  # fmt: skip
    return w.text({"type_key": "IRModule", "attrs": {name: str(index) for name, index in maps.items()}})
