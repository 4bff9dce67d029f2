"""Tree ensembles of `ai.onnx.ml`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.base.dtype import float32
from legato.base.errors import ImportModelError
from legato.frontend.onnx import scores as of
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.forest import Forest, Leaves
from legato.frontend.onnx.stated_trees import Lists, Votes, ensemble, ensemble_5
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Expr
from legato.ops.tree_ensemble import AGGREGATES

DOMAIN = of.DOMAIN
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # as operator set 5 numbers them


def tree_ensemble_regressor(
    b: Emitter,
    x: Expr,
    *,
    aggregate_function: str = "SUM",
    base_values: tuple[float, ...] = (),
    base_values_as_tensor: Array | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: tuple[int, ...] = (),
    nodes_featureids: tuple[int, ...] = (),
    nodes_hitrates: tuple[float, ...] = (),
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: tuple[str, ...] = (),
    nodes_nodeids: tuple[int, ...] = (),
    nodes_treeids: tuple[int, ...] = (),
    nodes_truenodeids: tuple[int, ...] = (),
    nodes_values: tuple[float, ...] = (),
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: tuple[int, ...] = (),
    target_nodeids: tuple[int, ...] = (),
    target_treeids: tuple[int, ...] = (),
    target_weights: tuple[float, ...] = (),
    target_weights_as_tensor: Array | None = None,
) -> Expr:
    values = _numbers(nodes_values, nodes_values_as_tensor)
    lists = Lists(nodes_treeids, nodes_nodeids, nodes_featureids, values, nodes_modes, nodes_truenodeids,
                  nodes_falsenodeids, nodes_missing_value_tracks_true)  # fmt: skip
    weights = _numbers(target_weights, target_weights_as_tensor)
    votes = Votes(target_treeids, target_nodeids, target_ids, weights)
    said = _walked(b, x, *ensemble(lists, votes, n_targets), n_targets, aggregate_function)
    said = _based(b, said, _numbers(base_values, base_values_as_tensor), n_targets)
    return b.to(of.transformed(b, said, post_transform), float32)


def tree_ensemble_classifier(
    b: Emitter,
    x: Expr,
    *,
    base_values: tuple[float, ...] = (),
    base_values_as_tensor: Array | None = None,
    class_ids: tuple[int, ...] = (),
    class_nodeids: tuple[int, ...] = (),
    class_treeids: tuple[int, ...] = (),
    class_weights: tuple[float, ...] = (),
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: tuple[int, ...] = (),
    classlabels_strings: tuple[str, ...] = (),
    nodes_falsenodeids: tuple[int, ...] = (),
    nodes_featureids: tuple[int, ...] = (),
    nodes_hitrates: tuple[float, ...] = (),
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: tuple[str, ...] = (),
    nodes_nodeids: tuple[int, ...] = (),
    nodes_treeids: tuple[int, ...] = (),
    nodes_truenodeids: tuple[int, ...] = (),
    nodes_values: tuple[float, ...] = (),
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[Expr, Expr]:
    """The label of each row, and the scores of its classes."""
    labels = of.labels(classlabels_int64s, classlabels_strings)
    values = _numbers(nodes_values, nodes_values_as_tensor)
    lists = Lists(nodes_treeids, nodes_nodeids, nodes_featureids, values, nodes_modes, nodes_truenodeids,
                  nodes_falsenodeids, nodes_missing_value_tracks_true)  # fmt: skip
    weights = _numbers(class_weights, class_weights_as_tensor)
    votes = Votes(class_treeids, class_nodeids, class_ids, weights)
    said = _walked(b, x, *ensemble(lists, votes, len(labels)), len(labels), "SUM")
    base = _numbers(base_values, base_values_as_tensor)
    used = set(class_ids)
    least = 0.5 if bool((weights >= 0).all()) else 0.0
    if len(labels) == 2 and used <= {0} and len(base) < 2:
        score = _based(b, b.columns(said, 0, 1), base, 1)
        chosen, found = of.second(b, score, least), of.both(b, score, post_transform, complement=least > 0)
    else:
        if len(labels) == 2 and len(base) == 1:
            base = np.append(base, base.dtype.type(0))
        said = _based(b, said, base, len(labels))
        one = len(labels) == 2 and len(used) == 1
        chosen = of.second(b, _column(b, said, used), least) if one else of.highest(b, said)
        found = of.transformed(b, said, post_transform)
    return of.labelled(b, labels, chosen), b.to(found, float32)


def tree_ensemble_5(
    b: Emitter,
    x: Expr,
    *,
    aggregate_function: int = 1,
    leaf_targetids: tuple[int, ...],
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int = 1,
    nodes_falseleafs: tuple[int, ...],
    nodes_falsenodeids: tuple[int, ...],
    nodes_featureids: tuple[int, ...],
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: tuple[int, ...],
    nodes_truenodeids: tuple[int, ...],
    post_transform: int = 0,
    tree_roots: tuple[int, ...],
) -> Expr:
    if not (0 <= aggregate_function < len(_AGGREGATES) and 0 <= post_transform < len(of.TRANSFORMS)):
        raise ImportModelError(f"aggregate_function {aggregate_function} and post_transform {post_transform} are not "
                               f"both below {len(_AGGREGATES)} and {len(of.TRANSFORMS)}")  # fmt: skip
    nodes = {"nodes_featureids": nodes_featureids, "nodes_truenodeids": nodes_truenodeids,
             "nodes_falsenodeids": nodes_falsenodeids, "nodes_trueleafs": nodes_trueleafs,
             "nodes_falseleafs": nodes_falseleafs,
             "nodes_missing_value_tracks_true": nodes_missing_value_tracks_true}  # fmt: skip
    splits, weights, members = (_wide(v) for v in (nodes_splits, leaf_weights, membership_values))
    values = {"nodes_modes": nodes_modes.ravel(), "nodes_splits": splits, "leaf_weights": weights}
    trees = ensemble_5(nodes, values, tree_roots, leaf_targetids, members, n_targets)
    said = _walked(b, x, *trees, n_targets, _AGGREGATES[aggregate_function])
    return b.to(of.transformed(b, said, of.TRANSFORMS[post_transform]), b.dtype(x))


def _numbers(values: Sequence[float], tensor: Array | None) -> Array:
    """An attribute that a file states as numbers of float32, or as a tensor."""
    if values and tensor is not None:
        raise ImportModelError("an attribute is given as numbers and as a tensor")
    return np.array(values, np.float32) if tensor is None else _wide(tensor)


def _wide(values: Array | None) -> Array:
    """Float32 or float64."""
    if values is None:
        return np.zeros(0, np.float32)
    if values.dtype.kind in "bcOSU":
        raise ImportModelError(f"an attribute is a tensor of {values.dtype}, wanted numbers")
    return values.ravel() if values.dtype == np.float64 else values.ravel().astype(np.float32)


def _walked(b: Emitter, x: Expr, trees: Forest, leaves: Leaves, targets: int, aggregate: str) -> Expr:
    """What the trees say of each row; float64 where the data or what the file states is."""
    if aggregate not in AGGREGATES:
        raise ImportModelError(f"aggregate_function is {aggregate!r}, wanted one of {', '.join(AGGREGATES)}")
    double = np.float64 in (trees.thresholds.dtype, leaves.weights.dtype)
    data = of.wide_rows(b, x, double=double)
    of.require_features(b, data, trees.features, exactly=False)
    dtype = b.dtype(data).numpy
    operands = (trees.nodes, trees.thresholds.astype(dtype), trees.roots, trees.depths, leaves.begins, leaves.targets,
                leaves.weights.astype(dtype))  # fmt: skip
    attributes = {"n_targets": targets, "aggregate": aggregate, "rule": trees.rule, "missing": trees.missing}
    return b.ml.tree_ensemble(data, *(b.constant(v) for v in operands), **attributes)


def _based(b: Emitter, said: Expr, base: Array, targets: int) -> Expr:
    """With the base values added, of which there may be none."""
    if not len(base):
        return said
    if len(base) not in (1, targets):
        raise ImportModelError(f"{len(base)} base_values, wanted {targets}")
    return b.add(said, b.constant(base.astype(b.dtype(said).numpy)))


def _column(b: Emitter, said: Expr, used: set[int]) -> Expr:
    (n,) = used
    return b.columns(said, n, n + 1)
