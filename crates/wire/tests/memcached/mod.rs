//! memcached's protocols, as bytes.

mod binary;
mod codec;
mod conversation;
mod fuzz;
mod make;
mod meta;
mod numbers;
mod text;
mod whole;

/// Limits small enough that tests come near them.
const LIMITS: keyrack_wire::memcached::Limits = keyrack_wire::memcached::Limits {
    line_bytes_max: 600,
    keys_line_bytes_max: 1200,
    value_bytes_max: 300,
    skip_bytes_max: 1000,
};
