//! A server as a program: rows opened with a line in the log, served until a signal comes.

use crate::{DONE, NO};
use keyrack_measure::Clock;
use keyrack_rowstore::{CheckpointStep, Eviction, Options as RowOptions, Progress, Rows};
use keyrack_server::log::{self, events};
use keyrack_server::{Control, Error, Options, Server};
use keyrack_store::Durability;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a row may have beside its value: a hash with many small fields, the row's head.
const ROW_MARGIN_BYTES: usize = 1 << 20;

/// The smallest segment of a log that is used.
const SEGMENT_BYTES: u64 = 128 << 20;

/// Opens rows, and logs how long that took.
///
/// # Errors
/// Those of `open`.
pub fn open_logged(
    open: impl FnOnce() -> Result<Box<dyn Rows>, Error>,
) -> Result<Box<dyn Rows>, Error> {
    let clock = Clock::vdso();
    let began = clock.ticks();
    let rows = open()?;
    let opened_ms = clock.ns_between(began, clock.ticks()) / 1_000_000;
    events::store_open(&rows.version(), rows.len(), opened_ms);
    Ok(rows)
}

/// Waits for a signal or a failure, and ends the server. Returns the exit status.
pub fn serve_until_end(program: &str, server: Server, control: &Control) -> u8 {
    let failure = control.wait_for_end();
    events::stop_begun(&control.end_reason());
    let clock = Clock::vdso();
    let began = clock.ticks();
    let ended = server.end();
    events::stop_ended(clock.ns_between(began, clock.ticks()) / 1_000_000);
    if failure.is_none() && ended.is_ok() {
        log::plain("ended");
    }
    log::finish();
    match failure.or_else(|| ended.err().map(|error| error.to_string())) {
        None => DONE,
        Some(why) => {
            crate::refuse(program, &why);
            NO
        }
    }
}

/// The options of the row store that follow from those of a server.
#[must_use]
pub fn row_options(options: &Options) -> RowOptions {
    let by_itself = RowOptions::default();
    // The protocols' limits differ only where nothing was said; Redis' is the larger one.
    let value_bytes_max = usize::try_from(options.resp_value_bytes_max()).unwrap_or(usize::MAX);
    let row_bytes_max =
        by_itself.row_bytes_max.max(value_bytes_max.saturating_add(ROW_MARGIN_BYTES));
    // A record holds a batch, a key and a row.
    let record = row_bytes_max + by_itself.key_bytes_max + by_itself.batch_bytes_max + (64 << 10);
    RowOptions {
        durability: match options.engine.as_str() {
            "masstree" => Durability::None,
            _ => options.durability(),
        },
        row_bytes_max,
        log_dirs: match options.log_dirs.as_slice() {
            [] => by_itself.log_dirs,
            dirs => dirs.to_vec(),
        },
        checkpoint_log_bytes: options.checkpoint_log_bytes,
        segment_bytes: (record as u64).next_power_of_two().max(SEGMENT_BYTES),
        memory_max: options.memory_bytes_max,
        on_checkpoint: Some(log_checkpoint),
        eviction: match options.eviction {
            keyrack_server::Eviction::None => Eviction::None,
            keyrack_server::Eviction::Clock => Eviction::Clock,
        },
        ..by_itself
    }
}

fn log_checkpoint(step: CheckpointStep<'_>) {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match step {
        CheckpointStep::Begun => events::checkpoint_begun(),
        CheckpointStep::Ended { rows, bytes, duration } => {
            events::checkpoint_ended(rows, bytes, ms(duration));
        }
        CheckpointStep::Failed { error, duration } => {
            events::checkpoint_failed(&error.to_string(), ms(duration));
        }
    }
}

/// Logs each tenth of a recovery, and tells `control`. `shown` holds the last tenth that was
/// logged.
pub fn log_progress(progress: Progress, shown: &AtomicU64, control: &Control) {
    let tenth = progress.percent() / 10;
    if shown.fetch_max(tenth, Ordering::Relaxed) < tenth {
        control.loading(tenth * 10);
        events::loading(tenth * 10, progress.rows);
    }
}
