//! The log of the server: one line an event on standard error.
//!
//! ```text
//!   text   2026-01-02T03:04:05Z  WARN a client gave a wrong password protocol="redis" peer="..."
//!   json   {"time":"2026-01-02T03:04:05Z","level":"warn","message":"...","protocol":"redis",...}
//! ```

use keyrack_server::LogFormat;
use serde_json::{Map, Value};
use std::fmt;
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The time as in records of runs.
struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&keyrack_calendar::rfc3339_now())
    }
}

/// Events as objects of JSON, in the order in which their fields stand.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields(Map::new());
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        fields.put("time", keyrack_calendar::rfc3339_now());
        fields.put("level", level);
        event.record(&mut fields);
        writeln!(writer, "{}", Value::Object(fields.0))
    }
}

/// The fields of an event.
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }
}

/// Sends events of `level` and above to standard error from now on.
pub fn start(level: Level, format: LogFormat) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
    // It fails when there is a log already, which then goes on.
    let _ = match format {
        LogFormat::Text => log
            .with_ansi(std::io::stderr().is_terminal())
            .with_timer(Stamp)
            .with_target(false)
            .try_init(),
        LogFormat::Json => log.event_format(Json).try_init(),
    };
}
