"""Analyses: questions about expressions, types and modules. None changes anything, and none recurses on depth
of programs."""

from __future__ import annotations

from legato.relay.analysis.counts import (
    analyze_relay,
    check_constant,
    collect_device_annotation_ops,
    collect_device_info,
    count_layers,
    extract_fused_functions,
    get_total_mac_number,
    list_op_freqs,
    search_fc_transpose,
)
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

__all__ = [
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
    "free_type_vars",
    "free_vars",
    "get_total_mac_number",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
]  # fmt: skip
