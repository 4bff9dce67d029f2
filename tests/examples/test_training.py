"""The examples that train: their losses are those of the same networks in PyTorch, and they learn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import legato

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
nn = torch.nn.functional

Example = Callable[[str], ModuleType]
Weights = dict[str, Any]


def losses_of_pytorch(
    first: Weights,
    loss: Callable[..., Any],
    optimizer: Callable[[Any], Any],
    steps: Sequence[Any],
    rate: Callable[[int], float] | None = None,
    norm: float | None = None,
) -> list[float]:
    """The losses of training in PyTorch. rate: factors of the learning rate; norm: the bound of that of gradients."""
    weights = {name: torch.tensor(value, requires_grad=True) for name, value in first.items()}
    minimizer = optimizer(list(weights.values()))
    schedule = torch.optim.lr_scheduler.LambdaLR(minimizer, rate or (lambda _: 1.0))
    found = []
    for step in steps:
        made = loss(weights, *step)
        minimizer.zero_grad()
        made.backward()
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), norm)
        minimizer.step()
        schedule.step()
        found.append(made.item())
    return found


def digit_batches(training: ModuleType, size: int, count: int) -> list[tuple[Any, Any]]:
    (images, labels), _ = training.digits()
    return [(images[rows], labels[rows]) for rows in training.batches(len(labels), size, range(count))]


def tensors(batch: tuple[Any, Any]) -> tuple[Any, Any]:
    return torch.from_numpy(batch[0]), torch.from_numpy(batch[1]).long()


def test_a_network_of_two_layers_reads_digits(example: Example) -> None:
    module, training = example("train_mlp"), example("training")

    def loss(w: Weights, images: Any, labels: Any) -> Any:
        hidden = torch.tanh(images.flatten(1) @ w["net_w1"].T + w["net_b1"])
        return nn.cross_entropy(hidden @ w["net_w2"].T + w["net_b2"], labels)

    run = module.trainer()
    steps = digit_batches(training, module.BATCH, 300)
    wanted = losses_of_pytorch(
        run.params, loss, lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), [*map(tensors, steps[:20])]
    )
    found = [float(run.step(*batch)) for batch in steps]
    np.testing.assert_allclose(found[:20], wanted, rtol=1e-4)
    assert training.accuracy(module.Network(), run, *training.digits()[1]) > 0.95


@pytest.mark.heavy
def test_a_convolutional_network_reads_digits(example: Example) -> None:
    module, training = example("train_cnn"), example("training")

    def loss(w: Weights, images: Any, labels: Any) -> Any:
        x = nn.relu(nn.conv2d(images, w["net_w1"], w["net_b1"], padding=1))
        x = nn.max_pool2d(nn.relu(nn.conv2d(x, w["net_w2"], w["net_b2"], padding=1)), 2)
        x = nn.relu(nn.conv2d(x, w["net_w3"], w["net_b3"], padding=1)).flatten(1)
        return nn.cross_entropy(x @ w["net_w4"].T + w["net_b4"], labels)

    count = 200
    run = module.trainer(count)
    steps = digit_batches(training, module.BATCH, count)
    wanted = losses_of_pytorch(
        run.params,
        loss,
        lambda p: torch.optim.AdamW(p, 3e-3, weight_decay=0.05),
        [*map(tensors, steps[:12])],
        lambda n: min(n / 10, 1) * (1 + np.cos(np.pi * max(n - 10, 0) / count)) / 2,
        norm=1.0,
    )
    found = [float(run.step(*batch)) for batch in steps]
    np.testing.assert_allclose(found[:12], wanted, rtol=1e-4)
    assert training.accuracy(module.Network(), run, *training.digits()[1]) >= 0.97


@pytest.mark.heavy
def test_a_recurrent_network_learns_as_in_pytorch(example: Example) -> None:
    module = example("train_char_rnn")
    rows = module.stripes(module.numbers("The licence says what may be done, and what may not.\n" * 300))
    state = torch.zeros(module.BATCH, module.HIDDEN)

    def loss(w: Weights, chars: Any, following: Any) -> Any:
        nonlocal state
        h, states = state, []
        for char in torch.from_numpy(chars).long():
            r, z, n = w["net_embed"][char].chunk(3, 1)
            hr, hz, hn = (h @ w["net_weight"].T + w["net_bias"]).chunk(3, 1)
            z = torch.sigmoid(z + hz)
            h = (1 - z) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + z * h
            states.append(h)
        state = h.detach()
        scores = torch.cat(states) @ w["net_out"].T + w["net_out_bias"]
        return nn.cross_entropy(scores, torch.from_numpy(following).long().flatten())

    run = module.trainer()
    steps = [module.window(rows, n) for n in range(20)]
    wanted = losses_of_pytorch(
        run.params, loss, lambda p: torch.optim.Adam(p, 4e-3), steps, lambda n: min(n / 50, 1), norm=1.0
    )
    found = [float(run.step(*batch)) for batch in steps]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    np.testing.assert_allclose(run.carry["h"], state, rtol=1e-3, atol=1e-3)
    require_same_text(module, run)


def test_what_the_recurrent_network_reads(example: Example) -> None:
    module = example("train_char_rnn")
    assert module.letters(module.numbers("a line,\nand ~ another")) == "a line,\nand ~ another"
    rows = module.stripes(np.arange(32 * 100, dtype=np.int32))
    chars, following = module.window(rows, 1)
    assert chars.shape == following.shape == (module.STEPS, module.BATCH)
    assert (following == chars + 1).all()
    assert chars[0, 0] == module.STEPS
    assert chars[0, 1] == 100 + module.STEPS


def require_same_text(module: ModuleType, run: Any) -> None:
    """What the network writes, compiled, is what it writes interpreted."""
    weights = {name.removeprefix("net_"): np.asarray(value) for name, value in run.params.items()}
    luck = np.random.default_rng(0).random(8, np.float32)
    first = module.numbers("\n")
    text = legato.compile(module.Network()).run({"first": first, "luck": luck, **weights})["output"]
    np.testing.assert_array_equal(module.Network()(first, luck, **weights), text)


def test_a_tree_network_learns_as_in_pytorch(example: Example) -> None:
    module = example("train_tree_lstm")
    found, kinds, relations = module.data()
    labels = [label for *_, label in found]
    assert (len(found), labels.count(1), kinds, relations) == (4851, 2310, 45, 44)

    def state(w: Weights, words: Any, tree: tuple[int, list[Any]]) -> tuple[Any, Any]:
        below = [state(w, words, child) for child in tree[1]]
        gates, x_forget = words[tree[0] : tree[0] + 1].split([3 * module.HIDDEN, module.HIDDEN], 1)
        h = sum((h for h, _ in below), torch.zeros(1, module.HIDDEN))
        i, o, g = (gates + h @ w["u"].T).chunk(3, 1)
        c = i.sigmoid() * g.tanh()
        for h, cell in below:
            c = c + (x_forget + h @ w["u_forget"].T).sigmoid() * cell
        return o.sigmoid() * c.tanh(), c

    def loss(w: Weights, tree: Any, kinds: Any, relations: Any, label: float) -> Any:
        words = w["of_kind"][torch.from_numpy(kinds).long()] + w["of_relation"][torch.from_numpy(relations).long()]
        return -nn.logsigmoid((state(w, words @ w["w"].T + w["b"], tree)[0] @ w["out"].T).sum() * float(label))

    run = module.trainer(kinds, relations, 100)
    steps = found[:20]
    wanted = losses_of_pytorch(
        run.params, loss, lambda p: torch.optim.Adam(p, 4e-3), steps, lambda n: min(n / 50, 1), norm=1.0
    )
    got = [float(run.step(module.value(run.executable, tree), *rest)[0]) for tree, *rest in steps]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)


@pytest.mark.heavy
def test_examples_stop_and_go_on(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("train_mlp")

    def trained(name: str, *counts: int) -> bytes:
        file, picture = tmp_path / name, tmp_path / f"{name}.png"
        for count in counts:
            given = ["--steps", str(count), "--checkpoint", str(file), "--plot", str(picture)]
            monkeypatch.setattr(sys, "argv", ["train_mlp.py", *given])
            module.main()
        assert picture.read_bytes().startswith(b"\x89PNG")
        return file.read_bytes()

    assert trained("whole", 70) == trained("parts", 30, 40)


def test_batches_have_every_example_once_and_follow_from_the_step(example: Example) -> None:
    training = example("training")
    whole = list(training.batches(22, 5, range(8)))
    assert len({*np.concatenate(whole[:4])}) == len({*np.concatenate(whole[4:])}) == 20
    assert not np.array_equal(whole[0], whole[4])
    for begun in range(8):
        for rows, wanted in zip(training.batches(22, 5, range(begun, 8)), whole[begun:], strict=True):
            np.testing.assert_array_equal(rows, wanted)


def test_progress_prints_lines_where_nobody_looks(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    training = example("training")
    progress = training.Progress(range(100, 120), lines=2)
    for n in range(20):
        progress.add(n)
    progress.close()
    assert progress.losses == [float(n) for n in range(20)]
    assert capsys.readouterr().out == "step   110  loss 4.5000\nstep   120  loss 14.5000\n"
