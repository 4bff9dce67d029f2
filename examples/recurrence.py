"""A recurrent layer that is written as a loop is as fast as the layer itself.

    python examples/recurrence.py [--units N]

A GRU in three ways: as a loop over any number of steps, as the same loop written out for a number of steps that is
known, and as PyTorch's own layer. Of the loop the compiler makes one kernel: the products of all inputs with the
weights come first, at once, and the weights of the states stay in the cache from step to step.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from timing import least_seconds

import legato
from legato import relay
from legato.relay import Tensor, relay_model

INPUTS, STEPS = 64, 16


@relay_model
class Cell:
    """A step of a GRU (gates: reset, update, new, as in PyTorch)."""

    def __init__(self, layer):
        self.units = layer.hidden_size
        self.wx, self.wh, self.bx, self.bh = (p.detach().numpy() for p in layer.parameters())

    def forward(self, x, h):
        """The state after a step."""
        r, z, n = relay.split(relay.nn.dense(x, self.wx) + self.bx, 3, axis=1)
        hr, hz, hn = relay.split(relay.nn.dense(h, self.wh) + self.bh, 3, axis=1)
        z = relay.sigmoid(z + hz)
        return (1 - z) * relay.tanh(n + relay.sigmoid(r + hr) * hn) + z * h


@relay_model
class Loop:
    """The states after all steps, however many."""

    def __init__(self, layer):
        self.cell, self.units = Cell(layer), layer.hidden_size

    def forward(self, xs: Tensor(("steps", 1, INPUTS))):
        """One state per step."""
        h, ys = relay.zeros((1, self.units), "float32"), relay.zeros((xs.shape[0], 1, self.units), "float32")
        for t in range(xs.shape[0]):
            h = self.cell(xs[t], h)
            ys = relay.scatter_nd(ys, relay.reshape(t, (1, 1)), relay.expand_dims(h, 0))
        return ys


@relay_model
class WrittenOut:
    """The states after STEPS steps: no loop is left."""

    def __init__(self, layer):
        self.cell, self.units = Cell(layer), layer.hidden_size

    def forward(self, xs: Tensor((STEPS, 1, INPUTS))):
        """One state per step."""
        h, ys = relay.zeros((1, self.units), "float32"), []
        for x in xs:
            h = self.cell(x, h)
            ys = [*ys, h]
        return relay.stack(ys, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = torch.nn.GRU(INPUTS, args.units)
    xs = np.random.default_rng(0).standard_normal((STEPS, 1, INPUTS)).astype("float32")
    with torch.inference_mode():
        wanted = layer(torch.from_numpy(xs))[0].numpy()
        theirs = least_seconds(lambda: layer(torch.from_numpy(xs)))
    for name, program in (("loop", Loop(layer)), ("written out", WrittenOut(layer))):
        exe = legato.compile(program, threads=1)
        error = np.abs(exe(xs) - wanted).max()
        print(f"{name:12s} {least_seconds(lambda exe=exe: exe(xs)) * 1e3:6.3f} ms, off by {error:.0e}")
    print(f"{'PyTorch':12s} {theirs * 1e3:6.3f} ms")


if __name__ == "__main__":
    main()
