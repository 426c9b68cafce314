//! What the jobs do, operation by operation, against what the tester's own code did.
//!
//! `facts.txt` was recorded by running the tester's source over a client that prints. A hash covers
//! the whole run, the lines its beginning.

use super::super::{Lcg, Value, job};
use super::fake::{Fake, Shared};
use std::collections::BTreeSet;

const FACTS: &str = include_str!("facts.txt");

struct Fact<'f> {
    job: &'f str,
    who: (u32, u32),
    limit: u64,
    expire_after: u64,
    params: String,
    ops: u64,
    /// `None` where the order of operations differs on purpose.
    hash: Option<u64>,
    row: &'f str,
    lines: Vec<&'f str>,
}

fn facts() -> Vec<Fact<'static>> {
    let fact = |text: &'static str| {
        let (head, rest) = text.split_once("]\n").unwrap();
        let (counts, lines) = rest.split_once('\n').unwrap();
        let mut head = head.split_whitespace();
        let job = head.next().unwrap();
        let mut next = |name: &str| {
            let (key, value) = head.next().unwrap().split_once('=').unwrap();
            assert_eq!(key, name);
            value
        };
        let (id, threads) = next("thread").split_once('/').unwrap();
        // -1 is none.
        let number = |text: &str| text.parse::<i64>().unwrap().cast_unsigned();
        let (limit, expire_after) = (number(next("limit")), number(next("expire")));
        let (counts, row) = counts.split_once(" row=").unwrap();
        let (ops, hash) = counts.split_once(" hash=").unwrap();
        Fact {
            job,
            who: (id.parse().unwrap(), threads.parse().unwrap()),
            limit,
            expire_after,
            params: head.collect::<Vec<_>>().join(" "),
            ops: ops.strip_prefix("ops=").unwrap().parse().unwrap(),
            hash: (hash != "-").then(|| u64::from_str_radix(hash, 16).unwrap()),
            row,
            lines: lines.lines().filter(|line| !line.is_empty()).collect(),
        }
    };
    FACTS.split("\n[").skip(1).map(fact).collect()
}

/// The counts, flags and texts of a row as JSON, as the facts have them; rates differ.
fn counts(row: &super::super::Row) -> String {
    let field = |(name, value): &(String, Value)| match value {
        _ if name == "total" => None,
        Value::Flag(flag) => Some(format!("\"{name}\":{flag}")),
        Value::Count(count) => Some(format!("\"{name}\":{count}")),
        Value::Text(text) => Some(format!("\"{name}\":\"{text}\"")),
        Value::Number(_) => None,
        Value::List(lines) => panic!("{name}: {lines:?}"),
    };
    let fields: Vec<String> = row.fields().iter().filter_map(field).collect();
    format!("{{{}}}", fields.join(","))
}

#[test]
fn every_job_does_what_the_tester_does() {
    let facts = facts();
    assert!(facts.len() > 80, "{}", facts.len());
    for fact in &facts {
        let what =
            format!("{} thread {}/{} limit {}", fact.job, fact.who.0, fact.who.1, fact.limit);
        let shared = Shared::new();
        let mut random = Lcg::default();
        prepare(fact, &shared);
        // The original always reads the parts of 16 threads.
        let parts = if fact.job == "rscale" { " parts=16" } else { "" };
        let mut client = Fake::new(&shared, fact.who).param(&format!("{}{parts}", fact.params));
        client.limit = fact.limit;
        client.expire_after = fact.expire_after;
        client.first = false;
        client.lines_max = fact.lines.len();
        job(fact.job).unwrap().run(&mut client, &mut random).unwrap();
        assert_eq!(client.lines, fact.lines, "{what}");
        assert_eq!(client.ops, fact.ops, "{what}");
        assert_eq!(counts(&client.row.unwrap()), fact.row, "{what}");
        if let Some(hash) = fact.hash {
            assert_eq!(client.hash, hash, "{what}");
        }
    }
}

/// Puts what a job reads and does not put.
fn prepare(fact: &Fact<'_>, shared: &std::sync::Arc<Shared>) {
    let writer = |name: &str, who| {
        let mut client = Fake::new(shared, who).param(&fact.params);
        client.limit = fact.limit;
        job(name).unwrap().run(&mut client, &mut Lcg::default()).unwrap();
    };
    match fact.job {
        "rscale" => (0..16).for_each(|id| writer("ruscale_init", (id, 16))),
        name if name.starts_with("rcol") => writer(&name.replacen('r', "w", 1), fact.who),
        _ => {}
    }
}

/// Every job is among the facts but those that the original does not have.
#[test]
fn the_facts_cover_all_jobs() {
    let recorded: BTreeSet<&str> = facts().iter().map(|fact| fact.job).collect();
    let known: BTreeSet<&str> = super::super::jobs().iter().map(|job| job.name).collect();
    let own: Vec<&&str> = known.difference(&recorded).collect();
    assert_eq!(own, [&"rw1b", &"rw1fixedb"]);
    assert!(recorded.is_subset(&known));
}

/// The batches hold the same keys in the same order as the single calls.
#[test]
fn the_batched_jobs_put_what_the_others_put() {
    for (name, batched) in [("rw1", "rw1b"), ("rw1fixed", "rw1fixedb")] {
        for limit in [0, 5, 31, 32, 999] {
            let puts = |name: &str| {
                let mut client = Fake::new(&Shared::new(), (1, 2));
                client.limit = limit;
                client.lines_max = 10_000;
                job(name).unwrap().run(&mut client, &mut Lcg::default()).unwrap();
                let (mut gets, puts): (Vec<String>, Vec<String>) =
                    client.lines.into_iter().partition(|line| line.starts_with("get"));
                gets.sort_unstable();
                (puts, gets, counts(&client.row.unwrap()))
            };
            assert_eq!(puts(name), puts(batched), "{name} limit {limit}");
        }
    }
}
