"""Recurrent layers and attention of modules keep their structure, and agree with PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402  # after torch is known to be there

from legato.frontend.torch.exported import import_program  # noqa: E402
from legato.frontend.torch.graphs import import_graph  # noqa: E402
from legato.interp import evaluate  # noqa: E402
from legato.ir.module import Module  # noqa: E402
from legato.torch.tensors import as_array, as_tensor  # noqa: E402
from tests.frontend.torch.agree import agree  # noqa: E402
from tests.heavy import light, marked  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of PyTorch's own use of its pytrees
    pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights"),  # of what nn.RNN does in an export
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]


def _exported(module: nn.Module, inputs: Sequence[Any], others: Sequence[Any] = (), dynamic: Any = None) -> Module:
    """A module as a program agrees with PyTorch on inputs, and on `others` of other sizes; the program."""
    module = module.eval()
    program, face = import_program(torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic))
    for given in (inputs, *([others] if others else [])):
        leaves = torch.utils._pytree.tree_leaves(tuple(given))
        arrays = [as_array(leaves[a.place], "an input") for a in face.arguments]
        found = evaluate(program, arrays)
        tensors = [as_tensor(a) for a in (found if isinstance(found, tuple) else (found,))]
        with torch.no_grad():
            agree(tensors, module(*given), rtol=2e-5, atol=2e-5)
    return program


def _random(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        marked(kind, more, heavy=is_deep != (kind == "GRU"), name=f"{name}-{kind}")
        for kind in ("LSTM", "GRU", "RNN")
        for name, more, is_deep in (
            ("plain", {}, False),
            ("deep", {"num_layers": 2, "bidirectional": True}, True),
            ("bare", {"batch_first": True, "bias": False}, False),
        )
    ],
)
def test_layers_are_scans(kind: str, more: dict[str, Any]) -> None:
    program = _exported(getattr(nn, kind)(3, 4, **more), (_random(5, 2, 3),))
    scans = 4 if "num_layers" in more else 1
    assert str(program).count(f"nn.{kind.lower()}_scan(") == scans


@pytest.mark.parametrize("more", [{"bidirectional": True, "num_layers": 2}, {"bias": False}], ids=["deep", "bare"])
def test_a_projection_joins_the_weight_of_states(more: dict[str, Any]) -> None:
    count = 4 if "num_layers" in more else 1
    states = (_random(count, 2, 2), _random(count, 2, 4))
    _exported(nn.LSTM(3, 4, proj_size=2, **more), (_random(5, 2, 3), states))


def test_initial_states_activations_and_single_sequences() -> None:
    _exported(nn.RNN(3, 4, nonlinearity="relu"), (_random(5, 2, 3), _random(1, 2, 4)))
    _exported(nn.GRU(3, 4), (_random(5, 3), _random(1, 4)))
    _exported(nn.LSTMCell(3, 4), (_random(2, 3),))
    _exported(nn.GRUCell(3, 4), (_random(2, 3), _random(2, 4)))


@pytest.mark.parametrize("kind", light(["LSTM", "GRU"], ["LSTM"]))
def test_the_batch_may_be_a_symbol(kind: str) -> None:
    """Not the steps: PyTorch's own trace of these operators counts them."""
    batch = torch.export.Dim("batch", min=2)
    layer = getattr(nn, kind)(3, 4, bidirectional=True)
    _exported(layer, (_random(5, 2, 3),), (_random(5, 3, 3),), ({1: batch},))


# ------------------------------------------------------------------ attention


class _Attention(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, **self.how)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention(how: dict[str, Any]) -> None:
    program = _exported(_Attention(**how), (_random(2, 3, 4, 8), _random(2, 3, 5, 8), _random(2, 3, 5, 6)))
    assert str(program).count("nn.softmax(") == 1


def test_masks_leave_keys_out_and_a_query_without_any_gives_zeros() -> None:
    q, k, v = _random(2, 3, 4, 8), _random(2, 3, 5, 8), _random(2, 3, 5, 6)
    bools = _random(4, 5) > 0
    bools[1] = False
    floats = torch.where(bools, _random(2, 1, 4, 5), -torch.inf)
    for mask in (bools, floats):
        _exported(_Attention(), (q, k, v, mask))


def test_heads_that_share_keys() -> None:
    _exported(_Attention(enable_gqa=True), (_random(2, 6, 4, 8), _random(2, 3, 5, 8), _random(2, 3, 5, 8)))


def test_lengths_may_be_symbols() -> None:
    length = torch.export.Dim("length", min=2)
    shape = {2: length}
    _exported(_Attention(is_causal=True), [_random(2, 3, 4, 8)] * 3, [_random(2, 3, 7, 8)] * 3,
              (shape, shape, shape))  # fmt: skip


@pytest.mark.parametrize("module", [nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)])
def test_multi_head_attention(module: nn.Module) -> None:
    _exported(module, (_random(3, 4, 8), _random(3, 4, 8), _random(3, 4, 8)))


def test_a_transformer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    _exported(nn.TransformerEncoder(layer, 2), (_random(2, 5, 8),))


# ------------------------------------------------------------------ nodes that a trace makes by other ways


def _of_one_node(operator: Any, *args: Any) -> None:
    """An operator of tensors, as a graph of one node, agrees with PyTorch."""
    graph, leaves = torch.fx.Graph(), []

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        leaves.append(value)
        node = graph.placeholder(f"x{len(leaves)}")
        node.meta["val"] = value
        return node

    inputs = torch.utils._pytree.tree_map(placed, args)
    node = graph.call_function(operator, inputs)
    with torch.no_grad():
        node.meta["val"] = wanted = operator(*args)
    made = [n for n, w in enumerate(wanted) if w is not None]  # eager has no workspace where there is no backward
    graph.output(tuple(graph.call_function(getitem, (node, n)) for n in made))
    module, _ = import_graph(torch.fx.GraphModule({}, graph))
    found = evaluate(module, [as_array(x, "an input") for x in leaves])
    agree([as_tensor(a) for a in found], [wanted[n] for n in made], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_packed_sequences(kind: str) -> None:
    layer = getattr(nn, kind.removesuffix("_tanh").upper())(3, 4, num_layers=2, bidirectional=True)
    steps = nn.utils.rnn.pack_padded_sequence(_random(5, 3, 3), torch.tensor([5, 3, 1]))
    states = [_random(4, 3, 4), _random(4, 3, 4) * 2]
    hx = states if kind == "lstm" else states[0]
    _of_one_node(getattr(torch.ops.aten, kind).data, steps.data, steps.batch_sizes, hx,
                 [p.detach() for p in layer.parameters()], True, 2, 0.0, False, True)  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_as_compiled_modules_have_it(reverse: bool) -> None:
    weights = [_random(16, 3), _random(16, 4), _random(16), _random(16) * 2]
    _of_one_node(torch.ops.aten.mkldnn_rnn_layer.default, _random(5, 2, 3), *weights, _random(1, 2, 4),
                 _random(1, 2, 4) * 2, reverse, [], 2, 4, 1, True, False, False, False)  # fmt: skip
