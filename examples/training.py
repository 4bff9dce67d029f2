"""What the examples that train have in common: digits, batches, progress, plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import legato
from legato import optim


def digits(seed: int = 0):
    """Scikit-learn's digits, in an order that follows from the seed: ((images, labels), (images, labels)), of which the
    second, a fifth of them, is for testing. Images are (number, 1, 8, 8), from 0 to 1."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    images = (found.images[order, None] / 16).astype("float32")
    labels = found.target[order].astype("int32")
    test = len(labels) // 5
    return (images[test:], labels[test:]), (images[:test], labels[:test])


def batches(count: int, size: int, steps: range, seed: int = 0) -> Iterator[np.ndarray]:
    """Numbers of the examples of each step: all `count` once in an epoch, in an order that follows from the seed and
    the epoch. What a step gets depends on its number alone, wherever training begins."""
    per_epoch = count // size
    epoch, order = -1, np.arange(count)
    for step in steps:
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            order = np.random.default_rng([seed, epoch, 1]).permutation(count)  # another stream than that of the data
        at = step % per_epoch * size
        yield order[at : at + size]


class Progress:
    """Shows losses while steps are done: a bar where tqdm is installed and somebody looks, else a line now and then."""

    def __init__(self, steps: range, lines: int = 10):
        self.steps, self.every, self.losses, self.bar = steps, max(len(steps) // lines, 1), [], None
        try:
            from tqdm import tqdm
        except ImportError:
            return
        bar = tqdm(total=len(steps), disable=None)
        self.bar = None if bar.disable else bar

    def add(self, loss: float) -> None:
        """After a step."""
        self.losses.append(float(loss))
        done, mean = len(self.losses), np.mean(self.losses[-self.every :])
        if self.bar is not None:
            self.bar.update()
            self.bar.set_postfix(loss=f"{mean:.4f}", refresh=False)
        elif done % self.every == 0:
            print(f"step {self.steps[done - 1] + 1:5d}  loss {mean:.4f}", flush=True)

    def close(self) -> None:
        """After the last step."""
        if self.bar is not None:
            self.bar.close()


def plot(losses: list[float], path: Path, first: int = 0) -> None:
    """Writes a picture of the losses, and of their mean over some steps."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    window = max(len(losses) // 50, 1)
    means = np.convolve(losses, np.ones(window) / window, "valid")
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    steps = first + 1 + np.arange(len(losses))
    axes.plot(steps, losses, linewidth=0.5, alpha=0.5)
    axes.plot(steps[window - 1 :], means)
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    print(f"the losses are in {path}")


def accuracy(network, run: optim.Trainer, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images that a network reads right with the parameters of a run, where it is the part `net`."""
    weights = {name.removeprefix("net_"): value for name, value in run.params.items()}
    scores = legato.compile(network).run({"images": images, **weights})["output"]
    return float(np.mean(np.argmax(scores, axis=1) == labels))
