"""Compiled programs on a cluster that Ray runs: batches of a data set, and a server (`pip install "legato[ray]"`).

    ds.map_batches(legato.ray.batch_predictor("model.legato"), batch_size=64, concurrency=4, num_cpus=2)
    serve.run(legato.ray.deployment("model.legato", max_batch_size=32))

Ray schedules, restarts and routes; here is only what a worker does with a program (docs/scaling.md).
"""

from legato.ray._predict import batch_predictor
from legato.ray._serve import deployment

__all__ = ["batch_predictor", "deployment"]
