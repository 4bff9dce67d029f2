"""Operators of `ai.onnx.ml` give what ONNX Runtime makes of them, with known and with named extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.base.errors import CompileError, ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(11)
X = RNG.standard_normal((7, 4)).astype(np.float32)
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def one(operator: str, inputs: Mapping[str, Array], attributes: Mapping[str, Any], outputs: int = 1) -> onnx.ModelProto:
    """A model of one node."""
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, list(inputs), results, domain="ai.onnx.ml", **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 5 if operator == "TreeEnsemble" else 3)]
    declared = [value(name, a.shape, str(a.dtype)) for name, a in inputs.items()]
    return model([node], declared, results, opset_imports=opsets)


def same(
    operator: str, inputs: Sequence[Array], attributes: Mapping[str, Any], outputs: int = 1, tolerance: float = 1e-5
) -> tuple[Array, ...]:
    """The outputs, which ONNX Runtime agrees with."""
    feeds = {f"x{n}": a for n, a in enumerate(inputs)}
    proto = one(operator, feeds, attributes, outputs)
    wanted = ort_outputs(proto, feeds)
    named = {name: (f"{name}_rows", *a.shape[1:]) for name, a in feeds.items() if a.ndim > 1}
    found: tuple[Array, ...] = ()
    for shapes in (None, named):
        found = legato_outputs(proto, feeds, shapes=shapes)
        for got, want in zip(found, wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            if got.dtype == object:
                np.testing.assert_array_equal(got, want)
                continue
            np.testing.assert_allclose(got, want, tolerance, tolerance, equal_nan=True)
    return found


# ------------------------------------------------------------------------------- trees


def trees(rng: np.random.Generator, count: int, outputs: int, *, modes: Sequence[str] = MODES[:1], signed: bool = True,
          dense: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The nodes of random trees over four features, and what their leaves say."""
    nodes: list[dict[str, Any]] = []
    votes: list[tuple[int, int, int, float]] = []
    for tree in range(count):
        numbers = iter(range(100))
        todo = [(next(numbers), int(rng.integers(1, 5)))]
        while todo:
            number, depth = todo.pop()
            kids = [next(numbers), next(numbers)] if depth else [0, 0]
            mode = str(rng.choice(list(modes))) if depth else "LEAF"
            threshold = float(rng.choice(X.ravel())) if "EQ" in mode else float(np.float32(rng.standard_normal()))
            nodes.append({"treeids": tree, "nodeids": number, "featureids": int(rng.integers(4)), "values": threshold,
                          "modes": mode, "truenodeids": kids[0], "falsenodeids": kids[1],
                          "missing_value_tracks_true": int(rng.integers(2)), "hitrates": 1.0})  # fmt: skip
            todo += [(kid, int(rng.integers(depth))) for kid in kids] if depth else []
            said = range(outputs) if dense else [tree % outputs]
            weights = rng.standard_normal(outputs) if signed else rng.random(outputs) / count
            votes += [(tree, number, k, float(weights[k])) for k in said] if not depth else []
    nodes.sort(key=lambda node: (int(node["treeids"]), int(node["nodeids"])))
    return {f"nodes_{key}": [node[key] for node in nodes] for key in nodes[0]}, dict(
        zip(("treeids", "nodeids", "ids", "weights"), map(list, zip(*votes, strict=True)), strict=True)
    )


def regressor(rng: np.random.Generator, outputs: int, count: int = 5, **more: Any) -> dict[str, Any]:
    """The attributes of a TreeEnsembleRegressor."""
    nodes, votes = trees(rng, count, outputs, **more)
    return {**nodes, "n_targets": outputs, **{f"target_{key}": values for key, values in votes.items()}}


def classifier(rng: np.random.Generator, labels: int, outputs: int, count: int = 6, **more: Any) -> dict[str, Any]:
    """The attributes of a TreeEnsembleClassifier."""
    nodes, votes = trees(rng, count, outputs, **more)
    classes = {"classlabels_int64s": list(range(10, 10 + labels))}
    return {**nodes, **classes, **{f"class_{key}": values for key, values in votes.items()}}


GAPS = np.where(RNG.random(X.shape) < 0.3, np.float32(np.nan), X)  # rows with missing values


@pytest.mark.parametrize("mode", [*((m,) for m in MODES), MODES], ids=[*MODES, "mixed"])
def test_modes(mode: Sequence[str]) -> None:
    rng = np.random.default_rng(len(mode))
    for data in (X, GAPS):
        same("TreeEnsembleRegressor", [data], regressor(rng, 1, modes=mode))


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_aggregates(how: str, outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    for base, dense in product(([], [0.5] * outputs), (False, True)):
        attributes = {**regressor(rng, outputs, dense=dense), "aggregate_function": how}
        same("TreeEnsembleRegressor", [X], attributes | ({"base_values": base} if base else {}))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_trees(transform: str) -> None:
    rng = np.random.default_rng(5)
    signed = transform != "PROBIT"
    same("TreeEnsembleRegressor", [X], regressor(rng, 3, signed=signed, dense=True) | {"post_transform": transform})
    many = classifier(rng, 3, 3, signed=signed, dense=True) | {"post_transform": transform}
    same("TreeEnsembleClassifier", [X], many, 2)
    same("TreeEnsembleClassifier", [X], many | {"base_values": [0.1, 0.0, 0.2]}, 2)


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("signed", [False, True])
def test_two_classes(transform: str, *, signed: bool) -> None:
    """The score of one of them decides."""
    rng = np.random.default_rng(6)
    two = classifier(rng, 2, 1, signed=signed) | {"post_transform": transform}
    for base in ([], [0.25]):
        same("TreeEnsembleClassifier", [X], two | ({"base_values": base} if base else {}), 2)
    same("TreeEnsembleClassifier", [X], two | {"class_ids": [1] * len(two["class_ids"])}, 2)


def test_scores_of_both_classes() -> None:
    """The higher one decides, and the label is one of the model's, which ONNX Runtime's is not."""
    attributes = classifier(np.random.default_rng(7), 2, 2, dense=True)
    feeds = {"x": X}
    proto = one("TreeEnsembleClassifier", feeds, attributes, 2)
    label, scores = legato_outputs(proto, feeds)
    np.testing.assert_allclose(scores, ort_outputs(proto, feeds)[1], 1e-5, 1e-5)
    np.testing.assert_array_equal(label, 10 + scores.argmax(axis=1))


def test_transforms_that_onnxruntime_leaves_out() -> None:
    """Of one target, and of both of two classes."""
    rng = np.random.default_rng(4)
    target = regressor(rng, 1)
    proto = one("TreeEnsembleRegressor", {"x": X}, target | {"post_transform": "LOGISTIC"})
    (plain,) = same("TreeEnsembleRegressor", [X], target)
    np.testing.assert_allclose(legato_outputs(proto, {"x": X})[0], 1 / (1 + np.exp(-plain)), 1e-6)
    two = classifier(rng, 2, 1, signed=False)
    label, scores = same("TreeEnsembleClassifier", [X], two, 2)
    proto = one("TreeEnsembleClassifier", {"x": X}, two | {"post_transform": "PROBIT"}, 2)
    found, units = legato_outputs(proto, {"x": X})
    np.testing.assert_array_equal(found, label)
    quantiles = [[NormalDist().inv_cdf(float(p)) for p in row] for row in scores]
    np.testing.assert_allclose(units, quantiles, 5e-3, 5e-3)  # Winitzki's formula is so near


def test_dtypes_of_trees() -> None:
    rng = np.random.default_rng(8)
    attributes = regressor(rng, 2)
    same("TreeEnsembleRegressor", [X.astype(np.float64)], attributes)
    for dtype in (np.int64, np.int32):
        same("TreeEnsembleClassifier", [(X * 3).astype(dtype)], classifier(rng, 3, 3), 2)
    doubles = {f"{key}_as_tensor": np.array(attributes.pop(key)) for key in ("nodes_values", "target_weights")}
    attributes.pop("nodes_hitrates")
    tensors = {key: onnx.numpy_helper.from_array(a, key) for key, a in doubles.items()}
    same("TreeEnsembleRegressor", [X.astype(np.float64)], attributes | tensors)


def test_order_and_numbers_of_nodes() -> None:
    """They do not matter."""
    rng = np.random.default_rng(3)
    attributes = regressor(rng, 3, modes=MODES, dense=True)
    (wanted,) = legato_outputs(one("TreeEnsembleRegressor", {"x": X}, attributes), {"x": X})
    number = rng.permutation(1000)
    names = ("nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "target_nodeids")
    moved = {**attributes, **{name: number[attributes[name]].tolist() for name in names}}
    order = rng.permutation(len(moved["nodes_treeids"]))
    moved |= {k: [v[n] for n in order] for k, v in moved.items() if k.startswith("nodes_")}
    (found,) = legato_outputs(one("TreeEnsembleRegressor", {"x": X}, moved), {"x": X})
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_trees_of_leaves_alone() -> None:
    leaf = {"nodes_treeids": [0], "nodes_nodeids": [3], "nodes_featureids": [0], "nodes_values": [0.0],
            "nodes_modes": ["LEAF"], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "n_targets": 1,
            "target_treeids": [0], "target_nodeids": [3], "target_ids": [0], "target_weights": [1.5]}  # fmt: skip
    (y,) = legato_outputs(one("TreeEnsembleRegressor", {"x": X}, leaf), {"x": X})
    np.testing.assert_array_equal(y, np.full((7, 1), 1.5, np.float32))


def fifth(**more: Any) -> dict[str, Any]:
    """A TreeEnsemble: x₀ in {1, 2} ? 10 : (x₁ <= 0 ? 20 : 30), and a tree of one leaf."""
    made = {
        "n_targets": 2, "tree_roots": [0, 2], "nodes_featureids": [0, 1, 0],
        "nodes_modes": np.array([6, 0, 0], np.uint8),
        "nodes_splits": np.zeros(3, np.float32), "nodes_truenodeids": [0, 1, 3], "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 3], "nodes_falseleafs": [0, 1, 1], "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": np.array([10, 20, 30, 0.5], np.float32),
        "membership_values": np.array([1, 2, np.nan], np.float32), **more,
    }  # fmt: skip
    return {k: onnx.numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in made.items()}


@pytest.mark.parametrize("tracks", [0, 1])
def test_membership(tracks: int) -> None:
    data = np.array([[1, 0], [2, 5], [3, -1], [3, 1], [np.nan, 1]], np.float32)
    (y,) = same("TreeEnsemble", [data], fifth(nodes_missing_value_tracks_true=[tracks, 0, 0]))
    last = [10, 0.5] if tracks else [30, 0.5]
    np.testing.assert_array_equal(y, [[10, 0.5], [10, 0.5], [0, 20.5], [30, 0.5], last])


BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "circle": ({"nodes_truenodeids": [0, 0, 0, 0], "nodes_falsenodeids": [1, 1, 0, 0]}, "begins at 2 nodes"),
    "shared": ({"nodes_truenodeids": [1, 2, 0, 0], "nodes_falsenodeids": [1, 3, 0, 0]}, "reached twice"),
    "child": ({"nodes_truenodeids": [9, 2, 0, 0]}, "not there"),
    "feature": ({"nodes_featureids": [-1, 0, 0, 0]}, "feature -1"),
    "features": ({"nodes_featureids": [4, 0, 0, 0]}, "5 or more"),
    "lengths": ({"nodes_values": [0.0]}, "one length"),
    "target": ({"target_ids": [0, 0, 7]}, "target 7"),
    "leaf": ({"target_nodeids": [1, 2, 8]}, "not there"),
    "mode": ({"nodes_modes": ["BRANCH_XOR", "LEAF", "LEAF", "LEAF"]}, "BRANCH_XOR"),
    "roots": ({"nodes_modes": ["LEAF"] * 4}, "begins at 4 nodes"),
    "aggregate": ({"aggregate_function": "MEDIAN"}, "MEDIAN"),
    "transform": ({"post_transform": "TANH"}, "TANH"),
    "base": ({"base_values": [0.0, 1.0, 2.0]}, "base_values"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_wrong_trees_are_refused(name: str) -> None:
    changed, message = BAD[name]
    tree = {"nodes_treeids": [0] * 4, "nodes_nodeids": [0, 1, 2, 3], "nodes_featureids": [0] * 4,
            "nodes_values": [0.0] * 4, "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF"],
            "nodes_truenodeids": [1, 2, 0, 0], "nodes_falsenodeids": [2, 3, 0, 0], "n_targets": 1,
            "target_treeids": [0, 0, 0], "target_nodeids": [1, 2, 3], "target_ids": [0, 0, 0],
            "target_weights": [1.0, 2.0, 3.0]}  # fmt: skip
    with pytest.raises(ImportModelError, match=message):
        from_onnx(one("TreeEnsembleRegressor", {"x": X}, tree | changed))


def test_rows_of_too_few_features() -> None:
    """What is not known when the model is compiled, calls check."""
    feeds = {"x": X}
    proto = one("TreeEnsembleRegressor", feeds, regressor(np.random.default_rng(1), 1))
    run = legato.compile(from_onnx(proto, shapes={"x": ("n", "f")}))
    np.testing.assert_allclose(run(X), ort_outputs(proto, feeds)[0], 1e-5)
    with pytest.raises(LegatoError, match="4 <= f"):
        run(X[:, :1])


# ------------------------------------------------------------------------------- linear models and machines


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear(transform: str) -> None:
    rng = np.random.default_rng(9)
    three = {"coefficients": (rng.random(12) / 9).tolist(), "intercepts": [0.3, 0.2, 0.4], "post_transform": transform}
    data = np.abs(X) if transform == "PROBIT" else X
    same("LinearRegressor", [data], three | {"targets": 3})
    same("LinearClassifier", [data], three | {"classlabels_ints": [3, 1, 2]}, 2)
    two = {"coefficients": rng.random(4).tolist(), "intercepts": [0.1], "classlabels_ints": [5, 9]}
    if transform != "PROBIT":
        same("LinearClassifier", [X], two | {"post_transform": transform}, 2)
    for dtype in (np.float64, np.int64):
        same("LinearClassifier", [(4 * X).astype(dtype)], two, 2)


KERNELS = {"LINEAR": [], "POLY": [0.3, 0.7, 3.0], "RBF": [0.4, 0.0, 0.0], "SIGMOID": [0.2, 0.1, 0.0]}


@pytest.mark.parametrize("kernel", KERNELS)
def test_machines(kernel: str) -> None:
    rng = np.random.default_rng(10)
    shared = {"kernel_type": kernel, "kernel_params": KERNELS[kernel] or [0.0, 0.0, 3.0]}
    vectors = rng.standard_normal(24).tolist()
    one_target = {"coefficients": rng.standard_normal(6).tolist(), "rho": [0.25], "support_vectors": vectors}
    same("SVMRegressor", [X], one_target | shared | {"n_supports": 6})
    same("SVMRegressor", [X], one_target | shared | {"n_supports": 6, "one_class": 1})
    for classes, counts in ((2, [4, 2]), (3, [1, 2, 3])):
        pairs = classes * (classes - 1) // 2
        made = shared | {"coefficients": rng.standard_normal(6 * (classes - 1)).tolist(), "support_vectors": vectors,
                         "rho": rng.standard_normal(pairs).tolist(), "vectors_per_class": counts,
                         "classlabels_ints": list(range(4, 4 + classes))}  # fmt: skip
        for transform in TRANSFORMS[:4]:
            same("SVMClassifier", [X], made | {"post_transform": transform}, 2)
        likely = {"prob_a": (-rng.random(pairs)).tolist(), "prob_b": rng.standard_normal(pairs).tolist()}
        same("SVMClassifier", [X], made | likely, 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_machines_without_vectors(classes: int) -> None:
    rng = np.random.default_rng(12)
    weights = rng.standard_normal(4 * classes)
    for coefficients in (weights, np.abs(weights)):
        made = {"coefficients": coefficients.tolist(), "rho": [0.2], "classlabels_ints": [7, 8, 9][:classes],
                "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 3.0]}  # fmt: skip
        same("SVMClassifier", [X], made, 2)
    same(
        "SVMRegressor",
        [X],
        {"coefficients": weights[:4].tolist(), "rho": [0.5], "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 3.0]},
    )


# ------------------------------------------------------------------------------- features


def test_features() -> None:
    zeros = np.array([[0, 0, 0], [1, -2, 3], [-4, -5, -6]], np.float32)
    for norm in ("MAX", "L1", "L2"):
        for data in (zeros, X, X.astype(np.float64), zeros.astype(np.int64)):
            same("Normalizer", [data], {"norm": norm})
    same("Scaler", [X], {"offset": [1.0, 2, 3, 4], "scale": [0.5, 1, 2, 4]})
    same("Scaler", [X.astype(np.float64)], {"offset": [1.0], "scale": [0.5]})
    same("Binarizer", [X], {"threshold": 0.25})
    for dtype in (np.float32, np.int64, np.float64):
        same("OneHotEncoder", [np.array([[1, 2], [7, 3]], dtype)], {"cats_int64s": [3, 1, 2]})
    same("Imputer", [GAPS], {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": float("nan")})
    same("Imputer", [GAPS], {"imputed_value_floats": [1.0], "replaced_value_float": float(X[0, 0])})
    integers = np.array([[1, 2], [2, 3]], np.int64)
    same("Imputer", [integers], {"imputed_value_int64s": [5, 6], "replaced_value_int64": 2})
    same("ArrayFeatureExtractor", [X, np.array([[2, 0]], np.int64)], {})
    same("ArrayFeatureExtractor", [X[0], np.array([1, 1, 3], np.int64)], {})
    same("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": [4, 2]})


def test_unknown_categories() -> None:
    """Where there must be none, calls check it."""
    proto = one("OneHotEncoder", {"x": np.array([[1, 2]])}, {"cats_int64s": [1, 2], "zeros": 0})
    run = legato.compile(from_onnx(proto))
    np.testing.assert_array_equal(run(np.array([[2, 1]])), [[[0, 1], [1, 0]]])
    with pytest.raises(LegatoError, match="no category"):
        run(np.array([[2, 3]]))


def test_zip_map() -> None:
    """The matrix, and what its columns are of."""
    proto = one("ZipMap", {"x": X}, {"classlabels_strings": ["a", "b", "c", "d"]})
    mod = from_onnx(proto)
    keys = mod["main"].attrs["output_keys"]["y0"]
    assert [dict(zip(keys, row, strict=True)) for row in legato_outputs(proto, {"x": X})[0]] == ort_outputs(
        proto, {"x": X}
    )[0]
    assert legato.parse(str(mod))["main"].attrs["output_keys"] == mod["main"].attrs["output_keys"]


WORDS = np.array([["b", "a"], ["ü", "b"], ["", "c"]], object)


def test_strings() -> None:
    """As labels, as categories, and as features."""
    names = {"classlabels_strings": ["no", "yes", "maybe"]}
    lines = {"coefficients": RNG.standard_normal(12).tolist(), "intercepts": [0.0, 0.1, 0.2]}
    trees_of_three = classifier(RNG, 3, 3)
    del trees_of_three["classlabels_int64s"]
    for operator, attributes in (
        ("LinearClassifier", lines | names),
        ("TreeEnsembleClassifier", trees_of_three | names),
    ):
        same(operator, [X], attributes, 2)
    same("OneHotEncoder", [WORDS], {"cats_strings": ["a", "b", "c"]})
    same("ArrayFeatureExtractor", [WORDS, np.array([1, 1], np.int64)], {})
    proto = one("OneHotEncoder", {"x": WORDS}, {"cats_strings": ["a", "b", "c"]})
    np.testing.assert_array_equal(legato.compile(from_onnx(proto))(WORDS), ort_outputs(proto, {"x": WORDS})[0])


def test_maps_are_refused() -> None:
    for operator in ("DictVectorizer", "CastMap"):
        with pytest.raises(UnsupportedError, match="maps from names to values"):
            from_onnx(one(operator, {"x": X}, {}))


def test_wrong_numbers_are_refused() -> None:
    for operator, attributes in (
        ("LinearRegressor", {"coefficients": [1.0] * 3}),
        ("LinearClassifier", {"classlabels_ints": [1, 2, 3], "coefficients": [1.0] * 8, "intercepts": [0.0, 0.0]}),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0, 1.0]}),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 2, "support_vectors": [0.0] * 8}),
        ("Normalizer", {"norm": "L3"}),
        ("Imputer", {}),
        ("OneHotEncoder", {"cats_strings": ["a"]}),
        ("ZipMap", {"classlabels_int64s": [1, 2]}),
        ("ArrayFeatureExtractor", {}),
    ):
        with pytest.raises(CompileError):
            from_onnx(one(operator, {"x": X}, attributes))
