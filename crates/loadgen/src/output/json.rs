//! The report as JSON; `docs/formats/load.md` is its page.

use keyrack_hdr as hdr;
use keyrack_measure::Histogram;
use serde_json::{Value, json};

use super::table::{deviation, headline};
use crate::account::{Account, AgentRate, Report, Second};
use crate::plan::Settings;
use crate::target::Class;

/// The version of the format: another number where a reader would be wrong.
const FORMAT: u32 = 1;
const PERCENTILES: [(&str, f64); 9] = [
    ("p1", 1.0),
    ("p5", 5.0),
    ("p10", 10.0),
    ("p50", 50.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p99_9", 99.9),
    ("p99_99", 99.99),
];

/// The report, with what was asked for.
#[must_use]
pub fn json(report: &Report, settings: &Settings) -> Value {
    let account = &report.account;
    let errors = account.errors.iter();
    let errors = errors.map(
        |(class, count, words)| json!({"class": class.name(), "count": count, "first": words}),
    );
    let threads = report.threads.iter();
    let threads = threads.map(|used| json!({"cpu_s": used.cpu_s, "wall_s": used.wall_s}));
    json!({
        "format": FORMAT,
        "agents": report.agents.iter().map(agent_of).collect::<Vec<_>>(),
        "master": report.master.as_deref().map(master_of),
        "settings": settings_of(settings),
        "window_s": report.window_s,
        "qps": report.rate(),
        "offered_qps": report.offered_rate,
        "loop": if report.offered_rate.is_some() { "open" } else { "closed" },
        "counts": counts_of(report),
        "classes": classes_of(account, settings),
        "delay": (!account.delay.is_empty()).then(|| latency(&account.delay)),
        "errors": errors.collect::<Vec<_>>(),
        "troubles": report.troubles,
        "series": report.series.iter().map(second_of).collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "interrupted": report.is_interrupted,
        "load_s": report.load_s,
    })
}

fn agent_of(agent: &AgentRate) -> Value {
    json!({
        "name": agent.name,
        "offered_qps": agent.offered_per_s,
        "qps": agent.achieved_per_s,
    })
}

/// The latencies that the master of agents measured itself.
fn master_of(master: &Account) -> Value {
    json!({
        "ops": master.counts.ops,
        "read": latency(&master.tally(Class::Read).response),
        "update": latency(&master.tally(Class::Update).response),
    })
}

fn second_of(second: &Second) -> Value {
    json!({
        "end_s": second.end_s,
        "length_s": second.length_s,
        "offered_qps": second.offered_per_s,
        "ops": second.ops,
        "misses": second.misses,
        "errors": second.errors,
        "latency": latency(&second.latency),
    })
}

fn classes_of(account: &Account, settings: &Settings) -> serde_json::Map<String, Value> {
    let used = Class::ALL.into_iter().filter(|class| !account.tally(*class).response.is_empty());
    let classes = used.map(|class| {
        let tally = account.tally(class);
        let service = (!tally.service.is_empty()).then(|| latency(&tally.service));
        let value = json!({
            "headline": latency(headline(account, class, settings)),
            "response": latency(&tally.response),
            "service": service,
            "response_hdr": hdr::export(&tally.response),
        });
        (class.name().to_owned(), value)
    });
    classes.collect()
}

fn settings_of(settings: &Settings) -> Value {
    json!({
        "servers": settings.servers,
        "protocol": settings.protocol.name(),
        "threads": settings.threads,
        "connections": settings.connections,
        "depth": settings.depth,
        "qps": settings.rate,
        "time_s": settings.time_s,
        "queries": settings.queries,
        "warmup_s": settings.warmup_s,
        "records": settings.records,
        "sharding": settings.sharding.name(),
        "keysize": settings.keysize,
        "valuesize": settings.valuesize,
        "iadist": settings.iadist,
        "popularity": settings.popularity,
        "update": settings.update,
        "mget": settings.mget,
        "seed": settings.seed,
    })
}

fn counts_of(report: &Report) -> Value {
    let counts = &report.account.counts;
    json!({
        "ops": counts.ops,
        "ops_in_time": counts.ops_in_time,
        "offered": counts.offered,
        "gets": counts.gets,
        "misses": counts.misses,
        "sets": counts.sets,
        "not_stored": counts.not_stored,
        "fills": counts.fills,
        "purged": counts.purged,
        "skipped": counts.skipped,
        "unanswered": counts.unanswered,
        "unsent": counts.unsent,
        "backlog": counts.backlog,
        "verified": counts.verified,
        "received_bytes": counts.received_bytes,
        "sent_bytes": counts.sent_bytes,
        "broken": counts.broken,
        "reconnects": counts.reconnects,
        "moved": counts.moved,
        "asked": counts.asked,
        "tier_misses": counts.tier_misses,
        "copies": counts.copies,
        "loaded": report.loaded,
    })
}

/// A histogram in nanoseconds; percentiles are `null` where there is none.
fn latency(values: &Histogram) -> Value {
    let mut fields = serde_json::Map::new();
    fields.insert("count".to_owned(), json!(values.count()));
    fields.insert("mean_ns".to_owned(), json!(values.mean()));
    fields.insert("stddev_ns".to_owned(), json!(deviation(values)));
    fields.insert("min_ns".to_owned(), json!(values.min()));
    for (name, percentile) in PERCENTILES {
        fields.insert(format!("{name}_ns"), json!(values.percentile(percentile)));
    }
    fields.insert("max_ns".to_owned(), json!(values.max()));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_place_and_none_is_missing_silently() {
        let mut report = Report { window_s: 2.0, offered_rate: Some(10.0), ..Report::default() };
        report.account.tally_mut(Class::Read).response.record_n(1500, 20);
        report.account.counts.ops_in_time = 20;
        let value = json(&report, &Settings { rate: 10.0, ..Settings::default() });
        assert_eq!(value["qps"], 10.0);
        assert_eq!(value["loop"], "open");
        assert_eq!(value["classes"]["read"]["response"]["p99_ns"], 1500);
        assert_eq!(value["classes"]["read"]["service"], Value::Null);
        assert_eq!(value["classes"]["update"], Value::Null);
        let encoded = value["classes"]["read"]["response_hdr"].as_str().unwrap();
        assert_eq!(hdr::import(encoded).unwrap().count(), 20);
    }
}
