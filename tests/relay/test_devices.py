"""Devices under the names that Relay's users know."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.device import HOST, Device
from legato.base.errors import CompileError, VerifyError
from legato.base.node import transform
from legato.interp import evaluate
from legato.ir.devices import DEVICE_COPY
from legato.ir.expr import Call, Expr
from legato.pipelines import DEFAULT
from legato.relay.devices import CompilationConfig, VirtualDevice, make_compilation_config


class Numbered:
    """A device as TVM has it."""

    def __init__(self, device_type: int, device_id: int) -> None:
        self.device_type, self.device_id = device_type, device_id


def network() -> relay.IRModule:
    """Products on one device, a sum on another."""
    x, y = (relay.var(name, shape=(2, 3)) for name in "xy")
    product = relay.annotation.on_device(relay.multiply(x, y), Numbered(2, 1))
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, y], relay.add(product, product))))


def test_plan() -> None:
    planned = relay.transform.PlanDevices(make_compilation_config(target="cuda"))(network())
    main = planned["main"]
    assert main.attrs["param_virtual_devices"] == ("cuda:1", "cuda:1")
    assert main.attrs["result_virtual_device"] == "cuda:0"
    assert 'device_copy(%0, src_virtual_device="cuda:1", dst_virtual_device="cuda:0")' in planned.astext()
    args = [np.full((2, 3), v, np.float32) for v in (2, 3)]
    for mod in (network(), planned):
        assert evaluate(mod.module, args).tolist() == legato.compile(mod.module)(*args).tolist() == [[12] * 3] * 2
        assert relay.create_executor(mod=mod).evaluate()(*args).tolist() == [[12] * 3] * 2


@pytest.mark.parametrize(
    ("target", "primary"),
    [(None, HOST), ("llvm -mcpu=core-avx2", HOST), ("cuda -arch=sm_80", Device("cuda")), (["llvm", "cuda"], HOST),
     ({"cuda": "cuda"}, Device("cuda")), ({"kind": "opencl"}, Device("opencl")), ([2], Device("cuda"))],
)  # fmt: skip
def test_configurations(target: object, primary: Device) -> None:
    assert make_compilation_config(None, target) == CompilationConfig(HOST, primary)


def test_the_fallback_is_the_primary_device() -> None:
    context = SimpleNamespace(config={"relay.fallback_device_type": 2})
    assert make_compilation_config(context, ["llvm", "cuda"]) == CompilationConfig(HOST, Device("cuda"))
    assert make_compilation_config(None, "cuda", "cpu") == CompilationConfig(HOST, Device("cuda"))
    assert VirtualDevice(target="cuda -arch=sm_80") == Device("cuda")


def test_virtual_devices() -> None:
    assert VirtualDevice() == relay.VirtualDevice("cpu") == HOST
    assert VirtualDevice(Numbered(2, 1), "cuda", "global.texture") == Device("cuda", 1, "global.texture")
    x = relay.var("x", shape=(3,))
    call = relay.annotation.on_device(x, VirtualDevice("cuda", memory_scope="shared"), True, False)
    assert dict(call.attrs) == {
        "virtual_device": "cuda:0/shared", "constrain_result": True, "constrain_body": False,
    }  # fmt: skip
    copy = relay.device_copy(x, "cpu", Numbered(2, 0))
    assert dict(copy.attrs) == {"src_virtual_device": "cpu:0", "dst_virtual_device": "cuda:0"}
    assert relay.op.device_copy is relay.device_copy
    with pytest.raises(CompileError, match="'a device' is no device"):
        relay.annotation.on_device(x, "a device")


def test_analysis() -> None:
    mod = network()
    main = mod["main"]
    (on_device,) = set(main.body.args)
    assert relay.analysis.collect_device_annotation_ops(main) == {on_device: 2}
    found = relay.analysis.collect_device_info(main)
    assert found[main.body] == found[on_device] == 1
    assert found[on_device.args[0]] == found[main.params[0]] == found[main.params[1]] == 2
    assert relay.analysis.collect_device_info(main.params[0]) == {}


def test_what_is_planned_is_verified() -> None:
    planned = relay.transform.PlanDevices("cuda")(network())
    relay.analysis.verify_devices(planned)

    def drop(node: Expr) -> Expr | None:
        return node.args[0] if isinstance(node, Call) and node.op is DEVICE_COPY else None

    wrong = planned.module.with_function(planned.module.var("main"), transform(planned["main"], drop))
    with pytest.raises(VerifyError) as caught:
        relay.analysis.verify_devices(wrong)
    assert caught.value.message == "tensors are read on devices where they are not"
    assert caught.value.details == ("function: a tensor lies on cuda:1, wanted on cuda:0",)
    with pytest.raises(VerifyError, match="a tensor lies on cuda:1, wanted on cuda:0"):
        legato.compile(wrong, passes=[p for p in DEFAULT if p.name != "plan-devices"])
    with pytest.raises(CompileError, match="a tensor lies on cuda:1, wanted on cuda:0"):
        legato.compile(wrong)
