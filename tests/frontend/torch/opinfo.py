"""PyTorch's own samples of its operators (OpInfo), imported and compared with eager: agrees, is refused, or is wrong.

python -m tests.frontend.torch.opinfo                   every operator of the core ATen set, interpreted
python -m tests.frontend.torch.opinfo softmax 'nn.*'    these, by their names in OpInfo (patterns)
python -m tests.frontend.torch.opinfo --all --compiled
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from legato.base.errors import UnsupportedError
from tests.frontend.torch.agree import Imported, agree

__all__ = ["DTYPES", "Outcome", "core", "infos", "outcomes"]

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)

# Long sums of products, which are formed in another order: operators, by patterns, that agree less closely in float32.
SUMS = ("*mm", "*matmul*", "einsum", "tensordot", "nn.functional.conv*", "nn.functional.interpolate",
        "nn.functional.upsample_*", "nn.functional.*bilinear")  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of one sample: "agrees", "refused", "wrong" or "eager" (PyTorch itself does not trace or run it)."""

    name: str
    dtype: torch.dtype
    sample: int
    kind: str
    reason: str = ""


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
        return not core().isdisjoint({info.aten_name, f"_{info.aten_name}", info.name.removeprefix("nn.functional.")})

    named = [i for i in op_db if any(fnmatch(i.name, p) for p in patterns)]
    return named if patterns else [i for i in op_db if everything or is_core(i)]


def outcomes(info: Any, dtype: torch.dtype, *, compiled: bool = False, at_most: int = 1000) -> Iterator[Outcome]:
    """What becomes of each sample of an operator."""
    if dtype not in info.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    is_sum = dtype == torch.float32 and any(fnmatch(info.name, p) for p in SUMS)
    close = {"rtol": 1e-5, "atol": 5e-5} if is_sum else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, sample in enumerate(info.sample_inputs("cpu", dtype)):
            if n >= at_most:
                return
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
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for info in infos(options.patterns, options.all):
        for dtype in DTYPES:
            found = list(outcomes(info, dtype, compiled=options.compiled))
            total.update(o.kind for o in found)
            for kind in ("refused", "wrong"):
                reasons = Counter(o.reason.splitlines()[0] for o in found if o.kind == kind and o.reason)
                for reason, times in reasons.items():
                    print(f"{kind:8} {info.name} {str(dtype)[6:]} {times} times: {reason[:200]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in total.items()))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
