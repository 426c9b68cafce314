//! What is said of a point beside its numbers: flags, which are reasons to doubt it, and notes,
//! which are none.

use keyrack_record::{FieldValue, Pace, Point, Repeat, ThreadRow};

/// Repeats whose rate was not steady, one line for all.
pub(super) fn unsteady(repeats: &[Repeat]) -> Option<String> {
    let paces: Vec<&Pace> = repeats.iter().filter_map(|repeat| repeat.pace.as_ref()).collect();
    let wild: Vec<&&Pace> = paces.iter().filter(|pace| pace.is_steady == Some(false)).collect();
    let worst = wild.first()?;
    let number = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.2}"));
    Some(format!(
        "NOT STEADY: {} of {} repeats; the first: last to first windows {}, variation {}",
        wild.len(),
        paces.len(),
        number(worst.drift),
        number(worst.variation)
    ))
}

/// What a reader must know of a point before believing it.
pub(super) fn flags(point: &Point) -> Vec<String> {
    let mut flags = Vec::new();
    for op in &point.summary.ops {
        let errors: u64 = point
            .repeats
            .iter()
            .flat_map(|r| &r.ops)
            .filter(|o| o.op == op.op)
            .map(|o| o.errors)
            .sum();
        if errors > 0 {
            let first = point.first_error(&op.op).unwrap_or("no text");
            flags.push(format!("ERRORS: {errors} of {} failed: {first}", op.op));
        }
    }
    flags.extend(point.open_loop().and_then(|open| open.missed_text()));
    flags.extend(point.repeats.iter().flat_map(|repeat| &repeat.rows).filter_map(wrong_row));
    flags
}

/// What a job found wrong and went on: its row says that not all was well, and why.
fn wrong_row(row: &ThreadRow) -> Option<String> {
    if row.get("ok") != Some(&FieldValue::Flag(false)) {
        return None;
    }
    let why = match (row.get("errors"), row.get("error")) {
        (Some(FieldValue::List(errors)), _) if errors.len() > 1 => {
            format!("{} errors, the first: {}", errors.len(), errors[0])
        }
        (Some(FieldValue::List(errors)), _) => errors.concat(),
        (_, Some(FieldValue::Text(error))) => error.clone(),
        _ => "no reason given".to_owned(),
    };
    Some(format!("WRONG: {} on thread {}: {why}", row.test, row.thread))
}

/// The key traces, one line for all repeats that agree, as those of one seed do.
pub(super) fn trace_notes(repeats: &[Repeat]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (thread, hash) in repeats.iter().flat_map(|repeat| repeat.trace_hashes.iter().enumerate()) {
        let note = format!("keys of thread {thread}: {hash:016x}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// What was written into a trace.
pub(super) fn recorded(summary: &keyrack_trace::Summary) -> String {
    let keyrack_trace::Summary { records, file_bytes, waits } = *summary;
    let waited = match waits {
        0 => String::new(),
        waits => format!("; workers waited {waits} times for the file, so rates are lower"),
    };
    format!("recorded {records} operations in {file_bytes} bytes{waited}")
}
