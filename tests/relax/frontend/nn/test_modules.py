"""Layers compute what torch's do, with the same weights under the same names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.interp import evaluate
from legato.relax.frontend import nn
from tests.relax.frontend.nn.traced import LUCK, model, values
from tests.relay.test_names import imported

torch = pytest.importorskip("torch")
T = torch.nn

PAIRS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(5, 3), lambda: T.Linear(5, 3), (2, 4, 5)),
    "Linear without bias": (lambda: nn.Linear(5, 3, bias=False), lambda: T.Linear(5, 3, bias=False), (4, 5)),
    "Conv1D": (lambda: nn.Conv1D(4, 6, 3, 2, 1, groups=2), lambda: T.Conv1d(4, 6, 3, 2, 1, groups=2), (2, 4, 7)),
    "Conv2D": (lambda: nn.Conv2D(4, 6, (3, 2), 2, 1), lambda: T.Conv2d(4, 6, (3, 2), 2, 1), (2, 4, 7, 6)),
    "Conv3D": (lambda: nn.Conv3D(2, 3, 2, bias=False), lambda: T.Conv3d(2, 3, 2, bias=False), (1, 2, 3, 4, 3)),
    "ConvTranspose1D": (
        lambda: nn.ConvTranspose1D(4, 6, 3, 2, 1, 1, groups=2),
        lambda: T.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 5),
    ),
    "ConvTranspose2D": (
        lambda: nn.ConvTranspose2D(4, 3, (2, 3), 2), lambda: T.ConvTranspose2d(4, 3, (2, 3), 2), (2, 4, 5, 3)
    ),
    "LayerNorm": (lambda: nn.LayerNorm(5), lambda: T.LayerNorm(5), (2, 3, 5)),
    "LayerNorm of two axes": (lambda: nn.LayerNorm([3, 5], 1e-3), lambda: T.LayerNorm([3, 5], 1e-3), (2, 3, 5)),
    "LayerNorm alone": (
        lambda: nn.LayerNorm(5, elementwise_affine=False), lambda: T.LayerNorm(5, elementwise_affine=False), (2, 5)
    ),
    "RMSNorm": (lambda: nn.RMSNorm(5, -1, bias=False), lambda: T.RMSNorm(5, eps=1e-5), (2, 3, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), (2, 4, 3, 3)),
    "GroupNorm alone": (lambda: nn.GroupNorm(2, 4, affine=False), lambda: T.GroupNorm(2, 4, affine=False), (2, 4, 3)),
    "ReLU": (nn.ReLU, T.ReLU, (3, 4)),
    "SiLU": (nn.SiLU, T.SiLU, (3, 4)),
    "GELU": (nn.GELU, T.GELU, (3, 4)),
    "Identity": (nn.Identity, T.Identity, (3, 4)),
    "ModuleList": (
        lambda: nn.ModuleList([nn.Linear(4, 6), nn.SiLU(), nn.LayerNorm(6)]),
        lambda: T.Sequential(T.Linear(4, 6), T.SiLU(), T.LayerNorm(6)), (3, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_layer_is_that_of_torch(name: str) -> None:
    ours, theirs, shape = PAIRS[name]
    torch.manual_seed(1)
    reference = theirs()
    for p in reference.parameters():
        torch.nn.init.normal_(p)
    x = values(*shape)
    with torch.no_grad():
        wanted = reference(torch.from_numpy(x)).numpy()
    spec = {"forward": {"x": nn.spec.Tensor(["n", *shape[1:]], "float32")}}
    mod, weights = model(ours(), reference.state_dict(), spec)
    np.testing.assert_allclose(evaluate(mod, [x, *weights], "forward"), wanted, rtol=1e-4, atol=1e-4)


def test_an_embedding() -> None:
    table = T.Embedding(7, 3)
    x = LUCK.integers(0, 7, (2, 4), "int32")
    spec = {"main": {"x": nn.spec.Tensor(["b", "n"], "int32")}}

    class Table(nn.Embedding):
        def main(self, x: nn.Tensor) -> nn.Tensor:
            return self(x)

    mod, weights = model(Table(7, 3), table.state_dict(), spec)
    np.testing.assert_array_equal(legato.compile(mod)(x, *weights), table(torch.from_numpy(x)).detach().numpy())


class Reference(T.Module):  # type: ignore[misc,name-defined]  # torch has no types here
    """What nn.Attention and nn.TimestepEmbedding are, in torch's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (
            T.Linear(8, 6, bias=False),
            T.Linear(5, 6, bias=False),
            T.Linear(5, 6, bias=False),
        )
        self.group_norm = T.GroupNorm(2, 8)
        self.to_out = T.ModuleList([T.Linear(6, 8)])
        self.time = T.ModuleDict(
            {"linear_1": T.Linear(4, 8), "cond_proj": T.Linear(3, 4, bias=False), "linear_2": T.Linear(8, 8)}
        )

    def forward(self, x: Any, y: Any, t: Any, c: Any) -> Any:
        x = self.group_norm(x.transpose(1, 2)).transpose(1, 2)
        q, k, v = (
            f(z).unflatten(-1, (2, 3)).transpose(1, 2) for f, z in ((self.to_q, x), (self.to_k, y), (self.to_v, y))
        )
        found = T.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        embedded = self.time["linear_2"](T.functional.silu(self.time["linear_1"](t + self.time["cond_proj"](c))))
        return self.to_out[0](found), T.functional.gelu(embedded)


class Ours(nn.Attention):
    def __init__(self) -> None:
        super().__init__(8, 5, heads=2, dim_head=3, norm_num_groups=2)
        self.time = nn.TimestepEmbedding(4, 8, post_act_fn="gelu", cond_proj_dim=3)

    def main(self, x: nn.Tensor, y: nn.Tensor, t: nn.Tensor, c: nn.Tensor) -> Any:
        return self.forward(x, y), self.time(t, c)


def test_attention_and_embedded_times() -> None:
    reference = Reference()
    given = values(2, 4, 8), values(2, 3, 5), values(2, 4), values(2, 3)
    T_ = nn.spec.Tensor
    shapes = {"x": ["b", "n", 8], "y": ["b", "m", 5], "t": ["b", 4], "c": ["b", 3]}
    mod, weights = model(Ours(), reference.state_dict(), {"main": {k: T_(s, "float32") for k, s in shapes.items()}})
    with torch.no_grad():
        wanted = reference(*map(torch.from_numpy, given))
    for found in (evaluate(mod, [*given, *weights]), legato.compile(mod)(*given, *weights)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- parameters


def test_modules_hold_modules_and_parameters_by_name() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            self.first = nn.Linear(2, "m")
            self.rest = nn.ModuleList([nn.LayerNorm(3), nn.ReLU()])
            self.named = nn.ModuleDict({"a": nn.Linear(3, 3, bias=False)})
            self.own = nn.ParameterList([nn.Parameter([1]), nn.Parameter([2], "float16")])
            self.by_name = nn.ParameterDict({"z": nn.Parameter((4, "k"))})

    m = Parts()
    names = [
        "first.weight",
        "first.bias",
        "rest.0.weight",
        "rest.0.bias",
        "named.a.weight",
        "own.0",
        "own.1",
        "by_name.z",
    ]
    assert list(m.state_dict()) == [n for n, _ in m.named_parameters()] == names
    assert list(m.state_dict(prefix="model"))[:2] == ["model.first.weight", "model.first.bias"]
    assert len(list(m.parameters())) == len(names)
    m.rest.append(nn.Linear(3, 4, dtype="float64"))
    m.named["b"] = nn.Embedding(5, 6)
    m.named.update({"a": nn.ReLU()})
    m.own.extend([nn.Parameter([3])])
    assert {n: p.shape for n, p in m.named_parameters()}["rest.2.weight"] == [4, 3]
    assert [len(part) for part in (m.rest, m.named, m.own, m.by_name)] == [3, 2, 3, 1]
    assert (list(m.named), m.named.pop("b").num, m.named.get("b"), "a" in m.named) == (["a", "b"], 5, None, True)
    m.to("float16")
    assert {p.dtype for p in m.parameters()} == {"float16"}
    assert repr(m.first.weight) == 'Parameter([m, 2], "float16")'
    with pytest.raises(TypeCheckError, match="ModuleList of a Parameter at 3: Modules"):
        m.rest.append(m.own[0])


def test_weights_of_another_program_are_taken_whole() -> None:
    layer = nn.Linear(2, 3)
    state = T.Linear(2, 3).state_dict()
    assert layer.load_state_dict(state) == ([], [])
    assert layer.weight.data is not None
    np.testing.assert_array_equal(layer.weight.data.numpy(), state["weight"].numpy())
    again = nn.Linear(2, 3)
    again.load_state_dict(layer.state_dict())
    assert again.bias.data.tolist() == layer.bias.data.tolist()
    assert again.load_state_dict({"weight": state["weight"], "other": 1}, strict=False) == (["bias"], ["other"])
    with pytest.raises(CompileError, match="missing bias; odd other"):
        again.load_state_dict({"weight": state["weight"], "other": 1})
    with pytest.raises(TypeCheckError, match=r"bias: data of shape \[2\] for Parameter"):
        again.load_state_dict({"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(again.weight.data.numpy(), state["weight"].numpy())
    with pytest.raises(TypeCheckError, match="data of float64"):
        again.bias.data = np.zeros(3)
    with pytest.raises(TypeCheckError, match="its dtype stays"):
        again.to("float16")
    again.bias.data = None
    assert again.bias.data is None


def test_parts_are_replaced() -> None:
    class Widen(nn.Mutator):
        def visit_module(self, name: str, node: nn.Module) -> Any:
            if isinstance(node, nn.Linear):
                seen.append(name)
                return nn.Linear(node.in_features, 9)
            return super().visit_module(name, node)

        def visit_param(self, name: str, node: nn.Parameter) -> Any:
            seen.append(name)
            return nn.Parameter(node.shape, "float16")

    class Root(nn.Module):
        def __init__(self) -> None:
            self.layers = nn.ModuleList([nn.Linear(2, 3), nn.LayerNorm(3)])
            self.named = nn.ModuleDict({"x": nn.Linear(4, 5)})
            self.own = nn.ParameterDict({"p": nn.Parameter([1])})
            self.count = 3

    seen: list[str] = []
    found = Widen().visit("", Root())
    assert seen == ["layers.0", "layers.1.weight", "layers.1.bias", "named.x", "own.p"]
    assert {n: (p.shape, p.dtype) for n, p in found.named_parameters() if "bias" in n or "own" in n} == {
        "layers.0.bias": ([9], "float32"), "layers.1.bias": ([3], "float16"), "named.x.bias": ([9], "float32"),
        "own.p": ([1], "float16"),
    }  # fmt: skip


def test_dtypes() -> None:
    layer = nn.Linear(2, 3, dtype="float16", out_dtype="float32")
    layer.to("float16")
    assert (layer.weight.dtype, layer.bias.dtype) == ("float16", "float32")
    before = nn.get_default_dtype()
    try:
        nn.set_default_dtype("float16")
        assert nn.Parameter([1]).dtype == "float16"
    finally:
        nn.set_default_dtype(before)


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda: nn.Conv2D(3, 4, 3, groups=2), TypeCheckError, "3 and 4 channels in 2 groups"),
        (lambda: nn.Conv2D(2, 4, (3, 3, 3)), TypeCheckError, "wanted 2 extents"),
        (lambda: nn.TimestepEmbedding(2, 3, "tanh"), UnsupportedError, "activation 'tanh'"),
        (lambda: nn.Attention(8, scale_qk=False), UnsupportedError, "scale_qk"),
        (lambda: nn.Parameter([2, -1]), TypeCheckError, "-1 is no dim"),
        (lambda: nn.Parameter(["n +"]), TypeCheckError, "'n .' is no dim"),
        (lambda: nn.Parameter(["__import__('os')"]), TypeCheckError, "is no dim"),
        (lambda: nn.Object(_expr=None, _name="x"), UnsupportedError, "no nn.Object"),
        (lambda: nn.IOEffect(), UnsupportedError, "no nn.IOEffect"),
        (lambda: nn.ModuleDict({"a": 1}), TypeCheckError, "ModuleDict of a int at a"),
        (lambda: nn.Module()(1), CompileError, "Module has no method forward"),
        (lambda: nn.Parameter([1]) + 1, CompileError, "outside of a method"),
    ],
)
def test_wrong_layers(act: Any, kind: type[CompileError], message: str) -> None:
    with pytest.raises(kind, match=message):
        act()


def test_the_compiler_is_imported_on_use() -> None:
    found = imported("from legato.relax.frontend import nn")
    assert not [m for m in found if m.startswith(("legato.driver", "legato.lower", "llvmlite"))]
