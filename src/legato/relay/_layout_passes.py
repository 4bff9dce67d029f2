"""Passes that change layouts, by Relay's names, and what users say of layouts.

relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})

@relay.op.register_alter_op_layout("nn.conv2d")
def blocks(attrs, inputs, tinfos, out_type):
    new = {**attrs, "data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o"}
    return relay.nn.contrib_conv2d_nchwc(*inputs, **new)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import replace
from typing import Any, Self

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.base.kinds import require, require_mapping, require_sequence
from legato.infer.infer import infer
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Expr
from legato.ir.layout import Layout, layout
from legato.ir.op import Op
from legato.relay._op_attrs import ALTER, CONVERT, INFER, rules_of
from legato.relay._op_rules import Attributes, checked, tensors
from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.relay.tir import Layout as NamedLayout
from legato.transform._layout import Relayout
from legato.transform._layout_rules import Found, Placing, Site
from legato.transform.convert_layout import Conversion, prepared

__all__ = ["AlterOpLayout", "ConvertLayout", "InferCorrectLayoutOutput", "LayoutConfig"]

Change = Callable[[Call, Sequence[Expr]], Expr | None]
_config: ContextVar[LayoutConfig | None] = ContextVar("legato.relay.LayoutConfig", default=None)


class _Current(type):
    @property
    def current(cls) -> LayoutConfig | None:
        """The innermost configuration."""
        return _config.get()


class LayoutConfig(metaclass=_Current):
    """A context in which ConvertLayout leaves some of the nn.conv2d: `with LayoutConfig(skip_layers=[0]): …`.

    They are counted from 0, over all that are to be converted in this context.
    """

    def __init__(self, skip_layers: Iterable[int] | None = None) -> None:
        self.skip_layers = [int(n) for n in skip_layers or ()]
        self.skip_counter = 0
        self._tokens: list[Token[LayoutConfig | None]] = []

    def check_skip(self) -> bool:
        """Whether the next layer stays; it is counted."""
        self.skip_counter += 1
        return self.skip_counter - 1 in self.skip_layers

    def reset(self) -> None:
        """Counts from 0 again, and skips nothing."""
        self.skip_counter, self.skip_layers = 0, []

    def __enter__(self) -> Self:
        self._tokens.append(_config.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _config.reset(self._tokens.pop())


@dataclass(frozen=True, slots=True)
class InferCorrectLayoutOutput:
    """What a rule FInferCorrectLayout gives: rule(attrs, new_in_layouts, old_in_layouts, old_in_types).

    input_layouts, output_layouts: how operands are wanted, and how results are held then, as layouts or their text; one
    that is not defined ("") is that of the program. new_attrs: the attributes of the call. The layouts that a rule is
    told are not defined where operands are held as in the program.
    """

    input_layouts: Sequence[Any]
    output_layouts: Sequence[Any]
    new_attrs: Any


def AlterOpLayout() -> Pass:
    """Calls become what rules make of them (`register_alter_op_layout`, `testing.temp_op_attr.TempOpAttr`).

    The call that a rule gives may say other layouts: operands are brought into them, what reads the result follows, and
    the results of functions are as before. TypeCheckError for layouts that do not fit, and a result of another type.
    """

    def run(mod: IRModule, context: PassContext) -> IRModule:
        rules = rules_of(ALTER)

        def change(call: Call, params: Sequence[Expr]) -> Expr | None:
            assert isinstance(call.op, Op)
            rule = rules.get(call.op.name)
            if rule is None:
                return None
            infos = [t for a in call.args for t in tensors(a.checked_type)]
            new = rule(Attributes(call.attrs), list(params), infos, call.checked_type)
            return None if new is None else checked(call, ALTER, new)

        return _changed(mod, change, strict=True)

    return ModulePass(run, PassInfo(3, "AlterOpLayout"))


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Operators in the layouts that are asked for: {"nn.conv2d": ["NHWC", "default"]}, of data and weight.

    "default" is the weight's layout that Relay had for the data's. What is between these operators follows. An operator
    is converted by its rule (`register_convert_op_layout`) if it has one; CompileError where it has no layout and no
    rule.
    """
    wanted = '{"nn.conv2d": ["NHWC", "default"]}'
    desired = {}
    for name, layouts in require_mapping(desired_layouts, "desired_layouts", wanted).items():
        require(isinstance(name, str), name, "desired_layouts", "names of operators")
        desired[name] = tuple(map(str, require_sequence(layouts, f"the layouts of {name}", "a list of them"))) or ("",)

    def conversion() -> Change:
        rules = rules_of(CONVERT)
        config = LayoutConfig.current
        own = tuple(":".join((name, *layouts)) for name, layouts in desired.items() if name not in rules)
        convert = Conversion(own, None if config is None else config.check_skip)

        def change(call: Call, params: Sequence[Expr]) -> Expr | None:
            assert isinstance(call.op, Op)
            rule = rules.get(call.op.name) if call.op.name in desired else None
            if rule is None:
                return convert.of(call, params)
            infos = [t for a in call.args for t in tensors(a.checked_type)]
            new = rule(Attributes(call.attrs), list(params), infos, list(desired[call.op.name]))
            return None if new is None else checked(call, CONVERT, new)

        return change

    def run(mod: IRModule, context: PassContext) -> IRModule:
        blocks = any(c.isdigit() for layouts in desired.values() for c in layouts[0])
        return _changed(mod, conversion(), blocks)

    conversion()  # says at once what is wrong
    return ModulePass(run, PassInfo(3, "ConvertLayout"))


def _changed(mod: IRModule, change: Change, blocks: bool = False, strict: bool = False) -> IRModule:
    module = infer(mod.module)
    graph = prepared(module, blocks)
    rules = {name: _rule(given) for name, given in rules_of(INFER).items()}
    relayout = Relayout(change, rules, strict)
    functions = dict(graph.functions)
    for gv, func in graph.graph_functions():
        body = relayout.rewritten(func.body)
        functions[gv] = func if body is func.body else replace(func, body=body)
    is_same = all(f is graph.functions[gv] for gv, f in functions.items())
    return IRModule(module if is_same else graph.with_functions(functions))


def _rule(given: Callable[..., Any]) -> Callable[[Site], Found | None]:
    """A rule of the user's as those of the compiler."""

    def rule(s: Site) -> Found | None:
        old = [NamedLayout("" if p is None else str(p.old)) for p in s.args]
        new = [NamedLayout("" if p is None else str(p.new)) for p in s.args]
        found = given(Attributes(s.attrs), new, old, list(s.types))
        if found is None:
            return None
        if not isinstance(found, InferCorrectLayoutOutput):
            raise TypeCheckError(f"{INFER} of {s.op.name} gave a {type(found).__name__}",
                                 hint="give an InferCorrectLayoutOutput, or None")  # fmt: skip
        return _found(s, found)

    return rule


def _found(s: Site, found: InferCorrectLayoutOutput) -> Found | None:
    first = next((p for p in s.args if p is not None), None)
    if first is None or len(found.input_layouts) != len(s.args):
        return None
    args = tuple(_placing(str(text), p or first) for text, p in zip(found.input_layouts, s.args, strict=True))
    out = tuple(_placing(str(text), first) for text in found.output_layouts)
    attrs = found.new_attrs
    if isinstance(attrs, Attributes):
        attrs = make_attrs(s.op, dict(attrs)) if s.op.attrs is not None else None
    return Found(attrs, args, out)


def _placing(text: str, like: Placing) -> Placing | None:
    """A tensor held in the layout `text`, whose axes lie in the program as those of another one."""
    if not text:
        return None
    new = layout(text)
    old = Layout(tuple(d for d in like.old.dims if d[0] in new.letters))
    if set(old.letters) != set(new.letters):
        raise CompileError(f"layout {text} has other axes than {like.old}")
    return Placing(old, new)
