"""Analyses: questions about expressions, types and modules. None changes anything, and none recurses on depth
of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from legato.relay.analysis import sparse_conv2d, sparse_dense
from legato.relay.analysis.counts import (
    analyze_relay,
    check_constant,
    count_layers,
    extract_fused_functions,
    get_total_mac_number,
    list_op_freqs,
    search_fc_transpose,
)
from legato.relay.analysis.devices import collect_device_annotation_ops, collect_device_info, verify_devices
from legato.relay.analysis.feature import Feature, detect_feature
from legato.relay.analysis.matches import unmatched_cases
from legato.relay.analysis.types import all_dtypes, all_type_vars, bound_type_vars, check_kind, free_type_vars
from legato.relay.analysis.variables import (
    all_vars,
    bound_vars,
    check_basic_block_normal_form,
    free_vars,
    post_order_visit,
    well_formed,
)

if TYPE_CHECKING:
    from legato.relay.analysis.call_graph import CallGraph
    from legato.relay.analysis.values import (
        extract_intermdeiate_expr,
        extract_intermediate_expr,
        get_calibration_data,
    )

__all__ = [
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "analyze_relay",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "collect_device_annotation_ops",
    "collect_device_info",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "extract_intermediate_expr",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "sparse_conv2d",
    "sparse_dense",
    "unmatched_cases",
    "verify_devices",
    "well_formed",
]  # fmt: skip

# Those that need modules (`relay.module` has use for this package) are imported on use.
_ON_USE: Final = {
    "CallGraph": "call_graph", "extract_intermdeiate_expr": "values", "extract_intermediate_expr": "values",
    "get_calibration_data": "values",
}  # fmt: skip
_NOT_HERE: Final = {
    "AnnotatedRegionSet": "regions are cut out by patterns (relay.dataflow_pattern.partition), not between annotations",
    "list_fake_quantized_op_freqs": "codes that become numbers, and codes again, are computed as the program says",
    "_ffi_api": "analyses are Python, with nothing behind them",
}


def __getattr__(name: str) -> Any:
    if name in _ON_USE:
        from importlib import import_module

        return getattr(import_module(f"legato.relay.analysis.{_ON_USE[name]}"), name)
    why = _NOT_HERE.get(name)
    raise AttributeError(f"there is no analysis {name}" + (f": {why}" if why else ""))
