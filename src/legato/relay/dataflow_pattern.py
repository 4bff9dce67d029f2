"""The pattern language of Relay: `from legato.relay.dataflow_pattern import *`.

    x, w, b = wildcard(), wildcard(), wildcard()
    pattern = is_op("nn.bias_add")(is_op("nn.conv2d")(x, w), b).optional(lambda y: is_op("nn.relu")(y))
    assert pattern.match(expr)
    new = pattern.partition(expr)

Patterns are those of `legato.patterns`, which says what matches; they are immutable. What differs from the original:

* a product of a quotient is no quotient of a product: patterns match what is written, but for the order of the operands
  of `add` and `multiply`;
* a node between parent and child of a dominator pattern may have variables and constants as other operands, nothing
  else; the original asked it of those operands only that stand before the one that leads to the parent;
* what stands in a function, a branch or a let belongs to the function that `partition` makes of it: it is not computed
  before the branch is chosen;
* dims of `has_shape` and `has_type` may be symbolic, and are equal where they are proven to be.
"""

from __future__ import annotations
