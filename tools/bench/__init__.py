"""The benchmark: every model of the table in Legato and its peers, side by side.

`python -m tools.bench` prints and writes what `row` measures, `entries` says which models and how peers get them,
`report` makes lines and the README's table of what was found. How it is measured is `legato.bench`'s affair.
"""
