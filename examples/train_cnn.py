"""A convolutional network learns to read digits, in well under a minute.

    python examples/train_cnn.py [--epochs N] [--seed S] [--checkpoint FILE] [--plot FILE]

The data are scikit-learn's 1,797 digits of 8 by 8 pixels. AdamW, a learning rate that warms up and then falls along a
cosine, and gradients of a bounded norm: all of it is in the one compiled program of a step. With --checkpoint, training
goes on where the file was written.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from training import Progress, accuracy, batches, digits, plot

from legato import optim, relay
from legato.relay import Tensor, relay_model

BATCH = 64


@relay_model
class Network:
    """Images to a score for each digit: three convolutions of 3 by 3 pixels, and a layer over what they have found."""

    w1: Tensor((16, 1, 3, 3))
    b1: Tensor((16,))
    w2: Tensor((32, 16, 3, 3))
    b2: Tensor((32,))
    w3: Tensor((64, 32, 3, 3))
    b3: Tensor((64,))
    w4: Tensor((10, 1024))
    b4: Tensor((10,))

    def found(self, x, weight, bias):
        """What a convolution that keeps the size finds; what is negative is cut off."""
        return relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weight, padding=(1, 1)), bias))

    def forward(self, images: Tensor(("n", 1, 8, 8))):
        """Scores (n, 10)."""
        x = self.found(self.found(images, self.w1, self.b1), self.w2, self.b2)
        x = self.found(relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2)), self.w3, self.b3)
        return relay.nn.dense(relay.nn.batch_flatten(x), self.w4) + self.b4


@relay_model
class Loss:
    """The mean surprise at the labels."""

    def __init__(self, net):
        self.net = net

    def forward(self, images: Tensor((BATCH, 1, 8, 8)), labels: Tensor((BATCH,), "int32")):
        """−mean log p(label)."""
        likely = relay.nn.log_softmax(self.net(images), axis=1)
        return -relay.mean(relay.gather(likely, 1, relay.expand_dims(labels, 1)))


def trainer(steps: int, seed: int = 0) -> optim.Trainer:
    """The run before its first step; its rate falls to 0 in so many steps."""
    loss = Loss(Network())
    rules = {f"net_{kind}{n}": rule for n in range(1, 5) for kind, rule in (("w", optim.he), ("b", optim.zeros))}
    optimizer = optim.AdamW(optim.WarmUp(optim.Cosine(3e-3, steps), steps // 20), weight_decay=0.05)
    return optim.Trainer(loss, optimizer, optim.initial(loss, rules, seed), clip=optim.ByNorm(1.0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, default=Path("out/train_cnn.png"), metavar="FILE")
    args = parser.parse_args()
    (images, labels), test = digits(args.seed)
    begun = time.perf_counter()
    run = trainer(total := args.epochs * (len(labels) // BATCH), args.seed)
    compiled = time.perf_counter()
    if args.checkpoint is not None and args.checkpoint.exists():
        run.load(args.checkpoint)
    steps = range(run.steps, max(total, run.steps))
    progress = Progress(steps)
    for rows in batches(len(labels), BATCH, steps, args.seed):
        progress.add(run.step(images[rows], labels[rows]))
    progress.close()
    seconds = time.perf_counter() - compiled
    if args.checkpoint is not None:
        run.save(args.checkpoint)
    print(f"{compiled - begun:.1f} s to compile, {seconds:.1f} s for {len(steps)} steps")
    print(f"{accuracy(Network(), run, *test):.1%} of the digits that it has not seen are read right")
    if progress.losses:
        plot(progress.losses, args.plot, steps.start)


if __name__ == "__main__":
    main()
