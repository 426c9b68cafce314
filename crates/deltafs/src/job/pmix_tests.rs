//! The exchange over PMIx with a library of made-up functions, and made-up values.

use super::*;
use std::sync::Mutex;

/// What the made-up library has been given.
static PUT: Mutex<Option<CString>> = Mutex::new(None);

unsafe extern "C" fn init(own: *mut Process, _: *const Info, _: usize) -> c_int {
    // SAFETY: the caller has a place for a process.
    unsafe { (*own).rank = 0 };
    SUCCESS
}

unsafe extern "C" fn put(_: u8, _: *const c_char, value: *mut Value) -> c_int {
    // SAFETY: the caller has a value.
    let value = unsafe { &*value };
    assert_eq!(value.kind, TYPE_STRING);
    // SAFETY: the type says that this member is set.
    let string = unsafe { value.data.string };
    // SAFETY: strings end with a zero byte.
    *PUT.lock().unwrap() = Some(unsafe { CStr::from_ptr(string) }.to_owned());
    SUCCESS
}

unsafe extern "C" fn commit() -> c_int {
    SUCCESS
}

unsafe extern "C" fn fence(_: *const Process, _: usize, info: *const Info, count: usize) -> c_int {
    // SAFETY: the caller has as many options as it says.
    let options = unsafe { std::slice::from_raw_parts(info, count) };
    let is_collection =
        |info: &Info| info.key.starts_with(b"pmix.collect\0") && info.value.kind == TYPE_BOOL;
    if options.iter().all(is_collection) { SUCCESS } else { -27 }
}

/// A rank for which the fence waits never comes.
unsafe extern "C" fn endless_fence(_: *const Process, _: usize, _: *const Info, _: usize) -> c_int {
    loop {
        thread::park();
    }
}

unsafe extern "C" fn get(
    _: *const Process,
    _: *const c_char,
    _: *const Info,
    _: usize,
    place: *mut *mut Value,
) -> c_int {
    let Some(text) = PUT.lock().unwrap().take() else { return -46 };
    let value = Value { kind: TYPE_STRING, data: Data { string: text.into_raw() } };
    // SAFETY: the caller has a place for a pointer.
    unsafe { place.write(Box::into_raw(Box::new(value))) };
    SUCCESS
}

unsafe extern "C" fn finalize(_: *const Info, _: usize) -> c_int {
    SUCCESS
}

unsafe extern "C" fn unreachable_server(_: *mut Process, _: *const Info, _: usize) -> c_int {
    -25
}

unsafe extern "C" fn error_string(status: c_int) -> *const c_char {
    match status {
        -25 => c"UNREACHABLE".as_ptr(),
        _ => ptr::null(),
    }
}

const LIBRARY_OF_TESTS: Functions =
    Functions { init, put, commit, fence, get, finalize, error_string };

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_text_comes_back_through_the_library() {
    let text = "node:1/token";
    assert_eq!(LIBRARY_OF_TESTS.exchange(0, Some(text), SOON).unwrap(), text);
    let error = LIBRARY_OF_TESTS.exchange(0, None, SOON).unwrap_err().to_string();
    assert!(error.contains("PMIx_Get of libpmix.so.2 failed with status -46"), "{error}");
    let error = LIBRARY_OF_TESTS.exchange(1, None, SOON).unwrap_err().to_string();
    assert!(error.contains("the server says rank 0, the variables say 1"), "{error}");
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let library = Functions { init: unreachable_server, ..LIBRARY_OF_TESTS };
    let error = library.exchange(0, None, SOON).unwrap_err().to_string();
    assert!(error.contains("PMIx_Init of libpmix.so.2 failed: UNREACHABLE (-25)"), "{error}");
}

#[test]
fn a_fence_that_nobody_else_reaches_ends_with_the_time() {
    let library = Functions { fence: endless_fence, ..LIBRARY_OF_TESTS };
    let error = library.exchange(0, None, Duration::from_millis(10)).unwrap_err().to_string();
    assert!(error.contains("not all ranks came within"), "{error}");
}

#[test]
fn a_library_that_cannot_be_used_is_named() {
    let error = Functions::load("libpmix-nowhere.so.2").unwrap_err();
    assert!(error.starts_with("cannot load libpmix-nowhere.so.2"), "{error}");
    let error = Functions::load("libc.so.6").unwrap_err();
    assert_eq!(error, "libc.so.6 has no function PMIx_Init");
}

#[test]
fn damaged_values_are_refused() {
    let of = |bytes: &[u8]| {
        let text = CString::new(bytes).unwrap();
        let string = text.as_ptr().cast_mut();
        text_of(Some(&Value { kind: TYPE_STRING, data: Data { string } }))
    };
    assert_eq!(of(b"").unwrap(), "");
    assert_eq!(of(&[b'a'; TEXT_BYTES_MAX]).unwrap().len(), TEXT_BYTES_MAX);
    assert!(of(&[b'a'; TEXT_BYTES_MAX + 1]).unwrap_err().contains("longer than 512 bytes"));
    assert!(of(b"\xff\xfe").unwrap_err().contains("no text"));
    assert!(text_of(None).unwrap_err().contains("missing"));
    let empty = Value { kind: TYPE_STRING, data: Data { string: ptr::null_mut() } };
    assert!(text_of(Some(&empty)).unwrap_err().contains("no string"));
    let number = Value { kind: 14, data: Data { wide: 7 } };
    assert!(text_of(Some(&number)).unwrap_err().contains("of type 14, not 3"));
}

/// The figures are those of the headers of OpenPMIx 4.2.
#[cfg(target_pointer_width = "64")]
#[test]
fn structures_lie_as_in_the_headers() {
    use std::mem::{offset_of, size_of};
    assert_eq!((size_of::<Value>(), offset_of!(Value, data)), (32, 8));
    assert_eq!((size_of::<Process>(), offset_of!(Process, rank)), (260, 256));
    let offsets = (offset_of!(Info, flags), offset_of!(Info, value));
    assert_eq!((size_of::<Info>(), offsets), (552, (512, 520)));
    // SAFETY: every pattern of bytes is one of numbers.
    assert_eq!(unsafe { Data { largest: [1, 2, 3] }.largest }, [1, 2, 3]);
}
