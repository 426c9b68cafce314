//! Events of a store, for a function of the program.
//!
//! An event is what `keyrack_flodb::Event::visit` shows: a name, and fields with names. So a new
//! kind of event, or a new field, changes neither a type nor a call of this interface.

use crate::error::{Code, Error, c_text, report};
use crate::options::{Options, utf8};
use keyrack_ffi::{handle_mut, or_else, put};
use keyrack_flodb::{Event as StoreEvent, EventField, EventListener};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// Something that a store did in the background. It lives until the listener returns.
#[derive(Debug)]
pub struct Event {
    name: CString,
    fields: Vec<(&'static str, Field)>,
}

#[derive(Debug)]
enum Field {
    Numbers(Vec<u64>),
    Text(CString),
}

impl Event {
    fn of(event: &StoreEvent) -> Event {
        let mut fields = Vec::new();
        event.visit(&mut |name, field| {
            let field = match field {
                EventField::Number(number) => Field::Numbers(vec![number]),
                EventField::Numbers(numbers) => Field::Numbers(numbers.to_vec()),
                EventField::Text(text) => Field::Text(c_text(text)),
                // There are no others in this version of the store.
                _ => return,
            };
            fields.push((name, field));
        });
        Event { name: c_text(event.name()), fields }
    }

    /// # Safety
    /// `field` is null or ends with a zero.
    unsafe fn field(&self, field: *const c_char) -> Option<&Field> {
        // SAFETY: the caller promises the same.
        let wanted = unsafe { utf8(field, "name of the field") }.ok()?;
        self.fields.iter().find(|(name, _)| *name == wanted).map(|(_, field)| field)
    }
}

/// Is told of an event, with the context that it was set with.
///
/// Threads: one of the store's, see keyrack_options_set_listener.
pub type Listener = Option<unsafe extern "C" fn(context: *mut c_void, event: *const Event)>;

/// A listener and its context.
#[derive(Debug)]
pub(crate) struct Listening {
    call: unsafe extern "C" fn(*mut c_void, *const Event),
    context: *mut c_void,
}

// SAFETY: whoever set it has promised that the function may use the context on another thread.
unsafe impl Send for Listening {}
// SAFETY: as above; a store calls it on one thread.
unsafe impl Sync for Listening {}

impl EventListener for Listening {
    fn event(&self, event: &StoreEvent) {
        let event = Event::of(event);
        // SAFETY: whoever set it has promised that it may be called until the store is closed.
        unsafe { (self.call)(self.context, &raw const event) };
    }
}

/// Has stores that are opened with these options tell `listener` what they do in the background:
/// flushes, compactions, write stalls, errors. docs/engines/flodb.md has the events and their
/// fields. Null is no listener.
///
/// A store calls it on one thread of its own, one event after the other, and holds no lock
/// meanwhile: it may make any call on the store, and closing is one. An exception of C++ must not
/// leave it. `context` stays the caller's, and must be there until keyrack_close has returned, or
/// all handles of the store are freed; if the listener closes or frees it, until the listener
/// has returned. A store that is opened for reading tells nothing.
///
/// Threads: one at a time for `options`.
///
/// # Safety
/// `options` is null or options that nobody else uses; `listener` may be called with `context` on
/// another thread, as long as a store is open that was opened with the options; `error` is null, or
/// points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_options_set_listener(
    options: *mut Options,
    listener: Listener,
    context: *mut c_void,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let options = unsafe { handle_mut(options, "options") }?;
        options.listener = listener.map(|call| Arc::new(Listening { call, context }));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The name of an event, such as "flush_ended". It lives as long as the event. Empty for null.
///
/// Threads: that of the listener.
///
/// # Safety
/// `event` is null or the event that a listener was called with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_event_name(event: *const Event) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { event.as_ref() }.map_or(c"".as_ptr(), |event| event.name.as_ptr())
}

/// Whether a field of an event has a number at `index`, which is then in `*number`: 0 for a field
/// that is one number; counted from 0 in a list, as the numbers of tables are. `*number` is 0 if
/// there is none.
///
/// Threads: that of the listener.
///
/// # Safety
/// `event` is null or the event that a listener was called with; `field` is null or ends with a
/// zero; `number` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_event_number(
    event: *const Event,
    field: *const c_char,
    index: usize,
    number: *mut u64,
) -> c_int {
    or_else(0, || {
        // SAFETY: the caller promises the same.
        let event = unsafe { event.as_ref() };
        // SAFETY: as above.
        let field = event.and_then(|event| unsafe { event.field(field) });
        let found = match field {
            Some(Field::Numbers(numbers)) => numbers.get(index).copied(),
            _ => None,
        };
        // SAFETY: the caller promises room for a number.
        unsafe { put(number, found.unwrap_or(0)) };
        found.is_some().into()
    })
}

/// The text of a field of an event; null if it has none. It lives as long as the event.
///
/// Threads: that of the listener.
///
/// # Safety
/// `event` is null or the event that a listener was called with; `field` is null or ends with a
/// zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_event_text(
    event: *const Event,
    field: *const c_char,
) -> *const c_char {
    or_else(ptr::null(), || {
        // SAFETY: the caller promises the same.
        let event = unsafe { event.as_ref() };
        // SAFETY: as above.
        let field = event.and_then(|event| unsafe { event.field(field) });
        match field {
            Some(Field::Text(text)) => text.as_ptr(),
            _ => ptr::null(),
        }
    })
}
