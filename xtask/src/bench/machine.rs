//! What a record says of the machine and of the build, and the name of its folder.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::definition::Claim;
use crate::workspace::Workspace;

/// `DATE-MACHINE`: the day in UTC and the processor with its number of CPUs.
pub(super) fn stamp() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{}-{}-{}cpu", date(seconds / 86_400), slug(&model()), cpus())
}

/// One fact a line: name, tab, value.
pub(super) fn facts(workspace: &Workspace, binary: &Path, claim: &Claim) -> String {
    let said = |program: &Path, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    };
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let memory = file("/proc/meminfo").lines().next().unwrap_or_default().to_owned();
    let memory = memory.split_whitespace().nth(1).unwrap_or("unknown").to_owned();
    let rows = [
        ("cpu", model()),
        ("cpus", cpus().to_string()),
        ("memory_kib", memory),
        ("kernel", said(Path::new("uname"), "-srm")),
        ("load", file("/proc/loadavg")),
        ("commit", workspace.commit().unwrap_or_else(|| "unknown".to_owned())),
        ("keyrack", said(binary, "--version").lines().next().unwrap_or_default().to_owned()),
        ("rustc", said(Path::new("rustc"), "--version")),
        ("features", claim.features.clone()),
        ("rustflags", claim.rustflags.clone()),
    ];
    let mut text = String::from("fact\tvalue\n");
    for (name, value) in rows {
        text += &format!("{name}\t{}\n", value.replace(['\t', '\n'], " "));
    }
    text
}

fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Letters and digits, in lower case, with single dashes between.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// The day `YYYY-MM-DD` that is so many days after the first of 1970, by the civil calendar: years
/// begin in March, so that the leap day is the last of its year, and repeat every 400.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_454, "2026-01-01"),
            (20_453, "2025-12-31"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn a_folder_is_named_in_plain_letters() {
        assert_eq!(slug("AMD EPYC 9R45 (TM)  @ 2.6"), "amd-epyc-9r45-tm-2-6");
        let stamp = stamp();
        assert!(stamp.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{stamp}");
    }
}
