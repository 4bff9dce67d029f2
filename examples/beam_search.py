"""Beam search over a recurrent decoder as one program: candidates, their states and their scores stay in native code.

    python examples/beam_search.py [--beams N] [--steps N] [--seed S]

A GRU decoder proposes the next word for each of the sentences that it holds; the best few of all continuations are
kept. Sentences that have ended stay as they are; when all have, the search ends. The weights are random, so the words
mean nothing; what is checked is that the program finds what the same search in PyTorch finds.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from timing import least_seconds

import legato
from legato import relay
from legato.relay import Tensor, relay_model

HIDDEN, WORDS, START, END = 64, 500, 1, 0
NEVER = -1e9


@relay_model
class BeamSearch:
    """The decoder's weights, the number of beams and the longest sentence are constants of the program."""

    def __init__(self, beams, steps, embed, wx, bx, wh, bh, out):
        self.beams, self.steps = beams, steps
        self.embed, self.wx, self.bx, self.wh, self.bh, self.out = embed, wx, bx, wh, bh, out
        self.first = np.where(np.arange(beams) == 0, 0, NEVER).astype("float32")  # all beams begin alike: one is enough
        self.stay = np.where(np.arange(WORDS) == END, 0, NEVER).astype("float32")  # what a sentence that has ended adds

    def cell(self, words, h):
        """A step of the GRU (gates: reset, update, new, as in PyTorch)."""
        r, z, n = relay.split(relay.nn.dense(relay.take(self.embed, words, axis=0), self.wx) + self.bx, 3, axis=1)
        hr, hz, hn = relay.split(relay.nn.dense(h, self.wh) + self.bh, 3, axis=1)
        z = relay.sigmoid(z + hz)
        return (1 - z) * relay.tanh(n + relay.sigmoid(r + hr) * hn) + z * h

    def continued(self, words, h, scores):
        """The score of every word behind every sentence."""
        odds = relay.nn.log_softmax(relay.nn.dense(h, self.out))
        ended = relay.reshape(words == END, (self.beams, 1))
        return relay.reshape(scores, (self.beams, 1)) + relay.where(ended, self.stay, odds)

    def forward(self, state: Tensor((1, HIDDEN))):
        """The best sentences and their scores, best first."""
        h, scores = relay.broadcast_to(state, (self.beams, HIDDEN)), self.first
        words = relay.full(relay.const(START), (self.beams,), "int32")
        text = relay.zeros((self.beams, self.steps), "int32")
        t = 0
        while t < self.steps and relay.any(words != END):
            h = self.cell(words, h)
            all_scores = relay.reshape(self.continued(words, h, scores), (self.beams * WORDS,))
            scores, best = relay.topk(all_scores, k=self.beams, ret_type="both", dtype="int32")
            origin, words = best // WORDS, best % WORDS
            h, text = relay.take(h, origin, axis=0), relay.take(text, origin, axis=0)
            column = relay.full(t, (self.beams, 1), "int32")
            text = relay.scatter_elements(text, column, relay.reshape(words, (self.beams, 1)), axis=1)
            t += 1
        return text, scores


class Decoder(torch.nn.Module):
    """The same decoder in PyTorch."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, HIDDEN)
        self.cell = torch.nn.GRUCell(HIDDEN, HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, WORDS, bias=False)

    def search(self, state, beams, steps):
        """What `BeamSearch.forward` computes."""
        h, words = state.expand(beams, HIDDEN), torch.full((beams,), START)
        scores = torch.full((beams,), NEVER)
        scores[0] = 0
        stay = torch.full((WORDS,), NEVER)
        stay[END] = 0
        text = torch.zeros(beams, steps, dtype=torch.long)
        for t in range(steps):
            if not (words != END).any():
                break
            h = self.cell(self.embed(words), h)
            odds = self.out(h).log_softmax(1)
            total = scores[:, None] + torch.where((words == END)[:, None], stay, odds)
            scores, best = total.flatten().topk(beams)
            origin, words = best // WORDS, best % WORDS
            h, text = h[origin], text[origin]
            text[:, t] = words
        return text, scores

    def program(self, beams, steps):
        """The search as a program in Relay."""
        cell = {name: value.detach().numpy() for name, value in self.cell.named_parameters()}
        gates = (cell["weight_ih"], cell["bias_ih"], cell["weight_hh"], cell["bias_hh"])
        return BeamSearch(beams, steps, self.embed.weight.detach().numpy(), *gates, self.out.weight.detach().numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    net, state = Decoder(), torch.randn(1, HIDDEN)
    program = legato.compile(net.program(args.beams, args.steps), threads=1)
    text, scores = program(state.numpy())
    with torch.inference_mode():
        wanted, _ = net.search(state, args.beams, args.steps)
        theirs = least_seconds(lambda: net.search(state, args.beams, args.steps))
    ours = least_seconds(lambda: program(state.numpy()))
    for line, score in zip(text, scores, strict=True):
        print(f"{score:8.3f}  {' '.join(map(str, line))}")
    print("the sentences are those of PyTorch" if (text == wanted.numpy()).all() else "PyTorch finds other sentences")
    print(f"{ours * 1e3:.2f} ms; PyTorch, operator by operator: {theirs * 1e3:.2f} ms ({theirs / ours:.1f}x)")


if __name__ == "__main__":
    main()
