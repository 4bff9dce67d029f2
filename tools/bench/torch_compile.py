"""`torch.compile(backend="legato")` against eager and Inductor: `python -m tools.bench.torch_compile`.

The same module, inputs and threads in one process for each network, in alternating blocks; caches are empty, so the
first call (Dynamo, the backend, its kernels) is a cold start. Exit code 1 if a result differs from eager's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

from legato._version import __version__
from legato.bench.engines import Engine
from legato.bench.measure import measure
from legato.bench.statistics import ratio
from tools.bench.pair import machine
from tools.bench.report import add_outputs, publish

__all__ = ["BEGIN", "END", "NETS", "Row", "main", "markdown"]

ROOT = Path(__file__).parents[2]
BEGIN = "<!-- torch.compile: written by `make bench-torch` from docs/torch_compile.json -->"
END = "<!-- end of torch.compile -->"
BACKENDS = ("legato", "eager", "inductor")
BLOCK = 0.3  # seconds
NEAR = 1e-3  # how far results may differ from eager's, as a share of their range

Call = Callable[[], list[np.ndarray[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Row:
    """One network: milliseconds of a call and seconds of the first one by backend, how many times faster Legato is than
    each other (median, with the interval), and why backends are missing."""

    name: str
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    cold: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    differ: bool = False


def _of_zoo(name: str) -> tuple[Any, tuple[Any, ...]]:
    from tools.zoo.build import built
    from tools.zoo.table import TABLE

    module, inputs = built(TABLE[name])
    return module, tuple(inputs.values())


def _bert_base() -> tuple[Any, tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    model: Any = BertModel(BertConfig())
    model.eval()
    return lambda ids: model(ids).last_hidden_state, (torch.randint(0, 30000, (1, 128)),)


def _gpt2_decoding() -> tuple[Any, tuple[Any, ...]]:
    """Eight tokens, one after the other, without a cache of keys: a length of its own in each call."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model: Any = GPT2LMHeadModel(GPT2Config(n_layer=4))
    model.eval()
    return _Decoding(model), (torch.randint(0, 50000, (1, 32)),)


class _Decoding:
    """Greedy decoding; `step`, which gives the logits of the last token, is what is compiled."""

    def __init__(self, model: Any) -> None:
        self.step: Any = lambda ids: model(ids, use_cache=False).logits[:, -1]

    def __call__(self, ids: torch.Tensor) -> Any:
        logits: Any = None
        for _ in range(8):
            logits = self.step(ids)
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
        return logits


NETS: Mapping[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "resnet50": lambda: _of_zoo("resnet50"),
    "mobilenet_v2": lambda: _of_zoo("mobilenet_v2"),
    "bert_base": _bert_base,
    "vit_b_32": lambda: _of_zoo("vit_b_32"),
    "gpt2_decoding": _gpt2_decoding,
}


def call_of(name: str, backend: str) -> Call:
    """A call of a network, compiled by a backend at the first."""
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    if backend != "eager":
        if isinstance(module, _Decoding):
            module.step = torch.compile(module.step, backend=backend, dynamic=True)
        else:
            module = torch.compile(module, backend=backend)

    def call() -> list[np.ndarray[Any, Any]]:
        with torch.no_grad():
            found = module(*inputs)
        leaves = found if isinstance(found, tuple | list) else [found]
        return [t.numpy() for t in leaves if isinstance(t, torch.Tensor)]

    return call


def times(name: str, rounds: int, threads: int, chosen: tuple[str, ...]) -> Row:
    """First calls, then calls in alternating blocks."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    wanted = call_of(name, "eager")()
    calls, results, cold, missing = dict[str, Call](), dict[str, Any](), dict[str, float](), dict[str, str]()
    for backend in chosen:
        call = call_of(name, backend)
        begun = time.perf_counter()
        try:
            results[backend] = call()
        except Exception as error:  # whatever a backend fails with is told
            missing[backend] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        calls[backend], cold[backend] = call, time.perf_counter() - begun
    differ = not all(_near(found, wanted) for found in results.values())
    found = measure(
        [Engine(b, __version__, call) for b, call in calls.items()], rounds, BLOCK, lambda: 0.0, most=rounds
    )
    ms = {b: 1e3 * float(np.median([np.median(block) for block in found.blocks[b].values()])) for b in calls}
    ratios = {}
    for other in calls.keys() - {"legato"} if "legato" in calls else ():
        r = ratio(*found.pairs("legato", other, range(found.count)))
        ratios[other] = (r.median, r.low, r.high)
    return Row(name, ms, cold, ratios, missing, differ)


def _near(found: Any, wanted: Any) -> bool:
    return len(found) == len(wanted) > 0 and all(
        a.shape == b.shape and float(np.abs(a - b).max(initial=0)) <= NEAR * float(np.abs(b).max(initial=1e-6))
        for a, b in zip(found, wanted, strict=True)
    )


def measured(name: str, args: argparse.Namespace) -> Row:
    """A row, in a process of its own with empty caches."""
    with tempfile.TemporaryDirectory(prefix="legato-torch-") as folder:
        output = Path(folder, "out.json")
        command = [sys.executable, "-m", "tools.bench.torch_compile", "--part", "--only", name, "--json", str(output),
                   "--rounds", str(args.rounds), "--threads", str(args.threads), "--vs", ",".join(args.vs)]  # fmt: skip
        caches = {"LEGATO_CACHE_DIR": "legato", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
        environment = {**os.environ, "LEGATO_THREADS": str(args.threads),
                       **{key: str(Path(folder, name)) for key, name in caches.items()}}  # fmt: skip
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if code == 0:
            return Row(**json.loads(output.read_text()))
    return Row(name, missing={"legato": f"the process that measures it ended with code {code}"}, differ=True)


def markdown(figures: Mapping[str, Any]) -> str:
    """The rows that the JSON file holds as a table, with geometric means."""
    rows = [Row(**row) for row in figures["rows"]]
    head = (
        "| network | Legato | eager | Inductor | eager / Legato | Inductor / Legato | first call: Legato, Inductor |\n"
        "| --- | --: | --: | --: | --: | --: | --: |"
    )
    means = {
        other: geometric_mean([row.ratios[other][0] for row in rows if other in row.ratios])
        for other in ("eager", "inductor")
        if any(other in row.ratios for row in rows)
    }
    mean = " | ".join(f"{means[o]:.2f}×" if o in means else "–" for o in ("eager", "inductor"))
    last = f"| geometric mean | | | | {mean} | |"
    foot = (
        f"Milliseconds and seconds; {figures['threads']} threads of {figures['machine']}, PyTorch {figures['torch']}."
    )
    return "\n".join([head, *map(_line, rows), last, "", foot])


def _line(row: Row) -> str:
    cells = [f"{row.milliseconds[b]:.2f}" if b in row.milliseconds else "–" for b in BACKENDS]
    shares = [f"{row.ratios[o][0]:.2f}×" if o in row.ratios else "–" for o in ("eager", "inductor")]
    cold = ", ".join(f"{row.cold[b]:.1f}" if b in row.cold else "–" for b in ("legato", "inductor"))
    why = f" ({row.missing['legato']})" if "legato" in row.missing else ""
    return f"| {row.name}{why} | {' | '.join(cells)} | {' | '.join(shares)} | {cold} |"


def main(given: list[str] | None = None) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.torch_compile", description=__doc__)
    parser.add_argument("--only", default=",".join(NETS), metavar="NETS", help=f"of {', '.join(NETS)}")
    parser.add_argument("--vs", default=",".join(BACKENDS), metavar="BACKENDS", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    add_outputs(parser, BEGIN, END)
    args = parser.parse_args(given)
    names, args.vs = args.only.split(","), tuple(args.vs.split(","))
    if unknown := {*names} - {*NETS} | {*args.vs} - {*BACKENDS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if args.part:
        args.json.write_text(json.dumps(asdict(times(names[0], args.rounds, args.threads, args.vs))))
        return 0
    rows = list[Row]()
    for name in names:
        rows.append(measured(name, args))
        print(rows[-1], flush=True)
    figures = {
        "machine": machine(), "torch": torch.__version__, "threads": args.threads, "rows": [asdict(r) for r in rows]
    }  # fmt: skip
    publish(args, figures, markdown(figures), BEGIN, END)
    return int(any(row.differ or "legato" in row.missing for row in rows))


if __name__ == "__main__":
    sys.exit(main())
