"""Trees from the lists of `TreeEnsembleRegressor`, `TreeEnsembleClassifier` and `TreeEnsemble`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.onnx.forest import MODES, Forest, Leaves, Nodes, forest, numbered
from legato.frontend.onnx.tensors import Array

__all__ = ["Lists", "Votes", "ensemble", "ensemble_5", "same_length"]

_LEAF = MODES.index("LEAF")
_MEMBER = MODES.index("BRANCH_MEMBER")


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of nodes, as the attributes `nodes_…` have them; `missing`: nodes_missing_value_tracks_true."""

    trees: Sequence[int]
    ids: Sequence[int]
    features: Sequence[int]
    values: Array
    modes: Sequence[str]
    true: Sequence[int]
    false: Sequence[int]
    missing: Sequence[int]


@dataclass(frozen=True, slots=True)
class Votes:
    """What leaves say: for each entry the tree, the node, the target or class, and the weight."""

    trees: Sequence[int]
    ids: Sequence[int]
    targets: Sequence[int]
    weights: Array


def same_length(lists: Mapping[str, Sequence[object] | Array]) -> None:
    """ImportModelError where attributes that go together have different lengths."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise ImportModelError(f"lists of one length are wanted: {shown} elements")


def ensemble(lists: Lists, votes: Votes, targets: int) -> tuple[Forest, Leaves]:
    """The trees of operator sets 1 and 3, whose leaves are nodes."""
    missing = lists.missing or (0,) * len(lists.ids)
    same_length({"nodes_treeids": lists.trees, "nodes_nodeids": lists.ids, "nodes_featureids": lists.features,
                 "nodes_values": lists.values, "nodes_modes": lists.modes, "nodes_truenodeids": lists.true,
                 "nodes_falsenodeids": lists.false, "nodes_missing_value_tracks_true": missing})  # fmt: skip
    same_length({"trees of weights": votes.trees, "nodes of weights": votes.ids, "targets of weights": votes.targets,
                 "weights": votes.weights})  # fmt: skip
    modes = [_mode(name) for name in lists.modes]
    at = numbered(lists.trees, lists.ids, "a tree")
    leaves = {n: k for k, n in enumerate(n for n, mode in enumerate(modes) if mode == _LEAF)}
    inner = {n: k for k, n in enumerate(n for n, mode in enumerate(modes) if mode != _LEAF)}
    code = [-1 - leaves[n] if mode == _LEAF else inner[n] for n, mode in enumerate(modes)]
    true, false = (_children(lists, inner, at, ids) for ids in (lists.true, lists.false))
    taken = set(true).union(false)
    roots = _roots([(tree, n) for n, tree in enumerate(lists.trees) if n not in taken], lists.trees)
    nodes = Nodes(
        features=[lists.features[n] for n in inner],
        thresholds=lists.values[list(inner)],
        modes=[modes[n] for n in inner],
        true=[code[n] for n in true],
        false=[code[n] for n in false],
        missing=[missing[n] for n in inner],
        members={},
    )
    return forest(nodes, [code[n] for n in roots]), _leaves(votes, at, leaves, targets)


def _mode(name: str) -> int:
    if name not in MODES or name == MODES[_MEMBER]:
        raise ImportModelError(f"a node of mode {name!r}, wanted one of {', '.join(MODES[:_MEMBER])}, LEAF")
    return MODES.index(name)


def _children(
    lists: Lists, inner: Mapping[int, int], at: Mapping[tuple[int, int], int], ids: Sequence[int]
) -> list[int]:
    """The positions of the children `ids` of the nodes `inner`."""
    found = [at.get((lists.trees[n], ids[n]), -1) for n in inner]
    if -1 in found:
        n = list(inner)[found.index(-1)]
        raise ImportModelError(f"node {lists.ids[n]} of tree {lists.trees[n]} has a child {ids[n]} that is not there")
    return found


def _roots(free: Sequence[tuple[int, int]], trees: Sequence[int]) -> list[int]:
    """The nodes where the trees begin, in the order of the trees; `free`: those that are no child."""
    found: dict[int, list[int]] = {tree: [] for tree in trees}
    for tree, n in free:
        found[tree].append(n)
    for tree, nodes in found.items():
        if len(nodes) != 1:
            raise ImportModelError(f"tree {tree} begins at {len(nodes)} nodes, wanted one")
    return [nodes[0] for nodes in found.values()]


def _leaves(votes: Votes, at: Mapping[tuple[int, int], int], leaves: Mapping[int, int], targets: int) -> Leaves:
    """What the leaves say, by leaf; what is said of other nodes does not count."""
    wrong = next((t for t in votes.targets if not 0 <= t < targets), None)
    if wrong is not None:
        raise ImportModelError(f"a weight of target {wrong}, of {targets}")
    nodes = [at.get(key, -1) for key in zip(votes.trees, votes.ids, strict=True)]
    if -1 in nodes:
        n = nodes.index(-1)
        raise ImportModelError(f"a weight of node {votes.ids[n]} of tree {votes.trees[n]}, which is not there")
    of = np.array([leaves.get(n, -1) for n in nodes], np.int64)
    order = np.argsort(of, kind="stable")[np.count_nonzero(of < 0) :]
    counts = np.bincount(of[order], minlength=max(len(leaves), 1))
    return said(np.cumsum([0, *counts]), np.array(votes.targets, np.int64)[order], votes.weights[order])


def said(begins: Array, targets: Array, weights: Array) -> Leaves:
    """The operands for leaves, which are never empty."""
    if not len(weights):
        targets, weights = np.zeros(1, np.int64), np.zeros(1, weights.dtype)
    return Leaves(begins.astype(np.int32), targets.astype(np.int32), weights)


def ensemble_5(
    nodes: Mapping[str, Sequence[int]],
    values: Mapping[str, Array],
    roots: Sequence[int],
    leaf_targets: Sequence[int],
    members: Array,
    targets: int,
) -> tuple[Forest, Leaves]:
    """The trees of operator set 5, whose leaves stand apart; `nodes` and `values` by the names of the attributes."""
    missing = nodes["nodes_missing_value_tracks_true"] or (0,) * len(nodes["nodes_featureids"])
    lists = {**nodes, "nodes_missing_value_tracks_true": missing}
    modes, splits, weights = (values[name] for name in ("nodes_modes", "nodes_splits", "leaf_weights"))
    same_length({**lists, "nodes_modes": modes, "nodes_splits": splits})
    same_length({"leaf_targetids": leaf_targets, "leaf_weights": weights})
    if modes.dtype.kind not in "iu" or any(not 0 <= mode <= _MEMBER for mode in modes.tolist()):
        raise ImportModelError(f"nodes_modes are not all integers from 0 to {_MEMBER}")
    wrong = next((t for t in leaf_targets if not 0 <= t < targets), None)
    if wrong is not None:
        raise ImportModelError(f"a leaf of target {wrong}, of {targets}")
    count = len(modes)
    true, false = (
        [_child(n, is_leaf, count, len(weights)) for n, is_leaf in zip(lists[f"nodes_{side}nodeids"],
                                                                      lists[f"nodes_{side}leafs"], strict=True)]
        for side in ("true", "false")
    )  # fmt: skip
    made = Nodes(lists["nodes_featureids"], splits, modes.tolist(), true, false, missing, _sets(modes, members))
    begins = [_begin(root, true, false) for root in roots]
    leaves = said(np.arange(len(weights) + 1), np.array(leaf_targets, np.int64), weights)
    return forest(made, begins), leaves


def _child(n: int, is_leaf: int, nodes: int, leaves: int) -> int:
    if not 0 <= n < (leaves if is_leaf else nodes):
        raise ImportModelError(f"a node has a child {n} that is not there")
    return -1 - n if is_leaf else n


def _begin(root: int, true: Sequence[int], false: Sequence[int]) -> int:
    """Where a tree begins: at a leaf if both children of its root are this leaf."""
    if not 0 <= root < len(true):
        raise ImportModelError(f"a tree begins at node {root}, which is not there")
    return true[root] if true[root] < 0 and true[root] == false[root] else root


def _sets(modes: Array, members: Array) -> dict[int, Array]:
    """The values that each node of mode BRANCH_MEMBER looks for; NaN ends a set."""
    nodes = np.flatnonzero(modes == _MEMBER).tolist()
    ends = np.flatnonzero(np.isnan(members)).tolist()
    if len(members) and not np.isnan(members[-1]):
        ends.append(len(members))
    if len(ends) != len(nodes):
        raise ImportModelError(f"{len(ends)} sets of membership_values for {len(nodes)} nodes of mode BRANCH_MEMBER")
    begins = [0, *(end + 1 for end in ends[:-1])]
    return {n: members[begin:end] for n, begin, end in zip(nodes, begins, ends, strict=bool(ends))}
