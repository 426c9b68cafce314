//! Panics, which end before they leave a function of C.
//!
//! What a panic leaves behind is closed or reports itself: locks are poisoned, and the libraries
//! take an object that is being changed out of its handle until the change is done.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call has panicked: a defect of the library.
#[derive(Clone, Debug)]
pub struct Panicked(String);

impl Panicked {
    fn new(cause: &(dyn Any + Send)) -> Panicked {
        let what = cause.downcast_ref::<&str>().copied();
        let what = what.or_else(|| cause.downcast_ref::<String>().map(String::as_str));
        Panicked(what.unwrap_or("of an unknown kind").to_owned())
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "internal error of the library, close the store: {}", self.0)
    }
}

/// Makes a call, and turns a panic in it into a failure.
///
/// # Errors
/// The call's own, or [`Panicked`].
pub fn caught<R, E: From<Panicked>>(call: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|cause| Err(Panicked::new(&*cause).into()))
}

/// Makes a call that cannot report: `otherwise`, if it panics.
pub fn or_else<R>(otherwise: R, call: impl FnOnce() -> R) -> R {
    caught::<R, Panicked>(|| Ok(call())).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure() {
        let told = caught::<(), Panicked>(|| panic!("planned")).unwrap_err();
        assert!(told.to_string().ends_with("close the store: planned"), "{told}");
        let number = 7;
        let told = caught::<(), Panicked>(|| panic!("planned {number}")).unwrap_err();
        assert!(told.to_string().ends_with("planned 7"), "{told}");
        assert_eq!(or_else(7, || panic!("planned")), 7);
    }
}
