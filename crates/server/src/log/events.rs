//! The table of events: the name, the level, the fields and the meaning of each, and the function
//! that writes it.
//!
//! A row makes a function of its fields, so a field has one type wherever the event is written:
//! `text` of the server's own, `bytes` of a client (escaped, and cut at 128), those that were `cut`
//! before, and a `count`, whose unit ends its name. docs/serve.md lists the same rows, and a test
//! compares them.

use super::line::Value;
use super::{EventFacts, LogLevel, Rate, emit};

macro_rules! kind {
    (text) => {
        &str
    };
    (bytes) => {
        &[u8]
    };
    (cut) => {
        &[u8]
    };
    (count) => {
        u64
    };
}

macro_rules! value {
    (text, $value:expr) => {
        Value::Text($value)
    };
    (bytes, $value:expr) => {
        Value::Bytes($value)
    };
    (cut, $value:expr) => {
        Value::Cut($value)
    };
    (count, $value:expr) => {
        Value::Count($value)
    };
}

macro_rules! events {
    ($($function:ident $name:literal $level:ident $rate:ident { $($field:ident: $kind:ident),* }
        $meaning:literal;)*) => {
        /// The places of events in the table.
        #[expect(non_camel_case_types, reason = "named as the functions")]
        #[derive(Clone, Copy)]
        enum Place { $($function),* }

        /// All events.
        pub static EVENTS: [EventFacts; COUNT] = [$(EventFacts {
            name: $name,
            level: LogLevel::$level,
            rate: Rate::$rate,
            fields: &[$(stringify!($field)),*],
            meaning: $meaning,
        }),*];

        /// Those that are about lines that were not written.
        pub(super) const REPORTS: [usize; 2] =
            [Place::left_out as usize, Place::lines_lost as usize];

        /// How many there are.
        pub(super) const COUNT: usize = [$($name),*].len();

        $(#[doc = $meaning]
        pub fn $function($($field: kind!($kind)),*) {
            emit(Place::$function as usize, &[$(value!($kind, $field)),*]);
        })*
    };
}

events! {
    start "start" Info Unlimited { version: text, pid: count, settings: text }
        "The process starts with these settings; passwords are not among them.";
    loading "loading" Info Unlimited { percent: count, rows: count }
        "A tenth of the recovery of rows is done.";
    store_open "store-open" Info Unlimited { engine: text, rows: count, duration_ms: count }
        "The rows are open.";
    ready "ready" Info Unlimited { addresses: text }
        "The server listens on these addresses.";
    stop_begun "stop-begun" Info Unlimited { reason: text }
        "The server ends: it reads nothing more.";
    stop_ended "stop-ended" Info Unlimited { duration_ms: count }
        "The replies are sent, and the rows are closed.";
    server_failed "server-failed" Error Unlimited { cause: text }
        "The server cannot go on, and ends.";
    rows_in_use "rows-in-use" Warn Unlimited {}
        "The rows were still in use at the end, and were not closed.";
    disk_full "disk-full" Error Unlimited { cause: text }
        "The log cannot be written; replies wait until it can be.";
    disk_full_ended "disk-full-ended" Info Unlimited { duration_ms: count }
        "The log can be written again.";
    command_failed "command-failed" Error Limited { cause: text }
        "The store failed a command, because of the machine or of damage.";
    memory_full "memory-full" Warn Limited { cause: text }
        "Rows need more than memory-max, and a write was refused.";
    checkpoint_begun "checkpoint-begun" Info Unlimited {}
        "A checkpoint is being written.";
    checkpoint_ended "checkpoint-ended" Info Unlimited {
        rows: count, bytes: count, duration_ms: count
    }
        "A checkpoint is complete.";
    checkpoint_failed "checkpoint-failed" Error Unlimited { cause: text, duration_ms: count }
        "A checkpoint could not be written; the one before stays valid.";
    evicted "evicted" Info Unlimited { rows: count, total: count }
        "Rows were removed at memory-max since the last such line, which is 10 s ago or more.";
    flush_all_failed "flush-all-failed" Error Unlimited { cause: text }
        "A delayed flush_all of memcached could not remove the rows.";
    stale_item_kept "stale-item-kept" Error Limited { cause: text }
        "The item of a value that was too large could not be removed.";
    auth_refused "auth-refused" Warn Limited { protocol: text, peer: text, user: bytes }
        "A client gave a wrong password, or an unknown user.";
    slow_command "slow-command" Warn Limited {
        protocol: text, peer: text, command: text, key: cut, duration_us: count
    }
        "A command took longer than slowlog-log-slower-than.";
    protocol_error "protocol-error" Warn Limited { protocol: text, peer: text, cause: text }
        "A client broke its protocol, and its connection is closed.";
    connection_refused "connection-refused" Warn Limited { protocol: text, open: count }
        "A client was refused: there are connections-max, or no memory or descriptor is left.";
    request_too_large "request-too-large" Warn Limited { protocol: text, peer: text }
        "A request exceeded request-max, or what may come before AUTH; its connection is closed.";
    clients_memory_full "clients-memory-full" Warn Limited { protocol: text, peer: text }
        "Connections hold clients-memory-max; the one that needed more is closed.";
    output_stalled "output-stalled" Warn Limited { protocol: text, peer: text }
        "A client read nothing for stalled-output-timeout; its connection is closed.";
    output_full "output-full" Warn Limited { protocol: text, peer: text, bytes: count }
        "A client of MONITOR read too slowly; its connection is closed.";
    request_late "request-late" Warn Limited { protocol: text, peer: text }
        "A request stayed incomplete for request-timeout; its connection is closed.";
    tls_failed "tls-failed" Warn Limited { protocol: text, peer: text }
        "A client did not speak TLS, or broke it; its connection is closed.";
    connection_opened "connection-opened" Debug Limited { protocol: text, peer: text }
        "A client connected.";
    connection_closed "connection-closed" Debug Limited { protocol: text, peer: text, reason: text }
        "A connection was closed, for a reason of keyrack_net_closed_total.";
    left_out "left-out" Warn Unlimited { of: text, lines: count }
        "Lines of an event were not written: there were more than 10 in 10 s.";
    lines_lost "lines-lost" Warn Unlimited { lines: count }
        "Lines were lost: standard error was not read, and 1 MiB of lines waited.";
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/serve.md");

    #[test]
    fn the_page_has_the_rows_of_the_table() {
        let start = PAGE.find("| event | level |").unwrap();
        let rows: Vec<&str> =
            PAGE[start..].lines().take_while(|line| line.starts_with('|')).skip(2).collect();
        let wanted: Vec<String> = EVENTS
            .iter()
            .map(|event| {
                let fields: Vec<String> =
                    event.fields.iter().map(|field| format!("`{field}`")).collect();
                format!(
                    "| `{}`{} | {} | {} | {} |",
                    event.name,
                    if event.rate == Rate::Limited { " *" } else { "" },
                    event.level.name(),
                    fields.join(", "),
                    event.meaning
                )
            })
            .collect();
        assert_eq!(rows, wanted);
    }

    #[test]
    fn names_are_distinct_words() {
        let mut names: Vec<&str> = EVENTS.iter().map(|event| event.name).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT);
        assert!(EVENTS.iter().all(|event| event.meaning.ends_with('.')));
    }
}
