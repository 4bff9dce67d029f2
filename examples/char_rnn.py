"""A recurrent network writes text, one character after the other: the loop, the sampling, all of it one native program.

    python examples/char_rnn.py [--train SECONDS] [--steps N] [--seed S]

The network (an LSTM cell of 128 units) is trained by PyTorch on the text of a licence, handed over as NumPy arrays,
and compiled. Sampling needs luck, which comes in as an argument: one number of [0, 1) for each character.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from timing import least_seconds

import legato
from legato import relay
from legato.relay import Tensor, relay_model

HIDDEN = 128
TEXT = Path("/usr/share/common-licenses/GPL-3")


@relay_model
class CharRNN:
    """Characters are numbers; `embed` has a row for each, already multiplied by the weights of the gates."""

    def __init__(self, embed, recurrent, out, bias):
        self.embed, self.recurrent, self.out, self.bias = embed, recurrent, out, bias

    def step(self, char, h, c):
        """The state after a character (gates: input, forget, cell, output, as in PyTorch)."""
        gates = relay.take(self.embed, char, axis=0) + relay.nn.dense(h, self.recurrent)
        i, f, g, o = relay.split(gates, 4, axis=1)
        c = relay.sigmoid(f) * c + relay.sigmoid(i) * relay.tanh(g)
        return relay.sigmoid(o) * relay.tanh(c), c

    def pick(self, h, luck):
        """The character up to which the probabilities add up to `luck`."""
        odds = relay.cumsum(relay.nn.softmax(relay.nn.dense(h, self.out) + self.bias), axis=1)
        below = relay.sum(relay.cast(odds < luck, "int32"), axis=[0, 1])
        return relay.minimum(below, relay.const(odds.shape[1] - 1))

    def forward(self, first: Tensor((), "int32"), luck: Tensor(("steps",))):
        """The characters that follow `first`."""
        h, c = relay.zeros((1, HIDDEN), "float32"), relay.zeros((1, HIDDEN), "float32")
        text = relay.cast(relay.zeros_like(luck), "int32")
        char = first
        for t in range(luck.shape[0]):
            h, c = self.step(char, h, c)
            char = self.pick(h, luck[t])
            text = relay.scatter_elements(text, relay.reshape(t, (1,)), relay.reshape(char, (1,)))
        return text


class Trained(torch.nn.Module):
    """The same network in PyTorch."""

    def __init__(self, characters):
        super().__init__()
        self.embed = torch.nn.Embedding(characters, HIDDEN)
        self.cell = torch.nn.LSTMCell(HIDDEN, HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, characters)

    def forward(self, chars):
        """Scores of the next character, for every character of a batch of texts."""
        state, scores = None, []
        for x in self.embed(chars).unbind(1):
            state = self.cell(x, state)
            scores.append(self.out(state[0]))
        return torch.stack(scores, 1)

    def generate(self, first, luck):
        """What `CharRNN.forward` computes, operator by operator."""
        char, state, text = torch.tensor([first]), None, []
        for bound in torch.from_numpy(luck):
            state = self.cell(self.embed(char), state)
            odds = self.out(state[0]).softmax(1).cumsum(1)
            char = (odds < bound).sum(1).clamp(max=odds.shape[1] - 1)
            text.append(char)
        return torch.cat(text).numpy()

    def program(self):
        """The network as a program in Relay."""
        weights = {name: value.detach().numpy() for name, value in self.named_parameters()}
        bias = weights["cell.bias_ih"] + weights["cell.bias_hh"]
        embed = weights["embed.weight"] @ weights["cell.weight_ih"].T + bias
        return CharRNN(embed, weights["cell.weight_hh"], weights["out.weight"], weights["out.bias"])


def train(net, text, seconds):
    """Minimises the surprise at the next character, for so many seconds."""
    optimizer = torch.optim.Adam(net.parameters(), 4e-3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        starts = torch.randint(len(text) - 65, (64, 1))
        batch = text[starts + torch.arange(65)]
        loss = torch.nn.functional.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=float, default=30, metavar="SECONDS")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    text = TEXT.read_text() if TEXT.exists() else (__doc__ or "") * 9
    letters = sorted(set(text))
    net = Trained(len(letters))
    train(net, torch.tensor([letters.index(c) for c in text]), args.train)

    program = legato.compile(net.program(), threads=1)
    first, luck = letters.index("\n"), np.random.default_rng(args.seed).random(args.steps, dtype="float32")
    written = program(np.int32(first), luck)
    with torch.inference_mode():
        wanted = net.generate(first, luck)
        theirs = least_seconds(lambda: net.generate(first, luck))
    ours = least_seconds(lambda: program(np.int32(first), luck))
    print("".join(letters[c] for c in written))
    same = int((written == wanted).sum())
    print(f"\n{same} of {args.steps} characters are those of PyTorch")
    print(f"{ours * 1e3:.2f} ms; PyTorch, operator by operator: {theirs * 1e3:.2f} ms ({theirs / ours:.1f}x)")


if __name__ == "__main__":
    main()
