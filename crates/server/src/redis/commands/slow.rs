//! SLOWLOG and LATENCY: commands that took long, and how long commands take.

use std::fmt::Write as _;

use crate::durations::bound_us;
use crate::redis::call::Call;
use crate::redis::fault::{Done, Fault, wrong_subcommand};
use crate::redis::latency::Series;
use crate::redis::number::integer;
use crate::redis::table;

/// Entries of SLOWLOG GET without a count.
const ENTRIES: usize = 10;

pub(crate) fn slowlog_get(call: &mut Call<'_>) -> Done {
    let count = match call.count() {
        2 => ENTRIES,
        3 => match integer(call.arg(2)) {
            Some(-1) => usize::MAX,
            count => count
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(Fault::Text("ERR count should be greater than or equal to -1"))?,
        },
        _ => return Err(wrong_subcommand("slowlog", call.arg(1))),
    };
    let entries = call.ctx.shared.slow_log.newest(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        for number in [entry.id, entry.unix_s, entry.duration_us] {
            call.reply.integer(number.cast_signed());
        }
        call.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| call.reply.bulk(arg));
        call.reply.bulk(entry.peer.as_bytes());
        call.reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}

pub(crate) fn slowlog_len(call: &mut Call<'_>) -> Done {
    call.reply.integer(call.ctx.shared.slow_log.len() as i64);
    Ok(())
}

pub(crate) fn slowlog_reset(call: &mut Call<'_>) -> Done {
    call.ctx.shared.slow_log.reset();
    call.reply.ok();
    Ok(())
}

pub(crate) fn latest(call: &mut Call<'_>) -> Done {
    let all = call.ctx.shared.latency.all();
    call.reply.array(all.len());
    for series in all {
        // A series begins with its first sample.
        let Some(last) = series.samples.back() else { continue };
        call.reply.array(4);
        call.reply.bulk(series.name.as_bytes());
        for number in [last.unix_s, last.ms, series.max_ms] {
            call.reply.integer(number.cast_signed());
        }
    }
    Ok(())
}

pub(crate) fn history(call: &mut Call<'_>) -> Done {
    let samples = call.ctx.shared.latency.named(call.arg(2)).map(|series| series.samples);
    let samples = samples.unwrap_or_default();
    call.reply.array(samples.len());
    for sample in samples {
        call.reply.array(2);
        call.reply.integer(sample.unix_s.cast_signed());
        call.reply.integer(sample.ms.cast_signed());
    }
    Ok(())
}

pub(crate) fn reset(call: &mut Call<'_>) -> Done {
    let is_meant =
        |name: &str| call.count() == 2 || (2..call.count()).any(|index| call.is(index, name));
    let forgotten = call.ctx.shared.latency.reset(is_meant);
    call.reply.integer(forgotten as i64);
    Ok(())
}

pub(crate) fn doctor(call: &mut Call<'_>) -> Done {
    let latency = &call.ctx.shared.latency;
    let threshold_ms = latency.threshold_ms.load(std::sync::atomic::Ordering::Relaxed);
    let all = latency.all();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match (threshold_ms, all.is_empty()) {
        (0, true) => writeln!(
            text,
            "Nothing is watched: CONFIG SET latency-monitor-threshold <milliseconds> begins it."
        ),
        (_, true) => writeln!(text, "No command took {threshold_ms} ms or more."),
        _ => Ok(()),
    };
    for series in &all {
        let sum: u64 = series.samples.iter().map(|sample| sample.ms).sum();
        let count = series.samples.len() as u64;
        let _ = writeln!(
            text,
            "{}: {count} seconds with slow ones, the longest {} ms, {} ms on average. SLOWLOG GET \
             names the commands.",
            series.name,
            series.max_ms,
            sum / count.max(1),
        );
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(crate) fn graph(call: &mut Call<'_>) -> Done {
    let Some(series) = call.ctx.shared.latency.named(call.arg(2)) else {
        let name = String::from_utf8_lossy(call.arg(2)).into_owned();
        return Err(Fault::Made(format!("ERR No samples available for event '{name}'")));
    };
    call.reply.verbatim(*b"txt", draw(&series).as_bytes());
    Ok(())
}

/// Rows of a graph.
const GRAPH_ROWS: u64 = 4;

/// Columns of a graph.
const GRAPH_COLUMNS: usize = 80;

/// The newest samples as columns between the lowest and the highest.
fn draw(series: &Series) -> String {
    let skipped = series.samples.len().saturating_sub(GRAPH_COLUMNS);
    let shown: Vec<u64> = series.samples.iter().skip(skipped).map(|sample| sample.ms).collect();
    let low = shown.iter().copied().min().unwrap_or(0);
    let high = shown.iter().copied().max().unwrap_or(0);
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n",
        series.name, series.max_ms
    );
    for row in (0..GRAPH_ROWS).rev() {
        let line: String = shown
            .iter()
            .map(|ms| {
                let filled = (ms - low) * GRAPH_ROWS / (high - low + 1);
                if filled >= row { '#' } else { ' ' }
            })
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The durations of each command that was called, cumulative, at powers of two of a microsecond.
pub(crate) fn histogram(call: &mut Call<'_>) -> Done {
    let totals = call.ctx.shared.totals();
    let is_meant =
        |name: &str| call.count() == 2 || (2..call.count()).any(|index| call.is(index, name));
    let called: Vec<(&str, &[u64])> = table::COMMANDS
        .iter()
        .zip(&totals.buckets)
        .filter(|(command, buckets)| buckets.iter().any(|n| *n > 0) && is_meant(command.name))
        .map(|(command, buckets)| (command.name, &buckets[..]))
        .collect();
    call.reply.map(called.len());
    for (name, buckets) in called {
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(buckets.iter().sum::<u64>().cast_signed());
        call.reply.bulk(b"histogram_usec");
        call.reply.map(buckets.iter().filter(|n| **n > 0).count());
        let mut sum = 0;
        for (bucket, count) in buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            sum += count;
            // The last bucket has no bound: the next power of two stands for it.
            call.reply.integer(bound_us(bucket).unwrap_or(1 << bucket).cast_signed());
            call.reply.integer(sum.cast_signed());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::latency::Sample;

    #[test]
    fn a_graph_has_a_column_for_each_of_the_newest_samples() {
        let samples = [5, 9, 20, 6].iter().enumerate();
        let samples = samples.map(|(at, &ms)| Sample { unix_s: at as u64, ms }).collect();
        let mut series = Series { name: "command", samples, max_ms: 40 };
        let text = draw(&series);
        assert_eq!(
            text,
            "command - high 20 ms, low 5 ms (all time high 40 ms)\n  #\n  #\n ##\n####\n"
        );
        series.samples = (0..200).map(|at| Sample { unix_s: at, ms: 7 }).collect();
        assert_eq!(draw(&series).lines().last().map(str::len), Some(GRAPH_COLUMNS));
    }
}
