//! The workload scripts that are part of the program, so that it can run them anywhere.

/// Path and text. The path is that of the source tree; a file there is taken instead.
pub(crate) const SCRIPTS: &[(&str, &str)] = &[
    ("workloads/mixed.lua", include_str!("../../../workloads/mixed.lua")),
    ("workloads/mixed-native.lua", include_str!("../../../workloads/mixed-native.lua")),
    ("workloads/mixed-declarative.lua", include_str!("../../../workloads/mixed-declarative.lua")),
    ("workloads/cart.lua", include_str!("../../../workloads/cart.lua")),
    ("workloads/scan.lua", include_str!("../../../workloads/scan.lua")),
    ("workloads/batch.lua", include_str!("../../../workloads/batch.lua")),
    ("workloads/overwrite.lua", include_str!("../../../workloads/overwrite.lua")),
    ("workloads/valsize.lua", include_str!("../../../workloads/valsize.lua")),
];

/// The workload of a run that names none.
pub(crate) const DEFAULT: &str = "workloads/mixed.lua";
