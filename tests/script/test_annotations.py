"""Types as annotations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato.relay
from legato import relay
from legato.base.errors import RunError, TypeCheckError
from legato.ir.types import FuncType, TupleType
from legato.relay import ScriptFunction, Tensor
from legato.script.annotations import Dims, type_of
from tests.script.test_random_programs import loaded


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (Tensor[(2, 3), "int8"], "Tensor[(2, 3), int8]"),
        (Tensor[3], "Tensor[(3,), float32]"),
        (Tensor["n"], "Tensor[(n,), float32]"),
        (Tensor("n", np.int64), "Tensor[(n,), int64]"),
        (Tensor[(), "bool"], "bool"),
        (Tensor((relay.ShapeVar("k"), 4)), "Tensor[(k, 4), float32]"),
        (Tensor[("n", "2*n+1", "n // 4")], "Tensor[(n, 2 * n + 1, n // 4), float32]"),
        (int, "int32"),
        (float, "float32"),
        (bool, "bool"),
        (np.float64, "float64"),
        (tuple[int, Tensor[(2,)]], "(int32, Tensor[(2,), float32])"),
        (tuple[()], "()"),
        (Callable[[int, float], bool], "fn (int32, float32) -> bool"),
        (relay.TensorType((1, 2), "int8"), "Tensor[(1, 2), int8]"),
    ],
)
def test_what_an_annotation_stands_for(written: Any, text: str) -> None:
    assert str(type_of(written, Dims())) == text


def test_a_name_is_one_dim_in_a_function() -> None:
    dims = Dims()
    a, b = type_of(Tensor[("n", "n")], dims), type_of(tuple[Tensor("n"), int], dims)
    assert isinstance(b, TupleType)
    assert a.shape[0] is a.shape[1] is b.fields[0].shape[0]  # type: ignore[attr-defined]
    assert type_of(Tensor["n"], Dims()) != b.fields[0], "another function's n"
    unknown = type_of(Tensor[("?", "?")], dims)
    assert unknown.shape[0] != unknown.shape[1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "written", [3, "n", None, dict[str, int], Callable[..., int], tuple[int, ...], Tensor[(-1,)], Tensor[(True,)]]
)
def test_what_is_no_type(written: Any) -> None:
    with pytest.raises(TypeCheckError, match=r"is not a (type of Relay|dim)"):
        type_of(written, Dims())


def test_tensors_have_no_alternatives() -> None:
    with pytest.raises(TypeCheckError, match="no alternatives"):
        _ = Tensor[3] | None


def test_annotations_that_python_does_not_evaluate(tmp_path: Path) -> None:
    module = loaded(
        tmp_path,
        """
from __future__ import annotations
from collections.abc import Callable
from legato import relay
from legato.relay import Tensor, relay_model

@relay
def f(x: Tensor[(n, 4), float32], y: "Tensor[(n, 4), 'float32']", g: Callable[[int], tuple[int, bool]]) -> Tensor[n]:
    return relay.sum(x * y, axis=1)

@relay_model
class Model:
    w: Tensor[(k, n), float32]
    rate: float = 2.0

    def forward(self, x: Tensor[(m, n)]):
        return relay.nn.dense(x, self.w) * self.rate

model = Model()
""",
    )
    ty = module.f.module["main"].ty
    assert isinstance(ty, FuncType)
    shown = "fn [n: ShapeVar](Tensor[(n, 4), float32], Tensor[(n, 4), float32], fn (int32) -> (int32, bool))"
    assert str(ty).startswith(shown)
    assert str(ty.ret) == "Tensor[(n,), float32]"
    assert str(module.model.module["main"].body.ty) == "Tensor[(m, k), float32]"


def test_the_package_is_the_decorator() -> None:
    from legato.relay import relay as named

    assert named is relay is legato.relay
    assert {"relay", "relay_model", "Tensor", "ScriptFunction"} <= set(dir(relay))

    @named
    def f(x: Tensor[(2,)]):
        return named.add(x, relay.const(1.0))

    assert isinstance(f, ScriptFunction)
    np.testing.assert_array_equal(f(np.zeros(2, "float32")), np.ones(2))
    with pytest.raises(RunError, match="an argument is an expression"):
        f(relay.var("x", shape=(2,)))


def test_nothing_of_the_function_runs() -> None:
    ran: list[int] = []

    class Settings:
        width = 2

        @property
        def computed(self) -> int:
            ran.append(1)
            return 3

    settings = Settings()

    @relay
    def good(x: Tensor[(2,)]):
        if settings.width == 3:
            ran.append(2)
        return x * settings.width

    @relay
    def bad(x: Tensor[(2,)]):
        return x * settings.computed

    assert good(np.ones(2, "float32")).tolist() == [2, 2]
    with pytest.raises(legato.base.errors.UnsupportedError, match="is computed by Python code"):
        _ = bad.module
    assert not ran
