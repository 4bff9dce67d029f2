"""Helpers of tests, and the model zoo: `relay.testing.resnet.get_workload(num_layers=18)` gives (module, parameters).

The models themselves are in `legato.testing`, which knows nothing of this package.
"""

from __future__ import annotations

from typing import Any

from legato.ir import expr as _ir
from legato.relay import module as _module
from legato.relay import transform as _transform
from legato.relay.testing import temp_op_attr
from legato.relay.testing.check_gradients import check_grad
from legato.relay.testing.temp_op_attr import TempOpAttr

__all__ = ["TempOpAttr", "check_grad", "create_workload", "run_infer_type", "run_opt_pass", "temp_op_attr"]


def run_opt_pass(expr: Any, opt_pass: Any, import_prelude: bool = False) -> Any:
    """What becomes of an expression by a pass (or a list of passes): a function, or the body of one made for it."""
    passes = opt_pass if isinstance(opt_pass, list) else [opt_pass]
    mod = _module.IRModule.from_expr(expr)
    if import_prelude:
        from legato.relay.prelude import Prelude

        Prelude(mod)
    entry = _transform.Sequential(passes)(mod)["main"]
    return entry if isinstance(expr, _ir.Function) else entry.body


def run_infer_type(expr: _ir.Expr) -> Any:
    """`expr` with types."""
    return run_opt_pass(expr, _transform.InferType())


def create_workload(
    net: _ir.Function | _module.IRModule, initializer: Any = None, seed: int = 0
) -> tuple[_module.IRModule, dict[str, Any]]:
    """The typed module of a network and random parameters for all but its inputs; see `legato.testing.init`."""
    from legato.testing.init import create_workload as create

    mod, params = create(net.module if isinstance(net, _module.IRModule) else net, initializer, seed)
    return _module.IRModule(mod), params


class _Model:
    """A file of the zoo whose modules are IRModules."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.__doc__ = file.__doc__

    def get_net(self, *args: Any, **keywords: Any) -> Any:
        """The function of the model, or the module where it needs more."""
        net = self._file.get_net(*args, **keywords)
        return net if isinstance(net, _ir.Function) else _module.IRModule(net)

    def get_workload(self, *args: Any, **keywords: Any) -> tuple[_module.IRModule, dict[str, Any]]:
        """The typed module of the model and random parameters."""
        mod, params = self._file.get_workload(*args, **keywords)
        return _module.IRModule(mod), params

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from legato import testing

    if name in testing.MODELS:
        return _Model(import_module(f"legato.testing.{name}"))
    raise AttributeError(f"relay.testing has no {name}; its models are {', '.join(testing.MODELS)}")
