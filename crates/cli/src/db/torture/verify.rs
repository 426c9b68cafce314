//! `torture verify`: is what was acknowledged there?
//!
//! Each key is read by itself and met by a scan over the whole store; both must give the state of
//! its acknowledged version, or of the next one, and nothing else may be there.

use super::acks::Acks;
use super::script::{KEYS, key_of, name, value, version_of};
use super::subject::{Engine, Subject};
use keyrack_console::{Failure, Outcome, say};
use std::path::Path;

/// Faults that are told one by one.
const TOLD_MAX: usize = 10;

pub(super) fn run(engine: Engine, dir: &Path, ackfile: &Path) -> Outcome {
    let acks = Acks::read(ackfile)?;
    let faults = match engine.open_there(dir, acks.lines)? {
        Some(store) => {
            let faults = check(&*store, &acks)?;
            store.close()?;
            faults
        }
        // Killed before there was a store: then nothing was acknowledged.
        None if acks.lines == 0 => Vec::new(),
        None => vec![format!("{}: there is no store", dir.display())],
    };
    for fault in faults.iter().take(TOLD_MAX) {
        say!("{fault}");
    }
    if faults.is_empty() {
        return Ok(keyrack_console::print(&format!(
            "{} acknowledged writes, all there\n",
            acks.lines
        )));
    }
    Err(Failure::Failed(format!(
        "{}: {} faults with {} acknowledged writes",
        dir.display(),
        faults.len(),
        acks.lines
    )))
}

/// Everything that is not as it was acknowledged.
fn check(store: &dyn Subject, acks: &Acks) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let mut known = Vec::new();
    for key in 0..KEYS {
        let acknowledged = acks.versions[key as usize];
        let found = store.get(name(key).as_bytes())?;
        if found != value(key, acknowledged) && found != value(key, acknowledged + 1) {
            let is = described(key, found.as_deref());
            faults.push(format!("{}: version {acknowledged} was acknowledged, {is}", name(key)));
        }
        known.push(found);
    }
    store.scan(&mut |bytes, found| match key_of(bytes) {
        None => faults.push(format!("'{}' was never written", bytes.escape_ascii())),
        Some(key) if known[key as usize].take().as_deref() != Some(found) => {
            let is = described(key, Some(found));
            faults.push(format!("{}: a scan differs from a get; there {is}", name(key)));
        }
        Some(_) => {}
    })?;
    let missed = known.iter().zip(0..).filter(|(left, _)| left.is_some());
    faults.extend(missed.map(|(_, key)| format!("{}: a scan misses it", name(key))));
    Ok(faults)
}

fn described(key: u32, found: Option<&[u8]>) -> String {
    match found.map(|bytes| version_of(key, bytes)) {
        None => "it is not there".to_owned(),
        Some(None) => "there is something that was never written".to_owned(),
        Some(Some(version)) => format!("version {version} is there"),
    }
}
