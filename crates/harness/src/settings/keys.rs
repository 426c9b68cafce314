//! The table of settings: names, forms and help, from which flags and files are read.

/// How a key takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `--key VALUE`, once.
    Value(&'static str),
    /// `--key VALUE`, any number of times.
    Repeated(&'static str),
    /// `--key`; in a file `key = yes`. A flag `--no-KEY` takes back `--KEY`, the later one counts.
    Flag,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The flag without dashes; in files `-` is written `_`.
    pub name: &'static str,
    /// One letter, where there is one.
    pub short: Option<char>,
    /// What it takes.
    pub form: Form,
    /// The help heading it stands under.
    pub group: &'static str,
    /// One or two sentences for `--help`.
    pub help: &'static str,
    /// Whether a configuration file may hold it.
    pub in_file: bool,
}

const fn key(group: &'static str, name: &'static str, form: Form, help: &'static str) -> Key {
    Key { name, short: None, form, group, help, in_file: true }
}

const fn flag_only(group: &'static str, name: &'static str, form: Form, help: &'static str) -> Key {
    Key { name, short: None, form, group, help, in_file: false }
}

const WORK: &str = "Work";
const GRID: &str = "Grid";
const TRACE: &str = "Traces";
const LOOP: &str = "Open loop";
const STORE: &str = "Stores";
const OUT: &str = "Output";
const SCRIPT: &str = "Scripts";

use Form::{Flag, Repeated, Value};

/// All settings, in the order of `--help`.
pub const KEYS: &[Key] = &[
    key(
        GRID,
        "backend",
        Value("LIST"),
        "Engines to run, comma-separated: names, or URLs of servers such as redis://HOST:PORT \
         [default: the engines that store in memory]",
    ),
    key(GRID, "threads", Value("LIST"), "Worker threads, comma-separated [default: 1]"),
    key(
        GRID,
        "batch",
        Value("LIST"),
        "Batch sizes, for workloads that return batched = true [default: 1]",
    ),
    key(
        GRID,
        "depth",
        Value("N"),
        "Requests that each session of a server may have under way, at most 65536: puts return \
         before their answer is there [default: 1]",
    ),
    key(GRID, "repeat", Value("N"), "Measure every cell N times and report medians [default: 1]"),
    key(
        GRID,
        "order",
        Value("ORDER"),
        "Order of the measurements: interleave (engines take turns within each cell), engine (one \
         after the other) or shuffle [default: interleave when repeat > 1, else engine]",
    ),
    key(GRID, "seed", Value("N"), "Base seed of everything random [default: 1]"),
    key(
        WORK,
        "ops",
        Value("N"),
        "Units per cell over all threads; for a job the limit of each thread [default: 200000, for \
         jobs 10 s]",
    ),
    key(WORK, "secs", Value("S"), "Run every cell for S seconds instead of a count"),
    key(
        WORK,
        "limit",
        Value("N"),
        "Limit of operations of each thread of a job, beside --secs [default: none]",
    ),
    key(
        WORK,
        "timing",
        Value("BOOL"),
        "Time each operation of a job by itself; no: only its phases [default: yes]",
    ),
    key(
        WORK,
        "warmup",
        Value("S"),
        "Seconds of work before each timed phase that count for nothing [default: 0]",
    ),
    key(
        WORK,
        "users",
        Value("N"),
        "ctx.users: a population the workload may address [default: 100000]",
    ),
    key(
        WORK,
        "items",
        Value("N"),
        "ctx.items: a key space the workload may address [default: 100000]",
    ),
    key(
        WORK,
        "seed-threads",
        Value("N"),
        "Threads of the load phase; 0 takes the cell's [default: 0]",
    ),
    key(
        WORK,
        "seed-once",
        Flag,
        "Load one store per engine and use it for all threads and repeats",
    ),
    key(
        WORK,
        "pin",
        Flag,
        "Pin worker t to the t-th CPU this process may use [default: where there are as many CPUs \
         as workers]",
    ),
    flag_only(WORK, "no-pin", Flag, "Leave workers where the scheduler puts them"),
    key(
        TRACE,
        "record",
        Value("FILE"),
        "Write every operation into a trace; one measurement alone",
    ),
    key(
        TRACE,
        "replay",
        Value("FILE"),
        "Run the operations of a trace instead of a workload, by the threads that were recorded; \
         plain or .zst",
    ),
    key(
        TRACE,
        "format",
        Value("NAME"),
        "What the trace is: keyrack|rocksdb|cachelib [default: by how it begins]",
    ),
    key(
        TRACE,
        "speed",
        Value("X"),
        "At the recorded times, X times as fast, or max: each thread as fast as it can [default: \
         max]",
    ),
    key(
        LOOP,
        "rate",
        Value("LIST"),
        "Start so many units per second, however long they take, at most 100M (k and M: thousands, \
         millions); response time counts from the intended start",
    ),
    key(
        LOOP,
        "arrivals",
        Value("KIND"),
        "Gaps between starts: constant|poisson|fb_ia [default: constant]",
    ),
    key(
        LOOP,
        "rate-search",
        Value("GOAL"),
        "Search the highest rate whose response time meets the goal, e.g. 'p99<1ms'",
    ),
    key(
        STORE,
        "data-dir",
        Value("DIR"),
        "Directory on the disk to measure; persistent engines need it",
    ),
    key(
        STORE,
        "store",
        Value("DIR"),
        "Use the store in DIR, or make it, and leave it there; one persistent engine. Nothing is \
         loaded where it has rows",
    ),
    key(
        STORE,
        "durability",
        Value("LEVEL"),
        "What a write survives: none|os|interval:MS|sync [default: the engine's]",
    ),
    key(
        STORE,
        "load-durability",
        Value("LEVEL"),
        "What a write of a load survives, in stores that sync each write: \
         none|os|interval:MS|sync; the files are synced once at its end [default: none]",
    ),
    key(
        STORE,
        "settle",
        Value("S"),
        "Wait up to S seconds after the load, and after the timed phase of a store on disk, until \
         the engine's own threads are idle [default: 0, off]",
    ),
    key(
        STORE,
        "verify",
        Flag,
        "Check the answers of the stores: all with one worker, the order of ranges with more; \
         times include the checks",
    ),
    key(
        STORE,
        "blind-deletes",
        Flag,
        "Have kv.del return nil where the engine does not tell whether the key existed, instead of \
         looking it up first",
    ),
    key(
        STORE,
        "amplification",
        Flag,
        "Walk over each store on disk after its timed phase, so that its space amplification is \
         known",
    ),
    key(
        STORE,
        "drop-caches",
        Flag,
        "Drop the kernel's caches of files before each timed phase; needs root on Linux",
    ),
    key(
        STORE,
        "mem-limit",
        Value("SIZE"),
        "Run in a control group with so much memory, the cache of its files included; Linux",
    ),
    key(
        STORE,
        "min-free",
        Value("SIZE"),
        "Refuse to start, and stop, with less free space than this under the data directory \
         [default: 0]",
    ),
    key(
        OUT,
        "report",
        Value("LIST"),
        "Sinks as NAME[:FILE]: console, tsv, timeline, json, hdr, notebook, gnuplot, dbbench; no \
         file is standard output [default: console]",
    ),
    key(
        OUT,
        "report-dir",
        Value("DIR"),
        "Make DIR/<time>/ with report.txt, points.tsv, timeline.tsv, run.json, replay.cnf; \
         overrides --report",
    ),
    key(
        OUT,
        "timeline",
        Value("S"),
        "Sample every S seconds for the timeline sink [default: 0, off]",
    ),
    key(OUT, "probe", Value("LIST"), "Probes: system, build, perf, cgroup, or none [default: all]"),
    key(
        OUT,
        "progress",
        Value("MODE"),
        "Live status on stderr: auto|bar|plain|none [default: auto, a bar on a terminal]",
    ),
    key(OUT, "trace-hash", Flag, "Print a hash of the keys that each thread issued"),
    key(
        OUT,
        "auto-plot",
        Flag,
        "After the run, draw DIR/<time>/report.html and figures/; needs --report-dir",
    ),
    flag_only(OUT, "config", Value("FILE"), "Read settings from FILE first"),
    flag_only(
        OUT,
        "save-config",
        Value("FILE"),
        "Write the effective run to FILE before it starts",
    ),
    Key {
        name: "param",
        short: Some('P'),
        form: Repeated("NAME=VALUE"),
        group: SCRIPT,
        help: "Set a script's kb.param; may be given again for another",
        in_file: true,
    },
    key(
        SCRIPT,
        "unsafe-lua",
        Flag,
        "Give scripts the whole Lua library: files, processes, native modules",
    ),
    key(
        SCRIPT,
        "lua-memory",
        Value("SIZE"),
        "Memory that one script machine may use [default: 1G]",
    ),
    key(
        SCRIPT,
        "unit-timeout",
        Value("S"),
        "Break a unit of a script that runs S seconds past the end of its phase [default: 10]",
    ),
    Key {
        name: "workload",
        short: None,
        form: Repeated("FILE"),
        group: WORK,
        help: "A workload file or native name",
        in_file: true,
    },
];
