//! # keyrack-leveldb-c: LevelDB's interface for C over flodb
//!
//! Programs that are linked against LevelDB's C interface (`leveldb/c.h`, version 1.23) run with
//! `libkeyrack_leveldb.so` instead. `docs/leveldb-c.md` says how, and what differs.
//! `include/leveldb/c.h` is the header; cbindgen makes it from this crate, in a test that compares.
//!
//! ```text
//!   program -- leveldb/c.h --> db  iterator  batch  snapshot  manage  options  access
//!                               |   database     comparator, filter: callbacks    utility
//!                               |                lifetime: when their destructors run
//!                               |
//!                            status   failures and panics become texts
//!                               |
//!                keyrack_ffi          pointers become slices and references, results malloc'ed
//!                keyrack_flodb
//! ```
//!
//! A null pointer where LevelDB would end the process is an error, or has no effect where there is
//! no place for one. Everything else about pointers is the caller's promise, and stands at each
//! function under "Safety".

mod access;
mod batch;
mod comparator;
mod content;
mod database;
mod db;
mod filter;
#[cfg(test)]
mod fuzz;
mod iterator;
mod lifetime;
mod manage;
mod options;
mod snapshot;
mod status;
mod utility;

pub use access::{
    ReadOptions, WriteOptions, leveldb_readoptions_create, leveldb_readoptions_destroy,
    leveldb_readoptions_set_fill_cache, leveldb_readoptions_set_snapshot,
    leveldb_readoptions_set_verify_checksums, leveldb_writeoptions_create,
    leveldb_writeoptions_destroy, leveldb_writeoptions_set_sync,
};
pub use batch::{
    WriteBatch, leveldb_writebatch_append, leveldb_writebatch_clear, leveldb_writebatch_create,
    leveldb_writebatch_delete, leveldb_writebatch_destroy, leveldb_writebatch_iterate,
    leveldb_writebatch_put,
};
pub use comparator::{Comparator, leveldb_comparator_create, leveldb_comparator_destroy};
pub use database::Database;
pub use db::{
    leveldb_approximate_sizes, leveldb_close, leveldb_compact_range, leveldb_delete, leveldb_get,
    leveldb_open, leveldb_property_value, leveldb_put, leveldb_write,
};
pub use filter::{
    FilterPolicy, leveldb_filterpolicy_create, leveldb_filterpolicy_create_bloom,
    leveldb_filterpolicy_destroy,
};
pub use iterator::{
    Cursor, leveldb_create_iterator, leveldb_iter_destroy, leveldb_iter_get_error,
    leveldb_iter_key, leveldb_iter_next, leveldb_iter_prev, leveldb_iter_seek,
    leveldb_iter_seek_to_first, leveldb_iter_seek_to_last, leveldb_iter_valid, leveldb_iter_value,
};
pub use manage::{leveldb_destroy_db, leveldb_repair_db};
pub use options::{
    Options, leveldb_no_compression, leveldb_options_create, leveldb_options_destroy,
    leveldb_options_set_block_restart_interval, leveldb_options_set_block_size,
    leveldb_options_set_cache, leveldb_options_set_comparator, leveldb_options_set_compression,
    leveldb_options_set_create_if_missing, leveldb_options_set_env,
    leveldb_options_set_error_if_exists, leveldb_options_set_filter_policy,
    leveldb_options_set_info_log, leveldb_options_set_max_file_size,
    leveldb_options_set_max_open_files, leveldb_options_set_paranoid_checks,
    leveldb_options_set_write_buffer_size, leveldb_snappy_compression,
};
pub use snapshot::{Snapshot, leveldb_create_snapshot, leveldb_release_snapshot};
pub use utility::{
    Cache, Env, Logger, leveldb_cache_create_lru, leveldb_cache_destroy,
    leveldb_create_default_env, leveldb_env_destroy, leveldb_env_get_test_directory, leveldb_free,
    leveldb_major_version, leveldb_minor_version,
};
