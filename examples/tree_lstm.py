"""A network whose shape is its input: a TreeLSTM over sentences that are trees, compiled once for all of them.

    python examples/tree_lstm.py [--trees N] [--seed S] [CONLLU ...]

The Child-Sum Tree-LSTM of Tai, Socher and Manning ("Improved semantic representations from tree-structured long
short-term memory networks", 2015): the state of a word follows from its vector and from the states of the words that
depend on it. The program is Relay: a data type, a recursive function, functions of the prelude. Trees are read from
CoNLL-U files (as in the package turkish-treebanks), made of Python's syntax, or random.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from timing import least_seconds

import legato
from legato import relay
from legato.base.target import host
from legato.pipelines import DEFAULT
from legato.profile.loops import aligned, read_rate
from legato.transform.hoist_projections import HoistProjections
from legato.transform.to_a_normal import ToANormal

INPUT, HIDDEN = 300, 150
_AT = next(n for n, p in enumerate(DEFAULT) if isinstance(p, ToANormal))
HOISTED = (*DEFAULT[:_AT], HoistProjections(), *DEFAULT[_AT:])  # the products of all words with the weights at once

PROGRAM = """
#[version = "0.0.5"]

// A tree of numbers; row i of %xs is the vector of the node that holds i.
def @main(%tree: Tree[int32], %xs: Tensor[(n, 300), float32],
          %w: Tensor[(600, 300), float32], %b: Tensor[(600,), float32],
          %u: Tensor[(450, 150), float32], %u_forget: Tensor[(150, 150), float32]) {
  let %node = fn (%t: Tree[int32]) -> (Tensor[(1, 150), float32], Tensor[(1, 150), float32]) {
    match (%t) {
      Rose(%i, %children) => {
        let %below = @map(%node, %children);
        let %x = nn.dense(take(%xs, reshape(%i, newshape=[1]), axis=0), %w) + %b;
        let %parts = split(%x, indices_or_sections=[450], axis=1);
        let %h_sum = @foldl(
          fn (%sum: Tensor[(1, 150), float32], %s: (Tensor[(1, 150), float32], Tensor[(1, 150), float32])) {
            %sum + %s.0
          }, zeros(shape=[1, 150], dtype="float32"), %below);
        let %gates = split(%parts.0 + nn.dense(%h_sum, %u), indices_or_sections=3, axis=1);
        let %c = @foldl(
          fn (%sum: Tensor[(1, 150), float32], %s: (Tensor[(1, 150), float32], Tensor[(1, 150), float32])) {
            %sum + sigmoid(%parts.1 + nn.dense(%s.0, %u_forget)) * %s.1
          }, sigmoid(%gates.0) * tanh(%gates.2), %below);
        (sigmoid(%gates.1) * tanh(%c), %c)
      }
    }
  };
  %node(%tree).0
}
"""


class TreeLSTM(torch.nn.Module):
    """The same network in PyTorch, node by node. Gates: input, output, cell; forget apart."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(INPUT, 4 * HIDDEN)
        self.u = torch.nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.u_forget = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, tree, xs):
        """Hidden state and cell of a (number, children) pair."""
        number, children = tree
        below = [self(child, xs) for child in children]
        gates, x_forget = self.w(xs[number : number + 1]).split([3 * HIDDEN, HIDDEN], 1)
        h = sum((h for h, _ in below), torch.zeros(1, HIDDEN))
        i, o, g = (gates + self.u(h)).chunk(3, 1)
        c = i.sigmoid() * g.tanh()
        for h, cell in below:
            c = c + (x_forget + self.u_forget(h)).sigmoid() * cell
        return o.sigmoid() * c.tanh(), c

    def program(self):
        """The network as a module of Relay whose weights are constants."""
        module = relay.parse(PROGRAM)
        weights = {"w": self.w.weight, "b": self.w.bias, "u": self.u.weight, "u_forget": self.u_forget.weight}
        params = {name: value.detach().numpy() for name, value in weights.items()}
        module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
        return module


def sentences(path: Path) -> Iterator[tuple]:
    """The trees of a CoNLL-U file, as (number, children) pairs; words are numbered from 0."""
    heads: list[int] = []
    for line in (*path.read_text("utf-8").splitlines(), ""):
        fields = line.split("\t")
        if len(fields) > 6 and fields[0].isdigit():
            heads.append(int(fields[6]))
        elif not line and heads:
            yield from tree_of(heads)
            heads = []


def tree_of(heads: list[int]) -> Iterator[tuple]:
    """The tree whose word n depends on word heads[n], counted from 1; none if it has several roots, or cycles."""
    children: list[list[tuple]] = [[] for _ in range(len(heads) + 1)]
    nodes = [(n, children[n + 1]) for n in range(len(heads))]
    for node, head in zip(nodes, heads, strict=True):
        children[head].append(node)
    if len(children[0]) == 1 and size(children[0][0]) == len(heads):
        yield children[0][0]


def size(tree: tuple) -> int:
    """The number of nodes of a tree."""
    todo, count = [tree], 0
    while todo:
        todo += todo.pop()[1]
        count += 1
    return count


def syntax_tree(source: str) -> tuple:
    """The tree of a Python program's syntax."""
    count = 0

    def tree(node: ast.AST) -> tuple:
        nonlocal count
        count += 1
        return count - 1, [tree(child) for child in ast.iter_child_nodes(node)]

    return tree(ast.parse(source))


def value(exe: legato.Executable, tree: tuple):
    """A tree as the program takes it."""
    rose, cons, nil = (exe.constructors[name] for name in ("Rose", "Cons", "Nil"))
    children = nil()
    for child in reversed(tree[1]):
        children = cons(value(exe, child), children)
    return rose(np.int32(tree[0]), children)


def random_tree(leaves: int, rng: np.random.Generator) -> tuple:
    """A binary tree with so many leaves."""
    trees = [(n, []) for n in range(leaves)]
    while len(trees) > 1:
        at = int(rng.integers(len(trees) - 1))
        trees[at : at + 2] = [(2 * leaves - len(trees), trees[at : at + 2])]
    return trees[0]


def reading_seconds(count: float) -> float:
    """The least time that reading so many bytes takes, again and again: from the cache that holds them."""
    rate = read_rate(host(), aligned(1, int(count) // 4), int(count), 1 << 28)
    return count / max(rate.sample() for _ in range(5))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="CONLLU")
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(args.seed)
    found = [tree for path in args.files for tree in sentences(path)]
    trees = found[: args.trees] or [random_tree(int(n), rng) for n in rng.integers(5, 41, args.trees)]
    nodes = sum(map(size, trees))

    net = TreeLSTM().eval()
    inputs = [rng.standard_normal((size(tree), INPUT), np.float32) for tree in trees]
    with torch.inference_mode():
        pairs = [(tree, torch.from_numpy(xs)) for tree, xs in zip(trees, inputs, strict=True)]
        wanted = [net(*pair)[0].numpy() for pair in pairs]
        theirs = least_seconds(lambda: [net(*pair) for pair in pairs])
    print(f"{len(trees)} trees, {nodes} nodes")
    print(f"PyTorch, node by node   {theirs / nodes * 1e6:6.1f} µs a node")
    of_words, of_states = net.w.weight.nbytes, net.u.weight.nbytes + net.u_forget.weight.nbytes
    for name, passes, weights in (
        ("Legato", DEFAULT, of_words + of_states),
        ("Legato, inputs at once", HOISTED, of_words * len(trees) / nodes + of_states),
    ):
        exe = legato.compile(net.program(), threads=1, passes=passes)
        calls = [(value(exe, tree), xs) for tree, xs in zip(trees, inputs, strict=True)]
        error = max(np.abs(exe(*call) - want).max() for call, want in zip(calls, wanted, strict=True))
        ours = least_seconds(lambda exe=exe, calls=calls: [exe(*call) for call in calls])
        bound = f"its weights can be read in {reading_seconds(weights) * 1e6:.1f} µs"
        print(f"{name:23s} {ours / nodes * 1e6:6.1f} µs a node ({theirs / ours:.1f}x), off by {error:.0e}; {bound}")


if __name__ == "__main__":
    main()
