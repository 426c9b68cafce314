//! Called as `db_bench`: LevelDB's command line, and its lines, since people's scripts read them.

use crate::support::{Lab, Outcome};

const SMALL: &str = "--num=2000 --db=st";

#[track_caller]
fn db_bench(lab: &Lab, line: &str) -> Outcome {
    lab.called("db_bench", line)
}

/// The lines below the rule.
fn lines(out: &Outcome) -> Vec<&str> {
    let lines: Vec<&str> = out.stdout.lines().collect();
    let rule = lines.iter().position(|line| *line == "-".repeat(48));
    lines[rule.unwrap_or_else(|| panic!("no rule in {}", out.told())) + 1..].to_vec()
}

#[track_caller]
fn micros(line: &str, name: &str) -> f64 {
    let rest = line.strip_prefix(&format!("{name:<12} : "));
    let Some(rest) = rest else { panic!("{line} is not of {name}") };
    let (number, _) = rest.split_once(" micros/op;").unwrap_or_else(|| panic!("{line}"));
    number.trim().parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn the_head_and_a_line_for_each_benchmark() {
    let lab = Lab::new();
    let list = "fillseq,fillsync,fillrandom,overwrite,readrandom,readseq,readreverse,compact,\
                readrandom,fill100K,readmissing,seekrandom,seekordered,deleteseq,readhot,fillbatch,\
                deleterandom,readwhilewriting,open";
    let out = db_bench(&lab, &format!("{SMALL} --benchmarks={list}")).exits(0);
    assert_eq!(out.stderr, "");
    let head: Vec<&str> = out.stdout.lines().map(|line| line.split(':').next().unwrap()).collect();
    let expected = ["Keyrack", "Date", "CPU", "CPUCache", "Keys", "Values", "Entries", "RawSize"];
    assert_eq!(head[..8], expected, "{}", out.told());
    let out = out.says("Keys:       16 bytes each\n").says("Entries:    2000\n");
    let lines = lines(&out);
    let names: Vec<&str> = list.split(',').collect();
    assert_eq!(lines.len(), names.len(), "{}", out.told());
    for (line, name) in lines.iter().zip(&names) {
        assert!(micros(line, name) > 0.0, "{line}");
        let moves = ["fill", "overwrite", "readseq", "readreverse"];
        let moved = moves.iter().any(|part| name.starts_with(part));
        assert_eq!(line.contains(" MB/s"), moved, "{line}");
    }
    assert!(lines[1].ends_with(" (2 ops)"), "{}", lines[1]);
    // Of 2000 keys, 2000 draws leave 1264, and 4000 draws 1729, give or take 20.
    let found: u64 =
        lines[4].split_once('(').unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!((1600..1850).contains(&found) && lines[4].ends_with(" of 2000 found)"), "{}", lines[4]);
    assert!(lines[10].ends_with("(0 of 2000 found)"), "{}", lines[10]);
}

#[test]
fn codecs_and_checksums_say_what_they_did() {
    let lab = Lab::new();
    let out = db_bench(
        &lab,
        "--num=10 --db=st --benchmarks=crc32c,snappycomp,snappyuncomp,zstdcomp,zstduncomp",
    );
    let out = out.exits(0);
    let lines = lines(&out);
    assert!(micros(lines[0], "crc32c") > 0.0 && lines[0].ends_with(" MB/s (4K per op)"));
    assert!(lines[1].contains(" MB/s (output: ") && lines[1].ends_with("%)"), "{}", lines[1]);
    assert!(micros(lines[2], "snappyuncomp") > 0.0 && lines[2].ends_with(" MB/s"));
    assert!(lines[3].contains(" MB/s (output: "), "{}", lines[3]);
    assert!(micros(lines[4], "zstduncomp") > 0.0, "{}", lines[4]);
}

#[test]
fn a_store_says_what_it_is_made_of() {
    let lab = Lab::new();
    let out = db_bench(&lab, &format!("{SMALL} --benchmarks=fillseq,compact,stats,sstables"));
    let out = out.exits(0).says("                               Compactions\n");
    let out = out.says("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n");
    let tables: Vec<&str> = out.stdout.lines().filter(|line| line.contains("' @ ")).collect();
    let [table] = tables.as_slice() else { panic!("{}", out.told()) };
    assert!(table.contains("['0000000000000000' @ "), "{table}");
    assert!(table.contains(" : 1 .. '0000000000001999' @ ") && table.ends_with(" : 1]"), "{table}");
}

#[test]
fn a_store_that_is_there_is_used_or_replaced() {
    let lab = Lab::new();
    db_bench(&lab, &format!("{SMALL} --benchmarks=fillseq")).exits(0);
    assert!(lab.exists("st/CURRENT"));
    let out = db_bench(
        &lab,
        &format!("{SMALL} --use_existing_db=1 --benchmarks=fillrandom,readrandom --threads=2"),
    );
    let out = out.exits(0);
    let lines = lines(&out);
    assert_eq!(lines[0], "fillrandom   : skipped (--use_existing_db is true)");
    assert!(lines[1].ends_with("(4000 of 4000 found)"), "{}", lines[1]);
    let out = db_bench(&lab, &format!("{SMALL} --benchmarks=readrandom")).exits(0);
    assert!(self::lines(&out)[0].ends_with("(0 of 2000 found)"), "{}", out.told());
    lab.write("st/note.txt", "mine");
    db_bench(&lab, &format!("{SMALL} --benchmarks=fillseq")).exits(0);
    assert!(lab.exists("st/note.txt"), "what is not of the store stays");
}

#[test]
fn histograms_count_every_operation() {
    let lab = Lab::new();
    let line = format!("{SMALL} --histogram=1 --benchmarks=fillseq,readrandom");
    let out = db_bench(&lab, &line).exits(0);
    assert_eq!(out.stdout.matches("Microseconds per op:\nCount: 2000  Average: ").count(), 2);
    let lines = lines(&out);
    assert!(lines[1] == "Microseconds per op:" && lines[3].starts_with("Min: "), "{}", out.told());
    let last = lines.iter().rfind(|line| line.starts_with("[ ")).unwrap();
    assert!(last.contains(" 100.000% "), "{last}");
    let readrandom = lines.iter().find(|line| line.starts_with("readrandom")).unwrap();
    assert!(readrandom.ends_with("(2000 of 2000 found)"), "{readrandom}");
}

#[test]
fn flags_reach_the_engine_and_what_cannot_be_is_refused() {
    let lab = Lab::new();
    let line = format!(
        "{SMALL} --benchmarks=fillseq,compact,readseq --compression=1 --write_buffer_size=65536 \
         --max_file_size=65536 --block_size=1024 --cache_size=1048576 --bloom_bits=10 \
         --open_files=500 --reuse_logs=1 --comparisons=0"
    );
    let out = db_bench(&lab, &line).exits(0);
    assert_eq!(out.stderr.matches(" has no meaning here: ").count(), 2, "{}", out.told());
    let refused = |line: &str, words: &str| {
        let out = db_bench(&lab, line);
        assert!(out.stdout.is_empty() || !out.stdout.contains("micros/op"), "{}", out.told());
        out.exits(1).warns(words);
    };
    refused("--benchmarks=fillsq", "unknown benchmark 'fillsq'; did you mean 'fillseq'?");
    refused(&format!("{SMALL} --max_file_size=9"), "table_bytes must be at least 65536 (got 9)");
    refused("--nums=9", "unknown option '--nums'");
}
