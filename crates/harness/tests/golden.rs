//! A whole run on a fake clock: the same record, and the same reports to the byte.
//!
//! Each reading of the clock is 25 ns after the one before, so every call takes 25 ns. Processor
//! time is the machine's and is masked. `KEYRACK_REWRITE=1` writes the golden file anew.

use crate::support::Bench;
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "
local K, V = kb.zipf{n = 1000, fmt = 'user%06d'}, kb.values{size = 100}
local M = kb.mix{get = 70, put = 20, del = 10}
return { name = 'golden', batched = true,
  load = function(ctx) for i = 0, 99 do kv.put(K:at(i), V) end end,
  run = function(ctx, iter)
    local verb = M()
    if verb == 'get' then kv.get(K) elseif verb == 'put' then kv.put(K, V) else kv.del(K) end
    if iter % 10 == 0 then kv.mget(K, ctx.batch) end
    if iter % 100 == 0 then kb.time('checkout', kv.count, 'a', nil) end
  end }";

fn reports() -> String {
    let bench = Bench::new(SCRIPT)
        .set(&[
            ("backend", "null"),
            ("batch", "1,16"),
            ("ops", "1000"),
            ("repeat", "3"),
            ("trace-hash", "yes"),
            ("report", "console,tsv:/points.tsv"),
        ])
        .engine("null", &[("rows_per_scan", "3")])
        .fake_clock();
    let (record, console) = bench.run_outputs();
    assert!(record.unwrap().failures.is_empty());
    let tsv = bench.fs.read_to_string(Path::new("/points.tsv")).unwrap();
    format!("{}\n--- points.tsv ---\n{}", mask_console(&console), mask_tsv(&tsv))
}

fn mask_console(text: &str) -> String {
    let mask = |line: &str| match line.split_once(", cpu ") {
        Some((before, _)) => format!("{before}, cpu - us/unit\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(mask).collect()
}

/// Empties the column of processor time.
fn mask_tsv(text: &str) -> String {
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let column = head.split('\t').position(|name| name == "cpu_us_per_unit").unwrap();
    let mut out = format!("{head}\n");
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let masked: Vec<&str> =
            fields.iter().enumerate().map(|(i, f)| if i == column { "-" } else { f }).collect();
        out.push_str(&masked.join("\t"));
        out.push('\n');
    }
    out
}

#[test]
fn a_run_on_a_fake_clock_is_the_same_to_the_byte() {
    let found = reports();
    assert_eq!(found, reports());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/null.txt");
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        RealFs.write_atomic(&path, found.as_bytes()).unwrap();
    }
    let expected = RealFs.read_to_string(&path).unwrap();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}; KEYRACK_REWRITE=1 accepts it", number + 1);
    }
    assert_eq!(found.len(), expected.len());
}
