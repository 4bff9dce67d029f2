"""How large the texts of programs may be, so that a stranger's text costs a bounded amount of memory.

A program of a large model has some ten thousand tokens (DenseNet-121: 12,000), since weights are one string each.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_NAME", "MAX_NUMBER", "MAX_TEXT", "MAX_TOKENS", "MAX_VALUES"]

MAX_TEXT: Final = 1 << 28  # characters: 200 MB of weights as base64; more go into a file beside the text
MAX_TOKENS: Final = 1 << 22  # tokens and comments: each takes some 150 bytes, and the nodes made of them more
MAX_VALUES: Final = 1 << 23  # values of a JSON text: each takes up to 72 bytes
MAX_NAME: Final = 1 << 16  # characters of a name: errors, symbols and hints repeat it
MAX_NUMBER: Final = 400  # characters of a number: the time to convert one grows with their square
