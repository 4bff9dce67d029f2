"""Fits the polynomials of `legato.codegen.coefficients` and prints that file.

Remez' exchange algorithm with 60 digits: the polynomial whose weighted error is smallest in the worst case, rounded to
the precision that it is evaluated in. Run it after changing a degree or an interval:

    python -m tools.fit_polynomials > src/legato/codegen/coefficients.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]  # it ships no type information
import numpy as np

mp.mp.dps = 60
Function = Callable[[Any], Any]
GRID = 400  # points that extrema are looked for at, per coefficient


@dataclass(frozen=True, slots=True)
class Fit:
    """P of `degree` with |P − f| · weight smallest on [lo, hi]; one degree each for float32 and float64."""

    name: str
    doc: str
    f: Function
    lo: float
    hi: float
    degrees: tuple[int, int]
    weight: Function


def series(f: Function, terms: Function, near: float = 1e-8) -> Function:
    """`f`, and the first terms of its series close to 0 where f cancels or divides by 0."""
    return lambda x: terms(x) if abs(x) < near else f(x)


def remez(f: Function, weight: Function, lo: Any, hi: Any, degree: int) -> tuple[list[Any], Any]:
    """Coefficients, lowest first, and the largest weighted error."""
    count = degree + 2
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * k / (GRID - 1)) for k in range(GRID)]
    samples = [(x, f(x), weight(x)) for x in grid]
    coefficients: list[Any] = []
    worst = mp.mpf(0)
    for _ in range(12):
        rows = [[x**k for k in range(degree + 1)] + [(-1) ** n / weight(x)] for n, x in enumerate(xs)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in xs]))
        coefficients = [solution[k] for k in range(degree + 1)]
        errors = [(mp.polyval(coefficients[::-1], x) - y) * w for x, y, w in samples]
        worst = max(abs(e) for e in errors)
        xs = _extrema(grid, errors, count)
        if worst <= abs(solution[degree + 1]) * mp.mpf("1.02"):
            break
    return coefficients, worst


def _extrema(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    """The largest error of each run of one sign; the `count` neighbours among them that are largest."""
    runs: list[tuple[Any, Any]] = []
    for x, e in zip(grid, errors, strict=True):
        if runs and (e > 0) == (runs[-1][1] > 0):
            if abs(e) > abs(runs[-1][1]):
                runs[-1] = (x, e)
        else:
            runs.append((x, e))
    while len(runs) > count:
        del runs[0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1]
    if len(runs) < count:
        raise SystemExit(f"lost the alternation: {len(runs)} extrema of {count}")
    return [x for x, _ in runs]


def _expm1_tail(x: Any) -> Any:
    return (mp.expm1(x) - x) / x**2


def _log_tail(z: Any) -> Any:
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s / z


def _log_second_tail(z: Any) -> Any:
    return (_log_tail(z) - mp.mpf(2) / 3) / z / 2


def _odd_tail(f: Function) -> Function:
    """(f(√z)/√z − 1)/z."""
    return lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def _erf_near_0(z: Any) -> Any:
    return 2 / mp.sqrt(mp.pi) * (1 - z / 3)


def _cos_tail(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")
QUARTER_PI = mp.pi / 4 * mp.mpf("1.0001")
LOG_EDGE = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")

FITS = [
    Fit("EXP", "(eʳ − 1 − r)/r² on |r| ≤ ln 2 / 2", series(_expm1_tail, lambda x: mp.mpf(1) / 2 + x / 6),
        -HALF_LN2, HALF_LN2, (4, 10), lambda x: abs(x) + mp.mpf("1e-3")),
    Fit("LOG", "(ln((1+s)/(1−s))/s − 2)/z, z = s², for (1+s)/(1−s) in [√½, √2]",
        series(_log_tail, lambda z: mp.mpf(2) / 3 + 2 * z / 5), 0, LOG_EDGE, (2, 6), lambda z: z + mp.mpf("1e-5")),
    Fit("LOG_PAIR", "(ln((1+s)/(1−s))/s − 2 − 2z/3)/2z², the same range; in float64 only",
        series(_log_second_tail, lambda z: mp.mpf(1) / 5 + z / 7), 0, LOG_EDGE, (1, 7),
        lambda z: z**2 + mp.mpf("1e-6")),
    Fit("SIN", "(sin √z/√z − 1)/z, z ≤ (π/4)²", series(_odd_tail(mp.sin), lambda z: -mp.mpf(1) / 6 + z / 120),
        0, QUARTER_PI**2, (2, 5), lambda z: z + mp.mpf("1e-3")),
    Fit("COS", "(cos √z − 1 + z/2)/z², z ≤ (π/4)²", series(_cos_tail, lambda z: mp.mpf(1) / 24 - z / 720, 1e-6),
        0, QUARTER_PI**2, (2, 5), lambda z: z**2 + mp.mpf("1e-3")),
    Fit("ASIN", "(asin √z/√z − 1)/z, z ≤ 1/4", series(_odd_tail(mp.asin), lambda z: mp.mpf(1) / 6 + 3 * z / 40),
        0, mp.mpf(1) / 4, (4, 12), lambda z: z + mp.mpf("1e-3")),
    Fit("ATAN", "(atan √z/√z − 1)/z, z ≤ 1", series(_odd_tail(mp.atan), lambda z: -mp.mpf(1) / 3 + z / 5),
        0, 1, (8, 20), lambda z: z / (1 - z / 4) + mp.mpf("1e-3")),
    Fit("SINH", "(sinh √z/√z − 1)/z, z ≤ 1", series(_odd_tail(mp.sinh), lambda z: mp.mpf(1) / 6 + z / 120),
        0, 1, (3, 6), lambda z: z + mp.mpf("1e-3")),
    Fit("ERF", "erf √z/√z, z ≤ 1", series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), _erf_near_0),
        0, 1, (6, 11), lambda z: mp.mpf(1)),
    Fit("ERFC", "ln erfc(x) + x² on [1, 6], with the weight erfc", lambda x: mp.log(mp.erfc(x)) + x**2,
        1, 6, (6, 18), mp.erfc),
]  # fmt: skip


def _literals(values: list[Any], wide: bool) -> str:
    kind = np.float64 if wide else np.float32
    return ",\n    ".join([repr(float(kind(float(v)))) for v in values])


def main() -> None:
    """Prints the module."""
    print('"""Coefficients of polynomials, lowest first: for (float32, float64). By tools/fit_polynomials.py."""')
    print("\nfrom __future__ import annotations\n")
    print(f"__all__ = [{', '.join([repr(f.name) for f in sorted(FITS, key=lambda f: f.name)])}]".replace("'", '"'))
    for fit in FITS:
        print(f"\n# {fit.doc}.")
        for kind, degree in zip(("32", "64"), fit.degrees, strict=True):
            values, worst = remez(fit.f, fit.weight, mp.mpf(fit.lo), mp.mpf(fit.hi), degree)
            print(f"{fit.name} {kind}: {mp.nstr(mp.log(worst, 2), 5)} bits", file=sys.stderr)
            print(f"_{fit.name}_{kind} = (\n    {_literals(values, kind == '64')},\n)")
        print(f"{fit.name} = (_{fit.name}_32, _{fit.name}_64)")


if __name__ == "__main__":
    main()
