"""A network whose shape is its input learns where sentences come from: recursion over trees, differentiated.

    python examples/train_tree_lstm.py [--steps N] [--seed S] [--checkpoint FILE] [--plot FILE]

The sentences are those of the package turkish-treebanks, as dependency trees: a half is from an encyclopedia, the other
one from forums and the like. A Child-Sum Tree-LSTM (see tree_lstm.py) reads for each word its part of speech and what
it is to the word above, and says which. A step has one sentence; the program is a recursive function over a data type,
and so is its gradient.
"""

from __future__ import annotations

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from training import Progress, batches, plot
from tree_lstm import tree_of, value

import legato
from legato import optim
from legato.runtime.executable import Executable

INPUT, HIDDEN = 24, 32
NODE = f"(Tensor[(1, {HIDDEN}), float32], Tensor[(1, {HIDDEN}), float32])"
PROGRAM = f"""
#[version = "0.0.5"]

// The sum of what is told of the tree's root: positive for the second kind. Row i of %xs is the vector of word i.
def @score(%tree: Tree[int32], %xs: Tensor[(n, {INPUT}), float32],
           %w: Tensor[({4 * HIDDEN}, {INPUT}), float32], %b: Tensor[({4 * HIDDEN},), float32],
           %u: Tensor[({3 * HIDDEN}, {HIDDEN}), float32], %u_forget: Tensor[({HIDDEN}, {HIDDEN}), float32],
           %out: Tensor[(1, {HIDDEN}), float32]) -> float32 {{
  let %words = nn.dense(%xs, %w) + %b;
  let %node = fn (%t: Tree[int32]) -> {NODE} {{
    match (%t) {{
      Rose(%i, %children) => {{
        let %below = @map(%node, %children);
        let %parts = split(take(%words, reshape(%i, newshape=[1]), axis=0), indices_or_sections=[{3 * HIDDEN}], axis=1);
        let %h_sum = @foldl(
          fn (%sum: Tensor[(1, {HIDDEN}), float32], %s: {NODE}) {{ %sum + %s.0 }},
          zeros(shape=[1, {HIDDEN}], dtype="float32"), %below);
        let %gates = split(%parts.0 + nn.dense(%h_sum, %u), indices_or_sections=3, axis=1);
        let %c = @foldl(
          fn (%sum: Tensor[(1, {HIDDEN}), float32], %s: {NODE}) {{
            %sum + sigmoid(%parts.1 + nn.dense(%s.0, %u_forget)) * %s.1
          }}, sigmoid(%gates.0) * tanh(%gates.2), %below);
        (sigmoid(%gates.1) * tanh(%c), %c)
      }}
    }}
  }};
  sum(nn.dense(%node(%tree).0, %out))
}}

def @main(%tree: Tree[int32], %kinds: Tensor[(n,), int32], %relations: Tensor[(n,), int32], %label: float32,
          %of_kind: Tensor[(KINDS, {INPUT}), float32], %of_relation: Tensor[(RELATIONS, {INPUT}), float32],
          %w: Tensor[({4 * HIDDEN}, {INPUT}), float32], %b: Tensor[({4 * HIDDEN},), float32],
          %u: Tensor[({3 * HIDDEN}, {HIDDEN}), float32], %u_forget: Tensor[({HIDDEN}, {HIDDEN}), float32],
          %out: Tensor[(1, {HIDDEN}), float32]) -> (float32, float32) {{
  let %xs = take(%of_kind, %kinds, axis=0) + take(%of_relation, %relations, axis=0);
  let %score = @score(%tree, %xs, %w, %b, %u, %u_forget, %out);
  (negative(log(sigmoid(%score * %label))), %score)
}}
"""
RULES = {
    "of_kind": optim.normal(0.5), "of_relation": optim.normal(0.5), "w": optim.xavier, "b": optim.zeros,
    "u": optim.xavier, "u_forget": optim.xavier, "out": optim.xavier,
}  # fmt: skip


def sentences(path: Path):
    """For each sentence of a CoNLL-U file its tree, a (number, children) pair, and the columns of parts of speech and
    of relations."""
    words: list[list[str]] = []
    for line in (*path.read_text("utf-8").splitlines(), ""):
        fields = line.split("\t")
        if len(fields) > 7 and fields[0].isdigit():
            words.append(fields)
        elif not line and words:
            for tree in tree_of([int(word[6]) for word in words]):
                yield tree, [word[4] for word in words], [word[7] for word in words]
            words = []


def data(seed: int = 0):
    """((tree, kinds, relations, label) of each sentence, in an order that follows from the seed), and how many parts of
    speech and relations there are. Labels are -1 and 1."""
    folder = Path(str(distribution("turkish-treebanks").locate_file("data")))
    files = [list(sentences(folder / f"{name}.conllu")) for name in ("web", "wiki")]
    kinds, relations = ({name: n for n, name in enumerate(sorted({k for f in files for s in f for k in s[at]}))}
                        for at in (1, 2))  # fmt: skip
    found = [
        (tree, np.array([kinds[k] for k in ks], "int32"), np.array([relations[r] for r in rs], "int32"), label)
        for file, label in zip(files, (np.float32(-1), np.float32(1)), strict=True)
        for tree, ks, rs in file
    ]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[n] for n in order], len(kinds), len(relations)


def network(kinds: int, relations: int):
    """The loss: (it, score)."""
    return legato.parse(PROGRAM.replace("KINDS", str(kinds)).replace("RELATIONS", str(relations)))


def trainer(kinds: int, relations: int, steps: int, seed: int = 0) -> optim.Trainer:
    """The run before its first step; its rate falls to 0 in so many steps."""
    loss = network(kinds, relations)
    optimizer = optim.Adam(optim.WarmUp(optim.Cosine(4e-3, steps), 50))
    return optim.Trainer(loss, optimizer, optim.initial(loss, RULES, seed), clip=optim.ByNorm(1.0))


def share(exe: Executable, weights: dict, given: list[tuple]) -> float:
    """The share of sentences whose kind is said right."""
    right = 0
    for tree, kinds, relations, label in given:
        batch = {"tree": value(exe, tree), "kinds": kinds, "relations": relations, "label": label}
        right += (exe.run({**batch, **weights})["output1"] > 0) == (label > 0)
    return float(right) / len(given)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, default=Path("out/train_tree_lstm.png"), metavar="FILE")
    args = parser.parse_args()
    found, kinds, relations = data(args.seed)
    test, given = found[:500], found[500:]
    run = trainer(kinds, relations, args.steps, args.seed)
    if args.checkpoint is not None and args.checkpoint.exists():
        run.load(args.checkpoint)
    steps = range(run.steps, max(args.steps, run.steps))
    progress = Progress(steps)
    for (row,) in batches(len(given), 1, steps, args.seed):
        tree, *rest = given[row]
        loss, _ = run.step(value(run.executable, tree), *rest)
        progress.add(loss)
    progress.close()
    if args.checkpoint is not None:
        run.save(args.checkpoint)
    exe = legato.compile(network(kinds, relations))
    print(f"of {share(exe, run.params, test):.1%} of new sentences it says right where they come from")
    if progress.losses:
        plot(progress.losses, args.plot, steps.start)


if __name__ == "__main__":
    main()
