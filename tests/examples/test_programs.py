"""The programs under examples/: each against the same network in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import legato
from legato.interp import evaluate

torch = pytest.importorskip("torch")
TREEBANK = Path(str(distribution("turkish-treebanks").locate_file("data")))


def test_a_character_network_writes_what_pytorch_writes(example: Callable[[str], ModuleType]) -> None:
    module = example("char_rnn")
    net = module.Trained(60)
    program = net.program()
    luck = np.random.default_rng(0).random(50, np.float32)
    with torch.inference_mode():
        wanted = net.generate(7, luck)
    np.testing.assert_array_equal(legato.compile(program)(np.int32(7), luck), wanted)
    np.testing.assert_array_equal(program(np.int32(7), luck[:10]), wanted[:10])


@pytest.mark.parametrize("seed", range(3))
def test_beam_search_finds_what_pytorch_finds(example: Callable[[str], ModuleType], seed: int) -> None:
    module = example("beam_search")
    torch.manual_seed(seed)
    net, state = module.Decoder(), torch.randn(1, module.HIDDEN)
    net.out.weight.data[module.END] *= 3  # some sentences end
    with torch.inference_mode():
        text, scores = net.search(state, beams=5, steps=12)
    got_text, got_scores = legato.compile(net.program(5, 12))(state.numpy())
    np.testing.assert_array_equal(got_text, text.numpy())
    np.testing.assert_allclose(got_scores, scores.numpy(), rtol=1e-4)


def test_a_layer_written_as_a_loop_is_one_kernel(example: Callable[[str], ModuleType]) -> None:
    module = example("recurrence")
    layer = torch.nn.GRU(module.INPUTS, 32)
    loop = legato.compile(module.Loop(layer), keep=["lower"])
    assert loop.module_after("lower").count("barrier") <= 2
    assert "while" not in loop.module_after("lower").split("kernel", 1)[0]
    for steps in (0, 5, module.STEPS):
        xs = np.random.default_rng(steps).standard_normal((steps, 1, module.INPUTS), np.float32)
        with torch.inference_mode():
            wanted = layer(torch.from_numpy(xs))[0].numpy() if steps else np.zeros((0, 1, 32), np.float32)
        np.testing.assert_allclose(loop(xs), wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(legato.compile(module.WrittenOut(layer))(xs), wanted, rtol=1e-4, atol=1e-6)


def test_a_tree_network_reads_sentences_and_programs(example: Callable[[str], ModuleType]) -> None:
    module = example("tree_lstm")
    found = [list(module.sentences(path)) for path in sorted(TREEBANK.glob("*.conllu"))]
    assert [len(trees) for trees in found] == [2541, 2310], "every sentence of the treebank is a tree"
    net = module.TreeLSTM().eval()
    exe = legato.compile(net.program())
    rng = np.random.default_rng(0)
    trees = [*found[0][:8], *found[1][:8], module.syntax_tree("def f(x):\n    return [x + 1, f(x)]\n")]
    for tree in trees:
        xs = rng.standard_normal((module.size(tree), module.INPUT), np.float32)
        with torch.inference_mode():
            wanted = net(tree, torch.from_numpy(xs))[0].numpy()
        np.testing.assert_allclose(exe(module.value(exe, tree), xs), wanted, atol=2e-6)


def test_the_inputs_of_all_words_may_be_multiplied_at_once(example: Callable[[str], ModuleType]) -> None:
    module = example("tree_lstm")
    net, rng = module.TreeLSTM().eval(), np.random.default_rng(1)
    exe = legato.compile(net.program(), passes=module.HOISTED, keep=["hoist-projections"])
    main = exe.module_after("hoist-projections").split("def @main[", 1)[1].split("\n}\n", 1)[0]
    assert main.count("nn.dense") == 1
    tree = module.random_tree(9, rng)
    xs = rng.standard_normal((module.size(tree), module.INPUT), np.float32)
    with torch.inference_mode():
        wanted = net(tree, torch.from_numpy(xs))[0].numpy()
    np.testing.assert_allclose(exe(module.value(exe, tree), xs), wanted, atol=2e-6)


def test_the_mandelbrot_set_is_the_one_that_c_draws(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    module = example("mandelbrot")
    program = legato.parse(module.PROGRAM)
    sizes = [np.int32(n) for n in (40, 25, 300)]
    picture = module.pixels(legato.compile(program)(*sizes), 40)
    assert set(picture.flat) > {1, 300}
    np.testing.assert_array_equal(picture, module.in_c(tmp_path)(40, 25, 300))
    small = [np.int32(n) for n in (6, 3, 20)]
    np.testing.assert_array_equal(module.pixels(evaluate(program, small), 6), module.in_c(tmp_path)(6, 3, 20))
