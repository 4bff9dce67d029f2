"""Schedule primitives: functions from a loop program to one that means the same.

Each checks that it is legal (ScheduleError says why not), edits, and returns the new function with the new loop
variables. Loops are named by their variable, stages by their buffer; both keep their identity unless told otherwise.
Nothing is simplified on the way beyond index sums: `simplify` the result once.
"""

from legato.tir.schedule._edit import Names
from legato.tir.schedule.fission import fission
from legato.tir.schedule.fuse import fuse
from legato.tir.schedule.parallel import parallel
from legato.tir.schedule.reorder import reorder
from legato.tir.schedule.split import Part, split, split_balanced, split_peeled
from legato.tir.schedule.unroll import unroll
from legato.tir.schedule.vectorize import vectorize

__all__ = ["Names", "Part", "fission", "fuse", "parallel", "reorder", "split", "split_balanced", "split_peeled",
           "unroll", "vectorize"]  # fmt: skip
