"""Compiled programs against what they mean.

    report = legato.verify("model.onnx")                    seeded random inputs, or `inputs={"x": …}`
    report.holds, report.outputs[0].error, report.culprit

The interpreter in float64 says what is right. How much error is too much, a peer says: ONNX Runtime, where it is
installed and the model is ONNX, else the interpreter in the program's own precision, which takes its place where ONNX
Runtime is off. `report.judge` has the rule, `run` puts it together, `bisect` finds the node or pass that is to blame.
"""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.compare.report import Culprit, OutputReport, Report
from legato.compare.run import compare, verify

__all__ = ["Culprit", "OutputReport", "Report", "compare", "verify"]
