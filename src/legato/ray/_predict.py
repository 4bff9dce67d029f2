"""Batches of a data set through a program: what `ray.data.Dataset.map_batches` takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from legato.base.codes import decode
from legato.base.errors import RunError
from legato.ray._rows import Array, Rows, stacked
from legato.ray._source import Program, Source, require_ray, require_threads, threads_of

__all__ = ["Columns", "batch_predictor"]


def batch_predictor(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    threads: int | None = None,
) -> type:
    """A class whose instances, one in each worker of `Dataset.map_batches`, give a batch of columns for one.

    source: the path of an artifact, which every node has there; or an executable, which the cluster's memory is given,
    once for each call of this, for as long as this process is there. A node has its weights once, however many workers
    run there.
    columns: the column for an input, by name; others have the input's name. outputs: the same for outputs.
    keep: columns that are handed on as they are.
    threads: of each call; None: as many as Ray gives the worker CPUs (`num_cpus=`), and never more.

    The batch may have any number of rows. A program of a fixed batch is called several times, the last one filled up;
    one without a batch (a first dim that not all inputs and outputs have) is a RunError, and so is a column that does
    not fit. Rows of different shapes, which Ray has as an array of objects, are put together by shape. Outputs of
    bfloat16 and narrower floats, which Arrow does not have, are float32, integers of 4 bits int32. MissingError where
    Ray is not installed.
    """
    require_threads(threads)
    require_ray("pyarrow")
    program = Program(source)
    names = Columns(dict(columns or {}), dict(outputs or {}), (keep,) if isinstance(keep, str) else tuple(keep))

    class BatchPredictor:
        """The program, loaded in a worker."""

        def __init__(self) -> None:
            import ray

            own = threads_of(ray.get_runtime_context().get_assigned_resources(), threads)
            self.rows = Rows(program.load(own))
            names.require_known(self.rows)

        def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
            """The columns of the outputs, and those that are kept."""
            return names.result(batch, self.rows)

    return BatchPredictor


class Columns:
    """Which column is which input or output, and which are handed on."""

    def __init__(self, inputs: Mapping[str, str], outputs: Mapping[str, str], keep: tuple[str, ...]) -> None:
        self.inputs, self.outputs, self.keep = inputs, outputs, keep

    def require_known(self, rows: Rows) -> None:
        """RunError for names that the program does not have, and for two columns of one name."""
        for what, given, tensors in (
            ("input", self.inputs, rows.info.inputs),
            ("output", self.outputs, rows.info.outputs),
        ):
            known = [tensor.name for tensor in tensors]
            for name in given:
                if name not in known:
                    raise RunError(f"the program has no {what} {name!r}; it has {', '.join(known)}")
        made = [*(self.outputs.get(tensor.name, tensor.name) for tensor in rows.info.outputs), *self.keep]
        if len(set(made)) < len(made):
            hint = "outputs={'NAME': 'COLUMN'} gives an output another column"
            raise RunError(f"two columns of the result have one name: {', '.join(made)}\n  hint: {hint}")

    def result(self, batch: Mapping[str, Array], rows: Rows) -> dict[str, Array]:
        """The columns that come of a batch; RunError where one is missing."""
        wanted = {tensor.name: self.inputs.get(tensor.name, tensor.name) for tensor in rows.info.inputs}
        missing = [column for column in (*wanted.values(), *self.keep) if column not in batch]
        if missing:
            hint = "columns={'INPUT': 'COLUMN'} says which column an input is"
            raise RunError(f"no column {', '.join(missing)}; the batch has {', '.join(batch)}\n  hint: {hint}")
        found = rows.of_columns({name: np.asarray(batch[column]) for name, column in wanted.items()})
        made = {self.outputs.get(name, name): _known_to_arrow(array) for name, array in found.items()}
        return {**{name: batch[name] for name in self.keep}, **made}


def _known_to_arrow(column: Array) -> Any:
    """The column in a dtype that Arrow has: the numbers that codes stand for."""
    if column.dtype == object:
        if not len(column) or not isinstance(column[0], np.ndarray):
            return column
        return stacked([_known_to_arrow(row) for row in column])
    return decode(column)
