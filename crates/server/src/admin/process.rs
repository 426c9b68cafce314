//! The process as Linux shows it in `/proc`, under the names of Prometheus' client libraries. A
//! number that the system does not show is absent.

use keyrack_measure::usage;
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;

/// Ticks of `/proc/self/stat` in a second, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// Gives each number to `visit`: its name, whether it only grows, its meaning, and its value.
pub(super) fn visit(visit: &mut dyn FnMut(&'static str, bool, &'static str, f64)) {
    let usage = usage::process();
    let cpu_seconds = (usage.user_ns + usage.system_ns) as f64 / 1e9;
    visit("process_cpu_seconds_total", true, "Processor time in seconds.", cpu_seconds);
    let status = text("/proc/self/status");
    if let Some(kib) = number_after(&status, "VmSize:") {
        visit("process_virtual_memory_bytes", false, "Virtual memory in bytes.", kib * 1024.0);
    }
    if let Some(kib) = number_after(&status, "VmRSS:") {
        visit("process_resident_memory_bytes", false, "Resident memory in bytes.", kib * 1024.0);
    }
    if let Some(threads) = number_after(&status, "Threads:") {
        visit("process_threads", false, "Threads.", threads);
    }
    if let Ok(entries) = RealFs.list(Path::new("/proc/self/fd")) {
        // One of them was open to list them.
        let open = entries.len().saturating_sub(1) as f64;
        visit("process_open_fds", false, "Open file descriptors.", open);
    }
    if let Some(most) = number_after(&text("/proc/self/limits"), "Max open files") {
        visit("process_max_fds", false, "File descriptors that may be open.", most);
    }
    if let Some(seconds) = start_seconds(&text("/proc/self/stat"), &text("/proc/stat")) {
        let help = "When the process started, in seconds since 1970.";
        visit("process_start_time_seconds", false, help, seconds);
    }
}

/// Empty if the system has no such file.
fn text(path: &str) -> String {
    let bytes = RealFs.read(Path::new(path)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first number after `name`, where that begins a line.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The start of the process, in seconds since 1970: ticks since the machine started, and when that
/// was.
fn start_seconds(of_process: &str, of_machine: &str) -> Option<f64> {
    // The name in parentheses may hold anything; the 20th field after it is the start.
    let (_, fields) = of_process.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    Some(number_after(of_machine, "btime")? + ticks / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmSize:\t     123 kB\nThreads:\t4\n";
        assert_eq!(number_after(status, "VmSize:"), Some(123.0));
        let limits = "Limit   Soft\nMax open files            1024     1048576   files\n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024.0));
        assert_eq!(number_after("Max open files  unlimited", "Max open files"), None);
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 250 20";
        assert_eq!(start_seconds(stat, "cpu 1\nbtime 1000\n"), Some(1002.5));
        assert_eq!(start_seconds("", ""), None);
    }
}
