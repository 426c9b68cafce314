//! The loops of jobs: operations up to a bound, and the seconds that they took. Operations that are
//! still under way at the end of a loop are waited for.

use super::client::{Client, Halt};
use super::row::Row;

/// How many operations, and their seconds.
pub(crate) type Timed = (u64, f64);

/// As [`up_to`], with the limit of the client.
#[inline]
pub(crate) fn up_to_limit(
    client: &mut dyn Client,
    step: impl FnMut(&mut dyn Client, u64) -> Result<(), Halt>,
) -> Result<Timed, Halt> {
    let limit = client.limit();
    up_to(client, limit, step)
}

/// Calls `step` with 0, 1, .. up to `limit` itself, or until the time is over.
#[inline]
pub(crate) fn up_to(
    client: &mut dyn Client,
    limit: u64,
    mut step: impl FnMut(&mut dyn Client, u64) -> Result<(), Halt>,
) -> Result<Timed, Halt> {
    let begin = client.seconds();
    let mut done = 0;
    while !client.expired(0) && done <= limit {
        step(client, done)?;
        done += 1;
    }
    client.wait_all()?;
    Ok((done, client.seconds() - begin))
}

/// Calls `step` with each of `items`, until the time of the second phase is over.
#[inline]
pub(crate) fn with_all<T: Copy>(
    client: &mut dyn Client,
    items: &[T],
    mut step: impl FnMut(&mut dyn Client, T) -> Result<(), Halt>,
) -> Result<Timed, Halt> {
    let begin = client.seconds();
    let mut done = 0;
    for &item in items {
        if client.expired(1) {
            break;
        }
        step(client, item)?;
        done += 1;
    }
    client.wait_all()?;
    Ok((done, client.seconds() - begin))
}

/// Reports one count and its rate.
pub(crate) fn report(client: &mut dyn Client, name: &str, (count, seconds): Timed) {
    let mut row = Row::new();
    row.set_rate(name, count, seconds);
    client.report(row);
}
