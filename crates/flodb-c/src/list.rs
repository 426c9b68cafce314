//! Lists that a call returns: rows of a text and a number.

use crate::error::c_text;
use keyrack_ffi::{destroy, or_else};
use std::ffi::{CString, c_char};
use std::ptr;

/// Rows of a text and a number, which do not change.
#[derive(Debug)]
pub struct List {
    rows: Vec<(CString, f64)>,
}

impl List {
    pub(crate) fn new<T: AsRef<str>>(rows: impl IntoIterator<Item = (T, f64)>) -> List {
        let rows = rows.into_iter().map(|(text, number)| (c_text(text.as_ref()), number));
        List { rows: rows.collect() }
    }
}

/// The number of rows; 0 for null.
///
/// Threads: any, until the list is freed.
///
/// # Safety
/// `list` is null or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_list_count(list: *const List) -> usize {
    // SAFETY: the caller promises the same.
    unsafe { list.as_ref() }.map_or(0, |list| list.rows.len())
}

/// The text of a row, from 0 on, which ends with a zero; null if there is no such row. It lives as
/// long as the list.
///
/// Threads: any, until the list is freed.
///
/// # Safety
/// `list` is null or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_list_text(list: *const List, row: usize) -> *const c_char {
    // SAFETY: the caller promises the same.
    let row = unsafe { list.as_ref() }.and_then(|list| list.rows.get(row));
    row.map_or(ptr::null(), |(text, _)| text.as_ptr())
}

/// The number of a row, from 0 on; 0 if there is no such row.
///
/// Threads: any, until the list is freed.
///
/// # Safety
/// `list` is null or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_list_number(list: *const List, row: usize) -> f64 {
    // SAFETY: the caller promises the same.
    let row = unsafe { list.as_ref() }.and_then(|list| list.rows.get(row));
    row.map_or(0.0, |(_, number)| *number)
}

/// Frees a list and its texts. Null is nothing.
///
/// Threads: one, the last that uses the list.
///
/// # Safety
/// `list` is null or a list, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_list_free(list: *mut List) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(list) }));
}
