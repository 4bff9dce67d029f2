"""A recurrent network learns to write like a licence, one character after the other.

    python examples/train_char_rnn.py [--steps N] [--seed S] [--checkpoint FILE] [--plot FILE]

A GRU over 32 characters, written out step by step in Relay's operators. The state after a batch is that before the next
one, which goes on in the text where this one ends: the loss hands it on, beside the parameters, from step to step. Then
the network writes by itself: the loop and the sampling are one native program, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from training import Progress, plot

import legato
from legato import optim, relay
from legato.relay import Tensor, relay_model

HIDDEN, STEPS, BATCH, LETTERS = 128, 32, 32, 96
TEXT = Path("/usr/share/common-licenses/GPL-3")


@relay_model
class Network:
    """A GRU (gates: reset, update, new, as in PyTorch); `embed` has what each character adds to them."""

    embed: Tensor((LETTERS, 3 * HIDDEN))
    weight: Tensor((3 * HIDDEN, HIDDEN))
    bias: Tensor((3 * HIDDEN,))
    out: Tensor((LETTERS, HIDDEN))
    out_bias: Tensor((LETTERS,))

    def after(self, chars, h):
        """The states after a character each."""
        r, z, n = relay.split(relay.take(self.embed, chars, axis=0), 3, axis=1)
        hr, hz, hn = relay.split(relay.nn.dense(h, self.weight) + self.bias, 3, axis=1)
        z = relay.sigmoid(z + hz)
        return (1 - z) * relay.tanh(n + relay.sigmoid(r + hr) * hn) + z * h

    def scores(self, h):
        """What the next character may be."""
        return relay.nn.dense(h, self.out) + self.out_bias

    def forward(self, first: Tensor((1,), "int32"), luck: Tensor(("n",))):
        """The characters that follow `first`: those up to which the probabilities add up to the numbers of `luck`."""
        h, char = relay.zeros((1, HIDDEN), "float32"), first
        text = relay.cast(relay.zeros_like(luck), "int32")
        for t in range(luck.shape[0]):
            h = self.after(char, h)
            odds = relay.cumsum(relay.nn.softmax(self.scores(h)), axis=1)
            char = relay.minimum(relay.sum(relay.cast(odds < luck[t], "int32"), axis=1), relay.const(LETTERS - 1))
            text = relay.scatter_elements(text, relay.reshape(t, (1,)), char)
        return text


@relay_model
class Loss:
    """The mean surprise at the next characters, and the state behind them."""

    def __init__(self, net):
        self.net = net

    def forward(
        self, chars: Tensor((STEPS, BATCH), "int32"), following: Tensor((STEPS, BATCH), "int32"),
        h: Tensor((BATCH, HIDDEN)),
    ):  # fmt: skip
        """(−mean log p of those following, the next `h`)."""
        states = []
        for char in chars:
            h = self.net.after(char, h)
            states = [*states, h]
        likely = relay.nn.log_softmax(self.net.scores(relay.concatenate(states, axis=0)), axis=1)
        return -relay.mean(relay.gather(likely, 1, relay.reshape(following, (-1, 1)))), h


def trainer(seed: int = 0) -> optim.Trainer:
    """The run before its first step."""
    loss = Loss(Network())
    small = optim.uniform(HIDDEN**-0.5)
    rules = {"net_embed": optim.normal(0.5), "net_weight": small, "net_bias": small,
             "net_out": small, "net_out_bias": optim.zeros}  # fmt: skip
    return optim.Trainer(
        loss,
        optim.Adam(optim.WarmUp(optim.StepDecay(4e-3, 1000, 0.5), 50)),
        optim.initial(loss, rules, seed),
        carry={"h": np.zeros((BATCH, HIDDEN), "float32")},
        clip=optim.ByNorm(1.0),
    )


def stripes(text: np.ndarray) -> np.ndarray:
    """The text cut into as many stripes as a batch has, side by side: (length, BATCH)."""
    length = len(text) // BATCH
    return np.ascontiguousarray(text[: length * BATCH].reshape(BATCH, length).T)


def window(rows: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """What a step reads: STEPS characters of each stripe, and those following each; they begin again at the end."""
    at = step % ((len(rows) - 1) // STEPS) * STEPS
    return rows[at : at + STEPS], rows[at + 1 : at + STEPS + 1]


def numbers(text: str) -> np.ndarray:
    """Characters as numbers from 0 to LETTERS - 1: those of ASCII that are printed, and newlines."""
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype("int32")
    return np.where(codes == ord("\n"), LETTERS - 1, np.clip(codes - 32, 0, LETTERS - 2)).astype("int32")


def letters(found: np.ndarray) -> str:
    """The characters of numbers."""
    return "".join("\n" if c == LETTERS - 1 else chr(c + 32) for c in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=int, default=300, metavar="CHARACTERS")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, default=Path("out/train_char_rnn.png"), metavar="FILE")
    args = parser.parse_args()
    rows = stripes(numbers(TEXT.read_text() if TEXT.exists() else str(license)))
    run = trainer(args.seed)
    if args.checkpoint is not None and args.checkpoint.exists():
        run.load(args.checkpoint)
    steps = range(run.steps, run.steps + args.steps)
    progress = Progress(steps)
    for step in steps:
        progress.add(run.step(*window(rows, step)))
    progress.close()
    if args.checkpoint is not None:
        run.save(args.checkpoint)
    weights = {name.removeprefix("net_"): value for name, value in run.params.items()}
    luck = np.random.default_rng(args.seed).random(args.write, "float32")
    written = legato.compile(Network()).run({"first": numbers("\n"), "luck": luck, **weights})["output"]
    print(letters(written))
    if progress.losses:
        plot(progress.losses, args.plot, steps.start)


if __name__ == "__main__":
    main()
