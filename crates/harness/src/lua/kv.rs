//! The `kv` table: the eight verbs of the original and three of ours, as raw C functions.
//!
//! A verb checks its arguments, lets [`crate::verbs::Verbs`] time the engine call, and only then
//! builds Lua values, so that copying into Lua is never inside the sample. Wrong arguments raise an
//! ordinary Lua error with the place in the script. A key may be a string, a number (converted as
//! `tostring` does) or a key source of `kb`; a value a string, a number or a value source.
//!
//! | verb | returns | filed under |
//! |---|---|---|
//! | `kv.put(k, v)` | nothing | put |
//! | `kv.get(k)` | value or nil | get |
//! | `kv.touch(k)` | length of the value or nil | get |
//! | `kv.del(k)` | true, false; nil with `--blind-deletes` where the engine does not look | del |
//! | `kv.range(lo, hi [, limit])` | array of `{key=, val=}` | range |
//! | `kv.scan(lo, hi, fn [, limit])` | rows visited, the stopping one included | range, with the callback's time |
//! | `kv.count(lo, hi [, limit])` | rows | range |
//! | `kv.mget(keys)`, `kv.mget(K, n)` | array with nil holes | mget |
//! | `kv.mput(pairs)`, `kv.mput(K, V, n)` | nothing | mput |
//! | `kv.mdel(keys)`, `kv.mdel(K, n)` | number of keys passed | mdel |
//! | `kv.rmw(k, v)` | nothing | rmw |
//!
//! Ranges are half open; `hi` nil means no upper bound; a limit that is absent or not positive
//! means no limit.

use super::bridge::{self, Bridge, Buffers};
use super::objects::Objects;
use super::raw::{CFunction, Kind as Type, Stack};
use crate::live::Kind;
use crate::verbs::Verbs;
use keyrack_store::{Removed, Update};
use mlua::ffi::lua_State;
use std::ffi::c_int;
use std::ops::ControlFlow;

/// Name and function of every verb.
pub(super) const VERBS: &[(&str, CFunction)] = &[
    ("put", put),
    ("get", get),
    ("touch", touch),
    ("del", del),
    ("range", range),
    ("scan", scan),
    ("count", count),
    ("mget", mget),
    ("mput", mput),
    ("mdel", mdel),
    ("rmw", rmw),
];

/// Keys in one batched call.
const BATCH_KEYS_MAX: i64 = 1 << 20;

unsafe extern "C-unwind" fn put(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    write(stack, "kv.put", |verbs, key, value| {
        verbs.put(key, value);
    })
}

unsafe extern "C-unwind" fn rmw(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    write(stack, "kv.rmw", |verbs, key, value| {
        verbs.rmw(key, &mut |_, new| {
            new.extend_from_slice(value);
            Update::Put
        });
    })
}

#[inline(always)]
fn write(stack: Stack, verb: &str, call: impl FnOnce(&mut Verbs<'_>, &[u8], &[u8])) -> c_int {
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, message, .. } = unsafe { bridge::of(stack) };
    let Objects { keys, values, .. } = objects;
    let key = match stack.kind(1) {
        Type::Handle => keys.next(stack.handle(1)),
        _ => stack.bytes(1),
    };
    let value = match stack.kind(2) {
        Type::Handle => values.next(stack.handle(2)),
        _ => stack.bytes(2),
    };
    match (key, value, sessions.writer()) {
        (Some(key), Some(value), Ok(verbs)) => call(verbs, key, value),
        (None, ..) => refuse_key(stack, message, verb, 1),
        (_, None, _) => refuse_value(stack, message, verb, 2),
        (.., Err(why)) => refuse(stack, message, &[verb, ": ", why]),
    }
    0
}

unsafe extern "C-unwind" fn get(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
    let value = &mut buffers.value;
    let found = match (key_of(stack, objects, 1), sessions.reader()) {
        (Some(key), Ok(verbs)) => verbs.get(key, &mut |bytes| {
            value.clear();
            value.extend_from_slice(bytes);
        }),
        (None, _) => refuse_key(stack, message, "kv.get", 1),
        (_, Err(why)) => refuse(stack, message, &["kv.get: ", why]),
    };
    if found {
        stack.push_bytes(value);
    } else {
        stack.push_nil();
    }
    1
}

unsafe extern "C-unwind" fn touch(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, message, .. } = unsafe { bridge::of(stack) };
    let mut len = 0;
    let found = match (key_of(stack, objects, 1), sessions.reader()) {
        (Some(key), Ok(verbs)) => verbs.get(key, &mut |bytes| len = bytes.len()),
        (None, _) => refuse_key(stack, message, "kv.touch", 1),
        (_, Err(why)) => refuse(stack, message, &["kv.touch: ", why]),
    };
    if found {
        stack.push_integer(len as i64);
    } else {
        stack.push_nil();
    }
    1
}

unsafe extern "C-unwind" fn del(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, message, .. } = unsafe { bridge::of(stack) };
    let removed = match (key_of(stack, objects, 1), sessions.writer()) {
        (Some(key), Ok(verbs)) => verbs.del_of_script(key),
        (None, _) => refuse_key(stack, message, "kv.del", 1),
        (_, Err(why)) => refuse(stack, message, &["kv.del: ", why]),
    };
    match removed {
        Some(Removed::Existed) => stack.push_boolean(true),
        Some(Removed::Absent) => stack.push_boolean(false),
        Some(Removed::Unknown) | None => stack.push_nil(),
    }
    1
}

unsafe extern "C-unwind" fn range(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    {
        // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
        let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
        let Buffers { low, rows, .. } = buffers;
        let (high, limit) = bounds(stack, objects, low, message, "kv.range", 3);
        match sessions.reader() {
            Ok(verbs) => verbs.range(low, high, limit, rows),
            Err(why) => refuse(stack, message, &["kv.range: ", why]),
        }
    }
    // SAFETY: as above.
    let rows = unsafe { &bridge::of(stack).buffers.rows };
    stack.push_table(rows.ends.len(), 0);
    let array = stack.top();
    for (index, (key, value)) in rows.iter().enumerate() {
        stack.push_table(0, 2);
        let row = stack.top();
        // Upvalues 2 and 3 are the strings "key" and "val": no interning a row.
        stack.push_upvalue(2);
        stack.push_bytes(key);
        stack.raw_set(row);
        stack.push_upvalue(3);
        stack.push_bytes(value);
        stack.raw_set(row);
        stack.raw_set_index(array, index as i64 + 1);
    }
    1
}

unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
    let low = &mut buffers.low;
    let (high, limit) = bounds(stack, objects, low, message, "kv.count", 3);
    let rows = match sessions.reader() {
        Ok(verbs) => verbs.scan(low, high, limit, &mut |_, _| ControlFlow::Continue(())),
        Err(why) => refuse(stack, message, &["kv.count: ", why]),
    };
    stack.push_integer(rows as i64);
    1
}

/// One row on its way to a callback.
struct Row<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

unsafe extern "C-unwind" fn scan(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    let (verbs, low, high, limit, row_call) = {
        // SAFETY: a verb, registered with its bridge; the reference ends with this block, before
        // the callback runs.
        let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
        if stack.kind(3) != Type::Function {
            let found = stack.type_name(3);
            refuse(stack, message, &["kv.scan: argument 3 must be a function, got ", found]);
        }
        let (high, limit) = bounds(stack, objects, &mut buffers.low, message, "kv.scan", 4);
        // The low bound moves to the Lua stack: a read inside the callback reuses the buffer.
        stack.push_bytes(&buffers.low);
        // Pushed above: it is a string.
        let low = stack.bytes(stack.top()).unwrap_or_default();
        // Made here, not a row: where making one allocates, an error would jump over the engine. A
        // callback with one parameter is not interested in values; none are built for it.
        let row: CFunction =
            if stack.parameters(3) == Some(1) { call_with_key } else { call_with_row };
        stack.push_closure(row, 0);
        let row_call = stack.top();
        match sessions.reader() {
            Ok(verbs) => {
                let verbs: *mut Verbs<'_> = verbs;
                sessions.scans += 1;
                (verbs, low, high, limit, row_call)
            }
            Err(why) => refuse(stack, message, &["kv.scan: ", why]),
        }
    };
    let mut failed = false;
    // SAFETY: the verbs stay in place while connected, and `scans` keeps everybody else off them.
    let verbs = unsafe { &mut *verbs };
    let visited = verbs.scan(low, high, limit, &mut |key, value| {
        let mut row = Row { key, value };
        stack.push_copy(row_call);
        stack.push_copy(3);
        stack.push_pointer((&raw mut row).cast());
        // Protected, so that an error does not jump over the engine's frames.
        if !stack.protected_call(2, 1, 0) {
            failed = true;
            return ControlFlow::Break(());
        }
        let stop = stack.boolean(-1);
        stack.set_top(stack.top() - 1);
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // SAFETY: no Lua code runs while this reference lives.
    unsafe { bridge::of(stack) }.sessions.scans -= 1;
    if failed {
        // The callback's error is on top; the sample was filed.
        stack.raise();
    }
    stack.push_integer(visited as i64);
    1
}

unsafe extern "C-unwind" fn call_with_row(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: `scan` passes the address of its row, which outlives this call.
    let row = unsafe { &*stack.pointer(2).cast::<Row<'_>>() };
    stack.set_top(1);
    stack.push_bytes(row.key);
    stack.push_bytes(row.value);
    stack.call(2, 1);
    1
}

unsafe extern "C-unwind" fn call_with_key(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: `scan` passes the address of its row, which outlives this call.
    let row = unsafe { &*stack.pointer(2).cast::<Row<'_>>() };
    stack.set_top(1);
    stack.push_bytes(row.key);
    stack.call(1, 1);
    1
}

unsafe extern "C-unwind" fn mget(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    {
        // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
        let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
        collect_keys(stack, objects, buffers, message, "kv.mget");
        let Buffers { value, keys, key_ends, found, .. } = buffers;
        value.clear();
        found.clear();
        found.resize(key_ends.len(), None);
        match sessions.reader() {
            Ok(verbs) => lookup_all(verbs, keys, key_ends, value, found),
            Err(why) => refuse(stack, message, &["kv.mget: ", why]),
        }
    }
    // SAFETY: as above.
    let Buffers { value, found, .. } = unsafe { &bridge::of(stack).buffers };
    stack.push_table(found.len(), 0);
    let array = stack.top();
    for (index, place) in found.iter().enumerate() {
        if let Some((start, end)) = *place {
            stack.push_bytes(&value[start..end]);
            stack.raw_set_index(array, index as i64 + 1);
        }
    }
    1
}

/// Its own function, so that the list of slices is dropped before anything can raise.
fn lookup_all(
    verbs: &mut Verbs<'_>,
    keys: &[u8],
    key_ends: &[usize],
    values: &mut Vec<u8>,
    found: &mut [Option<(usize, usize)>],
) {
    let mut start = 0;
    let slices: Vec<&[u8]> = key_ends
        .iter()
        .map(|&end| {
            let key = &keys[start..end];
            start = end;
            key
        })
        .collect();
    verbs.mget(&slices, &mut |index, value| {
        found[index] = value.map(|value| {
            let start = values.len();
            values.extend_from_slice(value);
            (start, values.len())
        });
    });
}

unsafe extern "C-unwind" fn mput(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
    buffers.batch.clear();
    match stack.kind(1) {
        Type::Table => collect_pairs(stack, buffers, message),
        Type::Handle => {
            let count = batch_count(stack, message, "kv.mput", 3);
            let Objects { keys, values, .. } = objects;
            for _ in 0..count {
                let Some(key) = keys.next(stack.handle(1)) else {
                    refuse_key(stack, message, "kv.mput", 1)
                };
                let value = match stack.kind(2) {
                    Type::Handle => values.next(stack.handle(2)),
                    _ => stack.bytes(2),
                };
                let Some(value) = value else { refuse_value(stack, message, "kv.mput", 2) };
                buffers.batch.put(key, value);
            }
        }
        _ => {
            let found = stack.type_name(1);
            let what = ["kv.mput: give an array of {key=, val=} or a key source, got ", found];
            refuse(stack, message, &what)
        }
    }
    match sessions.writer() {
        Ok(verbs) => {
            verbs.apply(Kind::Mput, &buffers.batch);
        }
        Err(why) => refuse(stack, message, &["kv.mput: ", why]),
    }
    0
}

unsafe extern "C-unwind" fn mdel(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: a verb, registered with its bridge; no Lua code runs while the reference lives.
    let Bridge { sessions, objects, buffers, message, .. } = unsafe { bridge::of(stack) };
    collect_keys(stack, objects, buffers, message, "kv.mdel");
    let Buffers { keys, key_ends, batch, .. } = buffers;
    batch.clear();
    let mut start = 0;
    for &end in key_ends.iter() {
        batch.remove(&keys[start..end]);
        start = end;
    }
    match sessions.writer() {
        Ok(verbs) => {
            verbs.apply(Kind::Mdel, batch);
        }
        Err(why) => refuse(stack, message, &["kv.mdel: ", why]),
    }
    stack.push_integer(key_ends.len() as i64);
    1
}

/// The key in argument `index`, where it is a string, a number or a key source.
#[inline(always)]
fn key_of(stack: Stack, objects: &mut Objects, index: c_int) -> Option<&[u8]> {
    match stack.kind(index) {
        Type::Handle => objects.keys.next(stack.handle(index)),
        _ => stack.bytes(index),
    }
}

/// Reads the bounds in arguments 1 and 2, and the limit in `limit_index`. The low bound is copied,
/// since both may be draws from one source; the high bound stays on the Lua stack.
fn bounds<'a>(
    stack: Stack,
    objects: &mut Objects,
    low: &mut Vec<u8>,
    message: &mut Vec<u8>,
    verb: &str,
    limit_index: c_int,
) -> (Option<&'a [u8]>, u64) {
    match key_of(stack, objects, 1) {
        Some(key) => {
            low.clear();
            low.extend_from_slice(key);
        }
        None => refuse_key(stack, message, verb, 1),
    }
    let high = match stack.kind(2) {
        Type::String | Type::Number => stack.bytes(2),
        Type::Nil => None,
        _ => {
            let found = stack.type_name(2);
            let what = [verb, ": the upper bound must be a string or nil, got ", found];
            refuse(stack, message, &what)
        }
    };
    let limit = match stack.kind(limit_index) {
        Type::None | Type::Nil => 0,
        _ => match stack.integer(limit_index) {
            Some(limit) => limit,
            None => {
                let found = stack.type_name(limit_index);
                refuse(stack, message, &[verb, ": the limit must be an integer, got ", found])
            }
        },
    };
    (high, if limit <= 0 { u64::MAX } else { limit as u64 })
}

/// Copies the keys of argument 1 (an array, or a source with a count in argument 2).
fn collect_keys(
    stack: Stack,
    objects: &mut Objects,
    buffers: &mut Buffers,
    message: &mut Vec<u8>,
    verb: &str,
) {
    let Buffers { keys, key_ends, .. } = buffers;
    keys.clear();
    key_ends.clear();
    match stack.kind(1) {
        Type::Table => {
            for index in 1..=stack.raw_len(1) {
                stack.raw_get_index(1, index as i64);
                // A number is converted on the stack, and copied before it is popped.
                match stack.bytes(-1) {
                    Some(key) => keys.extend_from_slice(key),
                    None => refuse_element(stack, message, verb, index, "key"),
                }
                key_ends.push(keys.len());
                stack.set_top(stack.top() - 1);
            }
        }
        Type::Handle => {
            for _ in 0..batch_count(stack, message, verb, 2) {
                match objects.keys.next(stack.handle(1)) {
                    Some(key) => keys.extend_from_slice(key),
                    None => refuse_key(stack, message, verb, 1),
                }
                key_ends.push(keys.len());
            }
        }
        _ => {
            let found = stack.type_name(1);
            refuse(stack, message, &[verb, ": give an array of keys or a key source, got ", found])
        }
    }
}

/// Adds the pairs of the array in argument 1 to the batch.
fn collect_pairs(stack: Stack, buffers: &mut Buffers, message: &mut Vec<u8>) {
    for index in 1..=stack.raw_len(1) {
        stack.raw_get_index(1, index as i64);
        let row = stack.top();
        if stack.kind(row) != Type::Table {
            refuse_element(stack, message, "kv.mput", index, "pair {key=, val=}");
        }
        stack.push_upvalue(2);
        stack.raw_get(row);
        stack.push_upvalue(3);
        stack.raw_get(row);
        match (stack.bytes(row + 1), stack.bytes(row + 2)) {
            (Some(key), Some(value)) => buffers.batch.put(key, value),
            (None, _) => refuse_element(stack, message, "kv.mput", index, "string under 'key'"),
            (_, None) => refuse_element(stack, message, "kv.mput", index, "string under 'val'"),
        }
        stack.set_top(row - 1);
    }
}

fn batch_count(stack: Stack, message: &mut Vec<u8>, verb: &str, index: c_int) -> i64 {
    match stack.integer(index) {
        Some(count @ 0..=BATCH_KEYS_MAX) => count,
        _ => {
            let what = [verb, ": a key source needs a count of keys from 0 to 1048576 after it"];
            refuse(stack, message, &what)
        }
    }
}

/// Raises the joined `parts` with the place of the running line.
#[cold]
fn refuse(stack: Stack, message: &mut Vec<u8>, parts: &[&str]) -> ! {
    message.clear();
    for part in parts {
        message.extend_from_slice(part.as_bytes());
    }
    stack.raise_here(message)
}

#[cold]
fn refuse_key(stack: Stack, message: &mut Vec<u8>, verb: &str, index: c_int) -> ! {
    let found = stack.type_name(index);
    refuse(stack, message, &[verb, ": the key must be a string or a key source, got ", found])
}

#[cold]
fn refuse_value(stack: Stack, message: &mut Vec<u8>, verb: &str, index: c_int) -> ! {
    let found = stack.type_name(index);
    refuse(stack, message, &[verb, ": the value must be a string or a value source, got ", found])
}

#[cold]
fn refuse_element(stack: Stack, message: &mut Vec<u8>, verb: &str, index: usize, want: &str) -> ! {
    // Formatted into the bridge's buffer: nothing here owns memory when the error jumps.
    use std::io::Write;
    message.clear();
    let _ = write!(message, "{verb}: element {index} is not a {want}");
    stack.raise_here(message)
}
