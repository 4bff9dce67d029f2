"""Pipelines of scikit-learn, LightGBM and XGBoost, fitted on data that scikit-learn brings, as ONNX models.

Each is seeded, so that it is the same model each time. `fitted` gives one with the rows of which it is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx

__all__ = ["PIPELINES", "Array", "Fitted", "Pipeline", "fitted"]

Array = np.ndarray[Any, Any]
_ROWS = 1000
_OPSETS = {"": 18, "ai.onnx.ml": 3}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is fitted on which data; `scores`: the method of the library that the second output is compared with."""

    data: str
    make: Callable[[], Any]
    scores: str | None = "predict_proba"
    gaps: bool = False  # some values are missing
    maps: bool = False  # the model ends in a ZipMap


@dataclass(frozen=True, slots=True)
class Fitted:
    """A pipeline as a model, a thousand rows, and what its library says of them: labels or values, and scores, if it
    has them in the form that the model has."""

    name: str
    model: onnx.ModelProto
    rows: Array
    wanted: Sequence[Array]


def _in(module: str, name: str, **settings: Any) -> Callable[[], Any]:
    """An estimator of scikit-learn, imported when it is made."""

    def make() -> Any:
        from importlib import import_module

        return getattr(import_module(module if "." in module or module in _OTHERS else f"sklearn.{module}"), name)(
            **settings
        )

    return make


_OTHERS = ("lightgbm", "xgboost")


def _chain(*makers: Callable[[], Any]) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.pipeline import make_pipeline

        return make_pipeline(*(maker() for maker in makers))

    return make


def _columns() -> Any:
    """Some features scaled, one in two bins, some as they are."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import Binarizer, StandardScaler

    return ColumnTransformer(
        [("scaled", StandardScaler(), [0, 2, 3]), ("sex", Binarizer(threshold=0.0), [1]), ("rest", "passthrough", [8])]
    )


def _vote() -> Any:
    from sklearn.ensemble import VotingClassifier

    parts = [("tree", _in("tree", "DecisionTreeClassifier", max_depth=3, random_state=0)()),
             ("bayes", _in("naive_bayes", "GaussianNB")()),
             ("line", _in("linear_model", "LogisticRegression", max_iter=500)())]  # fmt: skip
    return VotingClassifier(parts, voting="soft", flatten_transform=False)


_SCALED = _in("preprocessing", "StandardScaler")
_LGBM = {"n_estimators": 40, "num_leaves": 15, "verbose": -1, "n_jobs": 1, "random_state": 0}
_XGB = {"n_estimators": 40, "max_depth": 4, "n_jobs": 1, "random_state": 0}
_FOREST = {"n_estimators": 41, "max_depth": 8, "random_state": 0}

PIPELINES: Mapping[str, Pipeline] = {
    # trees
    "tree, classes": Pipeline("iris", _in("tree", "DecisionTreeClassifier", max_depth=4, random_state=0)),
    "tree, values": Pipeline("diabetes", _in("tree", "DecisionTreeRegressor", max_depth=6, random_state=0), None),
    "forest, two classes": Pipeline("cancer", _in("ensemble", "RandomForestClassifier", **_FOREST)),
    "forest, ten classes": Pipeline("digits", _in("ensemble", "RandomForestClassifier", **_FOREST)),
    "forest, values": Pipeline("diabetes", _in("ensemble", "RandomForestRegressor", **_FOREST), None),
    "extra trees, classes": Pipeline("wine", _in("ensemble", "ExtraTreesClassifier", **_FOREST), maps=True),
    "extra trees, values": Pipeline("diabetes", _in("ensemble", "ExtraTreesRegressor", **_FOREST), None),
    "boosting, two classes": Pipeline("cancer", _in("ensemble", "GradientBoostingClassifier", n_estimators=40,
                                                    random_state=0)),
    "boosting, classes": Pipeline("iris", _in("ensemble", "GradientBoostingClassifier", n_estimators=20,
                                              random_state=0)),
    "boosting, values": Pipeline("diabetes", _in("ensemble", "GradientBoostingRegressor", n_estimators=40,
                                                 random_state=0), None),
    "AdaBoost": Pipeline("wine", _in("ensemble", "AdaBoostClassifier", n_estimators=10, random_state=0)),
    "bagging": Pipeline("iris", _in("ensemble", "BaggingClassifier", random_state=0)),
    "votes": Pipeline("iris", _vote),
    "LightGBM, two classes": Pipeline("cancer", _in("lightgbm", "LGBMClassifier", **_LGBM)),
    "LightGBM, classes": Pipeline("wine", _in("lightgbm", "LGBMClassifier", **_LGBM), maps=True),
    "LightGBM, ten classes": Pipeline("digits", _in("lightgbm", "LGBMClassifier", **_LGBM | {"n_estimators": 15})),
    "LightGBM, values": Pipeline("diabetes", _in("lightgbm", "LGBMRegressor", **_LGBM), None),
    "LightGBM, gaps": Pipeline("cancer", _in("lightgbm", "LGBMClassifier", **_LGBM), gaps=True),
    "XGBoost, two classes": Pipeline("cancer", _in("xgboost", "XGBClassifier", **_XGB)),
    "XGBoost, ten classes": Pipeline("digits", _in("xgboost", "XGBClassifier", **_XGB | {"n_estimators": 15})),
    "XGBoost, values": Pipeline("diabetes", _in("xgboost", "XGBRegressor", **_XGB), None),
    "XGBoost, gaps": Pipeline("wine", _in("xgboost", "XGBClassifier", **_XGB), gaps=True),
    # linear models
    "logistic, two classes": Pipeline("cancer", _chain(_SCALED, _in("linear_model", "LogisticRegression"))),
    "logistic, classes": Pipeline("wine", _chain(_SCALED, _in("linear_model", "LogisticRegression"))),
    "linear": Pipeline("diabetes", _in("linear_model", "LinearRegression"), None),
    "ridge of products": Pipeline("diabetes", _chain(_in("preprocessing", "PolynomialFeatures", degree=2),
                                                     _in("linear_model", "Ridge", alpha=0.1)), None),
    "lasso": Pipeline("diabetes", _chain(_SCALED, _in("linear_model", "Lasso")), None),
    "elastic net, two targets": Pipeline("targets", _in("linear_model", "MultiTaskElasticNet", alpha=0.01), None),
    "gradient descent": Pipeline("cancer", _chain(_SCALED, _in("linear_model", "SGDClassifier", loss="log_loss",
                                                               random_state=0))),
    "linear machine": Pipeline("diabetes", _chain(_SCALED, _in("svm", "LinearSVR", C=10.0, random_state=0)), None),
    # support vector machines
    "machine, two classes": Pipeline("cancer", _chain(_SCALED, _in("svm", "SVC")), None),
    "machine, classes": Pipeline("wine", _chain(_SCALED, _in("svm", "SVC")),
                                 "decision_function"),
    "machine, polynomial": Pipeline("iris", _chain(_SCALED, _in("svm", "SVC", kernel="poly")),
                                    "decision_function"),
    "machine, probabilities": Pipeline("iris", _in("svm", "SVC", probability=True, random_state=0)),
    "machine, values": Pipeline("diabetes", _chain(_SCALED, _in("svm", "SVR", C=50.0)), None),
    "machine, one class": Pipeline("iris", _in("svm", "OneClassSVM", nu=0.1), "decision_function"),
    # others
    "neighbours": Pipeline("iris", _in("neighbors", "KNeighborsClassifier", n_neighbors=3)),
    "neighbours, values": Pipeline("diabetes", _in("neighbors", "KNeighborsRegressor"), None),
    "Bayes": Pipeline("iris", _in("naive_bayes", "GaussianNB")),
    "perceptron, classes": Pipeline("digits", _in("neural_network", "MLPClassifier", hidden_layer_sizes=(32,),
                                                  max_iter=30, random_state=0)),
    "perceptron, values": Pipeline("diabetes", _chain(_SCALED, _in("neural_network", "MLPRegressor", max_iter=50,
                                                                   random_state=0)), None),
    "k-means": Pipeline("wine", _chain(_SCALED, _in("cluster", "KMeans", n_clusters=4, n_init=1, random_state=0)),
                        "transform"),
    "imputed, scaled": Pipeline("wine", _chain(_in("impute", "SimpleImputer"), _in("preprocessing", "MinMaxScaler"),
                                               _in("linear_model", "LogisticRegression")), gaps=True),
    "norms": Pipeline("wine", _chain(_in("preprocessing", "Normalizer"), _in("linear_model", "LogisticRegression"))),
    "principal components": Pipeline("digits", _chain(_in("decomposition", "PCA", n_components=12, random_state=0),
                                                      _in("discriminant_analysis", "LinearDiscriminantAnalysis"))),
    "columns": Pipeline("diabetes", _chain(_columns, _in("linear_model", "Ridge")), None),
    "one hot": Pipeline("codes", _chain(_in("preprocessing", "OneHotEncoder"),
                                        _in("linear_model", "LogisticRegression"))),
    "isolation": Pipeline("iris", _in("ensemble", "IsolationForest", n_estimators=10, random_state=0),
                          "decision_function"),
    "names": Pipeline("names", _chain(_SCALED, _in("linear_model", "LogisticRegression"))),
    "forest, names": Pipeline("names", _in("ensemble", "RandomForestClassifier", **_FOREST), maps=True),
    "bits": Pipeline("digits", _chain(_in("preprocessing", "Binarizer", threshold=7.5),
                                      _in("naive_bayes", "BernoulliNB"))),
}  # fmt: skip


@cache
def _data(name: str) -> tuple[Array, Array]:
    """Features as float32, or as integers, and what is to be told from them."""
    from sklearn import datasets

    load = {"wine": "load_wine", "cancer": "load_breast_cancer", "digits": "load_digits", "iris": "load_iris",
            "codes": "load_iris", "names": "load_wine"}  # fmt: skip
    x, y = getattr(datasets, load.get(name, "load_diabetes"))(return_X_y=True)
    if name == "codes":
        return (x // 1).astype(np.int64), y
    if name == "names":
        y = np.array(["red", "white", "rosé"], object)[y]
    if name == "targets":
        y = np.stack([y, y[::-1]], axis=1)
    return x.astype(np.float32), y


def fitted(name: str) -> Fitted:
    """A pipeline, fitted and converted, with a thousand rows like those of its data."""
    pipeline = PIPELINES[name]
    x, y = _data(pipeline.data)
    rng = np.random.default_rng(0)
    rows = x[rng.integers(len(x), size=_ROWS)]
    if pipeline.data not in ("codes", "digits"):
        moved = rows + (0.1 * x.std(axis=0) * rng.standard_normal(rows.shape)).astype(np.float32)
        rows = np.where(rng.random((_ROWS, 1)) < 0.5, rows, moved)
    if pipeline.gaps:
        x, rows = (np.where(rng.random(v.shape) < 0.1, np.float32(np.nan), v) for v in (x, rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that are cut short
        estimator = pipeline.make().fit(x, y)
        wanted = [estimator.predict(rows)]
        if pipeline.scores is not None:
            wanted.append(np.asarray(getattr(estimator, pipeline.scores)(rows)))
        model = _converted(estimator, x, pipeline)
    return Fitted(name, model, rows, wanted)


def _converted(estimator: Any, x: Array, pipeline: Pipeline) -> onnx.ModelProto:
    """By the converter of its library."""
    name = type(estimator).__module__.partition(".")[0]
    if name in _OTHERS:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        convert = {"lightgbm": onnxmltools.convert_lightgbm, "xgboost": onnxmltools.convert_xgboost}[name]
        more = {"zipmap": pipeline.maps} if name == "lightgbm" else {}
        types = [("x", FloatTensorType([None, x.shape[1]]))]
        found: onnx.ModelProto = convert(estimator, initial_types=types, target_opset=15, **more)
        return found
    from skl2onnx import to_onnx
    from skl2onnx.common import data_types

    kind = data_types.Int64TensorType if x.dtype == np.int64 else data_types.FloatTensorType
    options = {"zipmap": pipeline.maps} if pipeline.scores == "predict_proba" else {}
    made: onnx.ModelProto = to_onnx(
        estimator,
        initial_types=[("x", kind([None, x.shape[1]]))],
        target_opset=_OPSETS,
        options={id(estimator): options} if options else None,
    )
    return made
