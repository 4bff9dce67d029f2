"""`python -m legato` is `legato`."""

import sys

from legato.cli import main

if __name__ == "__main__":
    sys.exit(main())
