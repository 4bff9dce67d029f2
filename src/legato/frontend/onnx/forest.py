"""Trees as the operators of `ai.onnx.ml` state them, laid out as `ml.tree_ensemble` walks them.

The operators have lists of nodes in any order. Here a node's child for the rows for which its rule does not hold stands
behind it, where the cache has it; rules that are the opposite of another change their children. A file may state
anything: children that there are not, circles, nodes of two parents are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.onnx.tensors import Array
from legato.ops.tree_ensemble import EACH, EQUAL, LANES, LESS, LESS_OR_EQUAL, MISSING, RULES

__all__ = ["MODES", "Forest", "Leaves", "Nodes", "forest", "numbered"]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER, _LEAF = range(len(MODES))
_RULE = {_LEQ: LESS_OR_EQUAL, _LT: LESS, _GTE: LESS, _GT: LESS_OR_EQUAL, _EQ: EQUAL, _NEQ: EQUAL, _MEMBER: EQUAL}
_OPPOSITE = (_GTE, _GT, _NEQ)  # of `_RULE`: the children change places, and with them where NaN goes
_MOST = 1 << 24  # features, and nodes of a file


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of all trees. Of node i the children are the nodes true[i] and false[i], or, where these are below 0, the
    leaves −1 − true[i] and −1 − false[i]; `members`: the values that nodes of mode BRANCH_MEMBER look for."""

    features: Sequence[int]
    thresholds: Array
    modes: Sequence[int]
    true: Sequence[int]
    false: Sequence[int]
    missing: Sequence[int]
    members: Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaf l says weights[k] of targets[k] for k from begins[l] to begins[l + 1]."""

    begins: Array
    targets: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class Forest:
    """The operands of `ml.tree_ensemble` behind the data, its attributes of rules, and how many features it reads."""

    nodes: Array
    thresholds: Array
    roots: Array
    depths: Array
    rule: int
    missing: int
    features: int


def numbered(trees: Sequence[int], ids: Sequence[int], what: str) -> dict[tuple[int, int], int]:
    """The positions of nodes by tree and number."""
    found = {key: n for n, key in enumerate(zip(trees, ids, strict=True))}
    if len(found) != len(ids):
        raise ImportModelError(f"a node of {what} is given twice")
    return found


def forest(nodes: Nodes, roots: Sequence[int]) -> Forest:
    """The layout of trees that begin at `roots`, which are nodes, or leaves (below 0)."""
    _check(nodes, roots)
    laid = _Layout(nodes)
    depths = np.array([laid.tree(root) for root in roots], np.int32)
    groups = np.pad(depths, (0, -len(depths) % LANES)).reshape(-1, LANES)
    table = np.array(laid.rows, np.int64).reshape(-1, 3)
    rules = table[table[:, 0] >= 0, 0] % RULES
    return Forest(
        nodes=table.astype(np.int32),
        thresholds=np.array(laid.thresholds, nodes.thresholds.dtype),
        roots=np.array(laid.roots, np.int32),
        depths=groups.max(axis=1),
        rule=_shared(rules % MISSING),
        missing=_shared(rules // MISSING),
        features=max(nodes.features, default=-1) + 1,
    )


def _shared(values: Array) -> int:
    """The one value that all nodes have, or that each has its own."""
    found = np.unique(values)
    return int(found[0]) if len(found) == 1 else EACH


def _check(nodes: Nodes, roots: Sequence[int]) -> None:
    """ImportModelError where nodes or features are too many or not there."""
    if not roots:
        raise ImportModelError("an ensemble without trees")
    count = len(nodes.features) + sum(len(values) for values in nodes.members.values())
    if count > _MOST:
        raise ImportModelError(f"{count} nodes; at most {_MOST} are accepted")
    wrong = next((f for f in nodes.features if not 0 <= f < _MOST), None)
    if wrong is not None:
        raise ImportModelError(f"a node asks for feature {wrong}, wanted one from 0 to {_MOST - 1}")


class _Layout:
    """What has been laid out."""

    def __init__(self, nodes: Nodes) -> None:
        self.of, self.met = nodes, bytearray(len(nodes.features))
        self.rows: list[list[int]] = []
        self.thresholds: list[Any] = []
        self.roots: list[int] = []

    def tree(self, root: int) -> int:
        """Lays out a tree; the most steps from its root to a leaf."""
        self.roots.append(len(self.rows))
        most, stack = 0, [(root, list[int](), 0)]  # a child, the rows that go on there ahead, and the steps to it
        while stack:
            child, parents, depth = stack.pop()
            for parent in parents:
                self.rows[parent][2] = len(self.rows)
            if child < 0:
                self._put(child, 0)
                self.rows[-1][1:] = [len(self.rows) - 1] * 2
                most = max(most, depth)
            else:
                behind, ahead, rows = self._node(child)
                if rows:
                    stack.append((ahead, rows, depth + len(rows)))
                stack.append((behind, [], depth + len(rows)))
        return most

    def _put(self, code: int, threshold: Any) -> int:
        self.rows.append([code, len(self.rows) + 1, 0])
        self.thresholds.append(threshold)
        return len(self.rows) - 1

    def _node(self, i: int) -> tuple[int, int, list[int]]:
        """Lays out the rows of a node: the child behind the last of them, the other one, and the rows."""
        if self.met[i]:
            raise ImportModelError("a node is reached twice: trees have no circles, and each node has one parent")
        self.met[i] = 1
        mode, ahead, behind = self.of.modes[i], self.of.true[i], self.of.false[i]
        absent = bool(self.of.missing[i])
        if mode in _OPPOSITE:
            ahead, behind = behind, ahead
            absent = mode != _NEQ and not absent  # NaN is not equal to anything
        code = self.of.features[i] * RULES + _RULE[mode]
        values = self.of.members.get(i, ()) if mode == _MEMBER else (self.of.thresholds[i],)
        rows = [self._put(code + MISSING * (absent and not n), value) for n, value in enumerate(values)]
        return behind, ahead, rows
