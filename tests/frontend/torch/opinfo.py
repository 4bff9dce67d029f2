"""PyTorch's own samples of its operators (OpInfo), imported and compared with eager: agrees, is refused, or is wrong.

python -m tests.frontend.torch.opinfo                   every operator of the core ATen set, interpreted
python -m tests.frontend.torch.opinfo softmax 'nn.*'    these, by their names in OpInfo (patterns)
python -m tests.frontend.torch.opinfo --all --compiled --dtype float32 --one-in 4

What does not agree is an entry of opinfo.toml, or a failure; so is an entry that nothing needs.
"""

from __future__ import annotations

import argparse
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from legato.base.errors import UnsupportedError
from tests.frontend.torch.agree import Imported, agree
from tests.heavy import picked

__all__ = ["DTYPES", "Miss", "Outcome", "core", "infos", "misses", "outcomes", "reason_of"]

_REST = {"refused": "refused", "wrong": "wrong", "eager": "not traced"}
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)

# Long sums of products, which are formed in another order: operators, by patterns, that agree less closely in float32.
SUMS = ("*mm", "*matmul*", "einsum", "tensordot", "nn.functional.conv*", "nn.functional.interpolate",
        "nn.functional.upsample_*", "nn.functional.*bilinear")  # fmt: skip

# Operators whose samples are those of core ones of other names: convolution, native_dropout, _cdist_forward, …
MADE_OF_CORE = (
    "nn.functional.conv*", "nn.functional.interpolate", "nn.functional.upsample_*", "nn.functional.adaptive_avg_pool*",
    "nn.functional.max_pool*", "nn.functional.layer_norm", "nn.functional.batch_norm", "nn.functional.group_norm",
    "nn.functional.dropout", "cdist", "matmul",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of one sample: "agrees", "refused", "wrong" or "eager" (PyTorch itself does not trace or run it)."""

    name: str
    dtype: torch.dtype
    sample: int
    kind: str
    reason: str = ""


@dataclass(frozen=True)
class Miss:
    """Why samples do not agree: those of the operators of a pattern that are refused with a text in which `says` (a
    regular expression) is found; `differs`: they run, and their results are others on purpose."""

    operator: str
    reason: str
    says: str = ""
    differs: bool = False

    def names(self, outcome: Outcome) -> bool:
        """Whether a sample is of the operators that the pattern names."""
        return fnmatch(outcome.name, self.operator)

    def explains(self, outcome: Outcome) -> bool:
        """Whether a sample that does not agree is one of these."""
        kind = "wrong" if self.differs else "refused"
        return self.names(outcome) and outcome.kind == kind and re.search(self.says, outcome.reason) is not None


@cache
def misses() -> Sequence[Miss]:
    """The entries of opinfo.toml."""
    text = Path(__file__).with_name("opinfo.toml").read_text(encoding="utf-8")
    return tuple(Miss(**entry) for entry in tomllib.loads(text).get("miss", []))


def reason_of(outcome: Outcome) -> Miss | None:
    """Why a sample does not agree; None where nothing says so."""
    return next((miss for miss in misses() if miss.explains(outcome)), None)


@cache
def core() -> frozenset[str]:
    """The names of the operators that have an overload with the tag `core`."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    known = [(p, getattr(p, o)) for p in packets if hasattr(p, "overloads") for o in p.overloads()]
    return frozenset(p.__name__ for p, o in known if torch.Tag.core in o.tags)


def infos(patterns: Sequence[str] = (), everything: bool = False) -> list[Any]:
    """The OpInfos that patterns name; without any, those of the core set, or all."""
    from torch.testing._internal.common_methods_invocations import op_db

    def is_core(info: Any) -> bool:
        if any(fnmatch(info.name, p) for p in MADE_OF_CORE):
            return True
        return not core().isdisjoint({info.aten_name, f"_{info.aten_name}", info.name.removeprefix("nn.functional.")})

    named = [i for i in op_db if any(fnmatch(i.name, p) for p in patterns)]
    return named if patterns else [i for i in op_db if everything or is_core(i)]


def outcomes(
    info: Any, dtype: torch.dtype, *, compiled: bool = False, wanted: Callable[[int], bool] = lambda n: True
) -> Iterator[Outcome]:
    """What becomes of each sample of an operator, of those whose number is wanted."""
    if dtype not in info.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    is_sum = dtype == torch.float32 and any(fnmatch(info.name, p) for p in SUMS)
    close = {"rtol": 1e-5, "atol": 5e-5} if is_sum else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, sample in enumerate(info.sample_inputs("cpu", dtype)):
            if wanted(n):
                kind, reason = _outcome(_decided(info), sample, compiled, close)
                yield Outcome(f"{info.name}.{info.variant_test_name}".rstrip("."), dtype, n, kind, reason)


def _decided(info: Any) -> Callable[..., Any]:
    """An operator, of what PyTorch leaves undecided only as much as is decided: of memory that is not filled the
    dtype and shape, of the places of equal elements what stands there."""

    def unfilled(*args: Any, **kwargs: Any) -> Any:
        return torch.zeros_like(info.op(*args, **kwargs))

    def ordered(x: Any, *args: Any, **kwargs: Any) -> Any:
        found = info.op(x, *args, **kwargs)
        if kwargs.get("stable"):
            return found
        rest = args[1:] if info.name == "topk" else args
        dim = kwargs.get("dim", rest[0] if rest else -1)
        values, places = ([], found) if info.name == "argsort" else found
        return values, x.gather(dim, places)

    if info.name in ("topk", "sort", "argsort"):
        return ordered
    return unfilled if "empty" in info.name else info.op


def _outcome(op: Callable[..., Any], sample: Any, compiled: bool, close: dict[str, float]) -> tuple[str, str]:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[n].detach() for n in places]

    def function(*given: torch.Tensor) -> list[Any]:
        filled = list(leaves)
        for n, tensor in zip(places, given, strict=True):
            filled[n] = tensor
        first, args, kwargs = pytree.tree_unflatten(filled, spec)
        return [leaf for leaf in pytree.tree_leaves(op(first, *args, **kwargs)) if leaf is not None]

    try:
        wanted = function(*(t.clone() for t in tensors))
    except Exception as error:
        return "eager", str(error)
    try:
        program = Imported(function, tensors)
    except UnsupportedError as error:
        return "refused", "; ".join(error.details) or error.message
    except RuntimeError as error:  # of PyTorch's tracing, where the data decides a shape
        if type(error).__module__.startswith("legato"):
            return "wrong", f"{type(error).__name__}: {error}"
        return "eager", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    try:
        agree(program.compiled(tensors) if compiled else program.interpreted(tensors), wanted, **close)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    return "agrees", ""


def main() -> int:
    """The samples of the operators that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--dtype", action="append", choices=[str(dtype)[6:] for dtype in DTYPES])
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="of the samples, the same in every run")
    options = parser.parse_args()
    chosen = [dtype for dtype in DTYPES if not options.dtype or str(dtype)[6:] in options.dtype]
    totals: dict[torch.dtype, Counter[str]] = {dtype: Counter() for dtype in chosen}
    needed: set[Miss] = set()
    failed = False
    for info in infos(options.patterns, options.all):
        for dtype in chosen:
            name = f"{info.name} {info.variant_test_name} {dtype}"
            wanted = partial(_is_wanted, name, options.one_in)
            found = list(outcomes(info, dtype, compiled=options.compiled, wanted=wanted))
            totals[dtype].update(o.kind for o in found)
            missed = [(o, reason_of(o)) for o in found if o.kind in ("refused", "wrong")]
            needed |= {miss for _, miss in missed if miss is not None}
            failed |= any(miss is None for _, miss in missed)
            for text, times in Counter(_told(o, miss) for o, miss in missed).items():
                print(f"{text}, {times} times", flush=True)
    for dtype, total in totals.items():
        print(_total(dtype, total))
    whole = not options.patterns and not options.all and len(chosen) == len(DTYPES) and options.one_in == 1
    stale = [m for m in misses() if m not in needed] if whole else []
    for miss in stale:
        print(f"nothing needs the entry {miss.operator} of opinfo.toml: {miss.reason}")
    return 1 if failed or stale else 0


def _is_wanted(name: str, one_in: int, sample: int) -> bool:
    return picked(f"{name} {sample}", one_in)


def _told(outcome: Outcome, miss: Miss | None) -> str:
    """A line about a sample that does not agree; those that are new begin with "new"."""
    first = (outcome.reason.splitlines() or [""])[0][:200]
    state = "new: " if miss is None else ""
    return f"{state}{outcome.kind} {outcome.name} {str(outcome.dtype)[6:]}: {first}"


def _total(dtype: torch.dtype, total: Counter[str]) -> str:
    """One line for a dtype. Samples that PyTorch itself does not run or trace do not count."""
    count = total["agrees"] + total["refused"] + total["wrong"]
    part = 100 * total["agrees"] / max(count, 1)
    rest = ", ".join(f"{total[kind]} {told}" for kind, told in _REST.items())
    return f"{str(dtype)[6:]}: {part:.1f} % of {count} agree, {rest}"


if __name__ == "__main__":
    raise SystemExit(main())
