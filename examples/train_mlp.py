"""A network of two layers learns to read digits: forward, backward and update are one compiled program.

    python examples/train_mlp.py [--steps N] [--seed S] [--checkpoint FILE] [--plot FILE]

The data are scikit-learn's 1,797 digits of 8 by 8 pixels. With --checkpoint, training goes on where the file was
written, and writes it again at the end: with the same bits as if it had never stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from training import Progress, accuracy, batches, digits, plot

from legato import optim, relay
from legato.relay import Tensor, relay_model

HIDDEN, BATCH = 64, 32


@relay_model
class Network:
    """Pixels to a score for each digit; weights begin as a seed says."""

    w1: Tensor((HIDDEN, 64))
    b1: Tensor((HIDDEN,))
    w2: Tensor((10, HIDDEN))
    b2: Tensor((10,))

    def forward(self, images: Tensor(("n", 1, 8, 8))):
        """Scores (n, 10)."""
        hidden = relay.tanh(relay.nn.dense(relay.reshape(images, (-1, 64)), self.w1) + self.b1)
        return relay.nn.dense(hidden, self.w2) + self.b2


@relay_model
class Loss:
    """The mean surprise at the labels."""

    def __init__(self, net):
        self.net = net

    def forward(self, images: Tensor(("n", 1, 8, 8)), labels: Tensor(("n",), "int32")):
        """−mean log p(label)."""
        likely = relay.nn.log_softmax(self.net(images), axis=1)
        return -relay.mean(relay.gather(likely, 1, relay.expand_dims(labels, 1)))


def trainer(seed: int = 0) -> optim.Trainer:
    """The run before its first step."""
    loss = Loss(Network())
    rules = {"net_w1": optim.xavier, "net_b1": optim.zeros, "net_w2": optim.xavier, "net_b2": optim.zeros}
    return optim.Trainer(loss, optim.SGD(0.1, momentum=0.9, nesterov=True), optim.initial(loss, rules, seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, default=Path("out/train_mlp.png"), metavar="FILE")
    args = parser.parse_args()
    (images, labels), test = digits(args.seed)
    run = trainer(args.seed)
    if args.checkpoint is not None and args.checkpoint.exists():
        run.load(args.checkpoint)
    steps = range(run.steps, run.steps + args.steps)
    progress = Progress(steps)
    for rows in batches(len(labels), BATCH, steps, args.seed):
        progress.add(run.step(images[rows], labels[rows]))
    progress.close()
    if args.checkpoint is not None:
        run.save(args.checkpoint)
    print(f"{accuracy(Network(), run, *test):.1%} of the digits that it has not seen are read right")
    if progress.losses:
        plot(progress.losses, args.plot, steps.start)


if __name__ == "__main__":
    main()
