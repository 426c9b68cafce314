//! How tests are built, and where the random ones take their seed from.

/// The variable from which random tests take their seed, in decimal.
pub(crate) const SEED_VARIABLE: &str = "KEYRACK_SEED";

/// Features with which everything is linted and tested: those that the binary leaves out because of
/// what they depend on.
pub(crate) const TEST_FEATURES: &str =
    "keyrack-objects/object-store,keyrack-cli/parquet,keyrack-cli/sqlite";
