"""Where tensors lie: what is found, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.device import HOST, Device, as_device
from legato.base.errors import CompileError, UnsupportedError, VerifyError
from legato.base.node import transform
from legato.infer.devices import Devices, entries, verify_devices
from legato.infer.domains import leaves
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.devices import DEVICE_COPY, ON_DEVICE, OnDeviceAttrs
from legato.ir.expr import Call, Expr, Function, Let, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ops import table
from legato.transform import table as passes
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.plan_devices import PlanDevices
from tests.graphs import programs
from tests.placed import placed
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same


def module(text: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\n{text}', ops=table()))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("cpu", HOST),
        ("gpu:1", Device("cuda", 1)),
        ("cuda/global.texture", Device("cuda", 0, "global.texture")),
        (2, Device("cuda")),
        (Device("vulkan", 3), Device("vulkan", 3)),
    ],
)
def test_names(said: object, wanted: Device) -> None:
    assert as_device(said) == wanted
    assert as_device(str(wanted)) == wanted


@pytest.mark.parametrize("said", ["", "cuda:", "cuda:x", "a b", -1, 99, None, True])
def test_what_is_no_device(said: object) -> None:
    with pytest.raises(CompileError, match="is no device"):
        as_device(said)


def test_what_a_module_says_by_itself_is_checked() -> None:
    with pytest.raises(CompileError, match="on_device: virtual_device: 'cuda:' is no device"):
        module('def @main(%x: float32) { on_device(%x, virtual_device="cuda:") }')


REFUSED = {
    "on_device says both": (
        """%0 = on_device(%x, virtual_device="cuda", constrain_result=True);
        add(%0, on_device(%y, virtual_device="cuda:1", constrain_result=True))""",
        "add: a tensor lies on cuda:0, wanted on cuda:1",
    ),
    "a tensor is on two": (
        """add(on_device(%x, virtual_device="cuda"), on_device(%x, virtual_device="cuda:1"))""",
        "on_device: a tensor lies on cuda:0, wanted on cuda:1",
    ),
    "a function is called with both": (
        """let %f = fn (%a: Tensor[(3,), float32]) { on_device(negative(%a), virtual_device="cuda") };
        %f(on_device(%x, virtual_device="cuda:1", constrain_result=True))""",
        "%f: a tensor lies on cuda:1, wanted on cuda:0",
    ),
    "a cell holds one": (
        """let %r = ref(on_device(negative(%x), virtual_device="cuda", constrain_result=True));
        ref_write(%r, on_device(%y, virtual_device="cuda:1", constrain_result=True));
        ref_read(%r)""",
        "refwrite: a tensor lies on cuda:0, wanted on cuda:1",
    ),
    "branches give one": (
        """if (%c) { on_device(%x, virtual_device="cuda", constrain_result=True) }
        else { on_device(%y, virtual_device="cuda:1", constrain_result=True) }""",
        "if: a tensor lies on cuda:0, wanted on cuda:1",
    ),
    "a copy is of what lies elsewhere": (
        """let %z = on_device(negative(%x), virtual_device="cuda");
        device_copy(%z, src_virtual_device="cuda:1", dst_virtual_device="cpu")""",
        "device_copy: a tensor lies on cuda:0, wanted on cuda:1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    mod = module(f"def @main(%c: bool, %x: Tensor[(3,), float32], %y: Tensor[(3,), float32]) {{ {body} }}")
    with pytest.raises(CompileError) as caught:
        PlanDevices()(mod)
    assert caught.value.message == message
    assert caught.value.span is not None
    assert "constrain_result=False" in str(caught.value.hint)


def test_nothing_said_is_nothing_changed() -> None:
    mod = module("def @main(%x: Tensor[(3,), float32]) { negative(%x) }")
    assert PlanDevices()(mod) is mod
    planned = PlanDevices(primary="cuda")(mod)
    assert planned["main"].attrs["param_virtual_devices"] == ("cuda:0",)  # type: ignore[union-attr]  # a function
    assert PlanDevices(primary="cuda")(planned) is planned is PlanDevices()(planned)


def copies(mod: Module) -> list[Call]:
    """The copies of a module, but those of what nothing places."""
    nodes = [n for _, f in mod.graph_functions() for n in post_order(f)]
    return [n for n in nodes if isinstance(n, Call) and n.op is DEVICE_COPY and _reads(n.args[0])]


def _reads(e: Expr) -> bool:
    return any(isinstance(n, Var) for n in post_order(e))


def without(mod: Module, copy: Call) -> Module:
    """`mod` without one of its copies."""

    def drop(node: Expr) -> Expr | None:
        same_copy = (
            isinstance(node, Call) and node.op is DEVICE_COPY and node.span is copy.span and node.attrs is copy.attrs
        )
        return node.args[0] if same_copy and isinstance(node, Call) else None

    functions = dict(mod.functions)
    for gv, func in mod.graph_functions():
        made = transform(func, drop)
        assert isinstance(made, Function)
        functions[gv] = made
    return mod.with_functions(functions)


@examples(40)
@given(programs(steps=12, limit=256), st.integers(0, 1 << 30))
def test_a_copy_less_is_found(program: language.Program, seed: int) -> None:
    planned = EliminateDead()(placed(infer(program.module), seed)[1])  # what nobody reads may be anywhere
    verify_devices(planned)
    for copy in copies(planned)[:6]:
        with pytest.raises(VerifyError, match="tensors are read on devices where they are not"):
            verify_devices(without(planned, copy))


@examples(40)
@given(language.programs(size=40), st.integers(0, 1 << 30))
def test_plans_of_language_programs(program: language.Program, seed: int) -> None:
    said, planned = placed(program.module, seed)
    verify_devices(planned)
    assert PlanDevices(primary="cuda")(planned) is planned
    assert same(evaluate(planned, program.args), evaluate(said, program.args))
    found = Devices(planned)
    for _, func in planned.graph_functions():
        for node in post_order(func):
            if isinstance(node, Let) and not isinstance(node.value, Op):  # each use of an operator has its own
                names = {found.device(leaf) for leaf in leaves(found.of(node.var))}
                assert names == {found.device(leaf) for leaf in leaves(found.of(node.value))}


def test_a_long_chain() -> None:
    func = module("def @main(%x: Tensor[(3,), float32]) { negative(%x) }")["main"]
    assert isinstance(func, Function)
    (x,), step = func.params, func.body
    e: Expr = x
    for n in range(100_000):
        e = step.with_children((step.children()[0], e))
        if n % 1000 == 0:
            e = Call(ON_DEVICE, (e,), OnDeviceAttrs(("cuda", "cuda:1")[n // 1000 % 2]), ty=e.ty)
    planned = PlanDevices()(Module.from_expr(func.with_children((x, e))))
    nodes = post_order(planned["main"])  # type: ignore[arg-type]  # a function
    assert sum(isinstance(n, Call) and n.op is DEVICE_COPY for n in nodes) == 100


@examples(6)
@given(language.programs(size=30), st.integers(0, 1 << 30))
def test_passes_keep_plans(program: language.Program, seed: int) -> None:
    """Whatever pass a planned program goes through, it is read on devices where it is."""
    planned = placed(program.module, seed)[1]
    for name, p in passes().items():
        if not p.keeps_meaning or name in ("low-precision", "fuse"):
            continue
        if name == "defunctionalize" and program.gives_functions:
            continue
        try:
            new = p()(planned)
        except UnsupportedError:
            assert name == "to-cps"  # it says so
            continue
        new = PlanDevices(calls=True)(new) if name == "defunctionalize" else new
        found = Devices(new, is_lowered=True, entries=entries(new))
        assert [fault.message for fault in found.faults] == [], name


def test_values_without_parts_lie_everywhere() -> None:
    planned = PlanDevices()(
        module("""type List[A] { Cons(A, List[A]), Nil }
        def @main(%x: Tensor[(3,), float32]) {
          let %n = Nil;
          (Cons(on_device(negative(%x), virtual_device="cuda", constrain_result=True), %n),
           Cons(on_device(exp(on_device(%x, virtual_device="cuda")), virtual_device="cpu", constrain_result=True), %n))
        }""")
    )
    assert planned["main"].attrs["result_virtual_device"] == "cuda:0, cpu:0"  # type: ignore[union-attr]  # a function


def test_results_of_type_variables() -> None:
    mod = module("""def @id[A](%x: A) -> A { %x }
        def @main(%x: Tensor[(3,), float32], %y: Tensor[(3,), float32]) {
          let %t = @id((%x, on_device(negative(%y), virtual_device="cuda")));
          (%t.0, on_device(exp(%t.1), virtual_device="cuda"))
        }""")
    planned = PlanDevices()(mod)
    main = planned["main"]
    assert isinstance(main, Function)
    assert main.attrs["param_virtual_devices"] == ("cuda:0", "cuda:0")
    assert main.attrs["result_virtual_device"] == "cuda:0, cpu:0"
