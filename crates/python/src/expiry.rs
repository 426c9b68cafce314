//! How long values stay: arguments of writes, and answers about them.

use crate::error::{Failure, Result};
use crate::handle::Opened;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDelta;
use std::time::Duration;

/// Milliseconds of a second.
const SECOND_MS: f64 = 1e3;

/// The last moment in milliseconds that a float has exactly, as all before it.
const UNTIL_MS_MAX: f64 = 9_007_199_254_740_992.0;

/// A time to live: seconds, or a `timedelta`.
pub(crate) struct Ttl(pub(crate) Duration);

impl<'py> FromPyObject<'_, 'py> for Ttl {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Ttl(duration_of(&object, "ttl")?))
    }
}

/// The duration that an argument says, in seconds or as a `timedelta`.
///
/// # Errors
/// `TypeError` for something else, and `Usage` for a number that is none, by the argument's name.
pub(crate) fn duration_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let seconds = match object.cast::<PyDelta>() {
        Ok(delta) => delta.call_method0("total_seconds")?.extract::<f64>()?,
        Err(_) => object.extract::<f64>().map_err(|_| {
            let kind = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!("{name} is seconds or a timedelta, not {kind}"))
        })?,
    };
    Ok(Duration::try_from_secs_f64(seconds).map_err(|_| {
        Failure::Usage(format!("{name} must be a number of seconds from 0 on (got {seconds})"))
    })?)
}

/// When a value that is written goes.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    After(Duration),
    /// In milliseconds since 1970.
    At(u64),
}

impl Until {
    /// What a call was given; `None` for a value that stays.
    ///
    /// # Errors
    /// `Usage` for both, and for what is no moment.
    pub(crate) fn new(ttl: Option<Ttl>, until: Option<f64>) -> Result<Option<Until>> {
        match (ttl, until) {
            (None, None) => Ok(None),
            (Some(ttl), None) => Ok(Some(Until::After(ttl.0))),
            (None, Some(until)) => {
                let ms = (until * SECOND_MS).round();
                if !(0.0..=UNTIL_MS_MAX).contains(&ms) {
                    return Err(Failure::Usage(format!(
                        "until must be seconds since 1970, as time.time() gives (got {until})"
                    )));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is a whole number within the range that was just checked"
                )]
                Ok(Some(Until::At(ms as u64)))
            }
            (Some(_), Some(_)) => {
                Err(Failure::Usage("give either ttl or until, not both".to_owned()))
            }
        }
    }

    /// The moment in milliseconds since 1970, by the clock of the store.
    pub(crate) fn ms(self, opened: &Opened) -> u64 {
        match self {
            Until::At(ms) => ms,
            Until::After(ttl) => {
                let now_ms = match opened {
                    Opened::Db(db) => db.now_ms(),
                    Opened::Spaces(spaces, _) => spaces.now_ms(),
                };
                let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                now_ms.saturating_add(ttl_ms)
            }
        }
    }
}

/// A moment as Python has it: seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
pub(crate) fn seconds_of(ms: u64) -> f64 {
    ms as f64 / SECOND_MS
}
