//! # keyrack-flodb-c: the persistent store for programs in C
//!
//! `libkeyrack.so` and `libkeyrack.a` have the interface of `include/keyrack.h` over `flodb` and
//! `backup`. cbindgen makes the header from this crate, in a test that compares.
//! `docs/keyrack-c.md` is the page for users.
//!
//! ```text
//!   program -- keyrack.h --> store  space  access  batch  snapshot  iterator  transaction  backup
//!                              |    options, list, library, event
//!                            open     the store, which every handle keeps; a store may have spaces
//!                            place    an iterator of either kind within bounds
//!                            error    failures and panics become an object with a code
//!                              |
//!                keyrack_ffi          pointers become slices and references, results malloc'ed
//!                keyrack_flodb, keyrack_backup
//! ```
//!
//! **Invariant:** no panic leaves a call. What a panic interrupts is out of its handle meanwhile,
//! so later calls meet an error and nothing half done.
//!
//! **Invariant:** a handle keeps the store that it is of, so handles may be freed in any order.
//! Only memory that the program has freed itself can be misused.
//!
//! **Invariant:** the library calls no function of the program, and has no state of its own.

mod access;
mod backup;
mod batch;
mod error;
mod event;
#[cfg(test)]
mod fuzz;
mod iterator;
mod library;
mod list;
mod open;
mod options;
mod place;
mod snapshot;
mod space;
mod store;
mod transaction;

pub use access::{
    keyrack_compare_and_swap, keyrack_contains, keyrack_delete, keyrack_delete_range,
    keyrack_fetch_and_add, keyrack_get, keyrack_put,
};
pub use backup::{
    keyrack_backup, keyrack_backup_keep_newest, keyrack_backup_list, keyrack_backup_restore,
    keyrack_backup_verify,
};
pub use batch::{
    Batch, keyrack_batch_clear, keyrack_batch_count, keyrack_batch_delete,
    keyrack_batch_delete_range, keyrack_batch_free, keyrack_batch_new, keyrack_batch_put,
    keyrack_batch_write,
};
pub use error::{
    Code, Error, keyrack_code_name, keyrack_error_code, keyrack_error_free, keyrack_error_key,
    keyrack_error_message, keyrack_error_space,
};
pub use event::{
    Event, Listener, keyrack_event_name, keyrack_event_number, keyrack_event_text,
    keyrack_options_set_listener,
};
pub use iterator::{
    Cursor, keyrack_iterator_first, keyrack_iterator_free, keyrack_iterator_key,
    keyrack_iterator_last, keyrack_iterator_new, keyrack_iterator_new_prefix,
    keyrack_iterator_next, keyrack_iterator_prev, keyrack_iterator_seek,
    keyrack_iterator_seek_back, keyrack_iterator_valid, keyrack_iterator_value,
};
pub use library::{
    KEYRACK_ABI_VERSION, KEYRACK_SNAPSHOT_ISOLATION, KEYRACK_SYNC, keyrack_abi_version,
    keyrack_free, keyrack_version,
};
pub use list::{
    List, keyrack_list_count, keyrack_list_free, keyrack_list_number, keyrack_list_text,
};
pub use options::{
    Options, keyrack_options_free, keyrack_options_new, keyrack_options_set,
    keyrack_options_set_number,
};
pub use snapshot::{Snapshot, keyrack_snapshot_free, keyrack_snapshot_new};
pub use space::{
    Space, keyrack_space_drop, keyrack_space_find, keyrack_space_free, keyrack_space_list,
    keyrack_space_name, keyrack_space_open,
};
pub use store::{
    Store, keyrack_checkpoint, keyrack_close, keyrack_compact, keyrack_destroy, keyrack_flush,
    keyrack_open, keyrack_open_read_only, keyrack_property, keyrack_statistics, keyrack_store_free,
};
pub use transaction::{
    Transaction, keyrack_transaction_begin, keyrack_transaction_commit, keyrack_transaction_delete,
    keyrack_transaction_delete_range, keyrack_transaction_free, keyrack_transaction_get,
    keyrack_transaction_get_for_update, keyrack_transaction_iterator,
    keyrack_transaction_iterator_prefix, keyrack_transaction_put,
    keyrack_transaction_release_save_point, keyrack_transaction_roll_back,
    keyrack_transaction_roll_back_to_save_point, keyrack_transaction_save_point,
};
