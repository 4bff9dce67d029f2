"""Schedule primitives: functions from a loop program to one that means the same.

Each checks that it is legal (ScheduleError says why not), edits, and returns the new function with the new loop
variables. Loops are named by their variable, stages by their buffer; both keep their identity unless told otherwise.
Subscripts are only collected on the way: `tir.simplify` the result once.
"""

from legato.tir.schedule._edit import Names
from legato.tir.schedule.cache_read import cache_read
from legato.tir.schedule.cache_write import cache_write
from legato.tir.schedule.compute_at import compute_at, compute_at_each
from legato.tir.schedule.fission import fission
from legato.tir.schedule.fuse import fuse
from legato.tir.schedule.inline import inline
from legato.tir.schedule.lift_alloc import lift_alloc, sink_alloc
from legato.tir.schedule.overlap_tail import overlap_tail
from legato.tir.schedule.pack import IndexMap, apply_index_map, index_map, pack
from legato.tir.schedule.parallel import parallel
from legato.tir.schedule.partition import partition
from legato.tir.schedule.reorder import reorder
from legato.tir.schedule.rfactor import rfactor
from legato.tir.schedule.set_scope import set_layout, set_scope
from legato.tir.schedule.split import Part, split, split_balanced, split_peeled
from legato.tir.schedule.unroll import unroll
from legato.tir.schedule.vectorize import vectorize

__all__ = ["IndexMap", "Names", "Part", "apply_index_map", "cache_read", "cache_write", "compute_at", "compute_at_each",
           "fission", "fuse", "index_map", "inline", "lift_alloc", "overlap_tail", "pack", "parallel", "partition",
           "reorder", "rfactor", "set_layout", "set_scope", "sink_alloc", "split", "split_balanced", "split_peeled",
           "unroll", "vectorize"]  # fmt: skip
