"""How much the tests see: small faults in the sources, one at a time, each against the tests of its area.

    python -m tools.faults [--seed N] [--jobs N] [--areas infer=2,arith=1] [--json FILE] [--list]

`rules` says which faults there are: the kind that people make. `__main__` picks some of each area, `judge` tries them
in a copy of the tree against the tests of the folder that mirrors the area's (`suite`), and the share of faults that
fail one is printed. What no test sees is listed with file, line and edit: some of these change nothing that matters,
which people judge.
"""
