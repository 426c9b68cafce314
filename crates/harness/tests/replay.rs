//! The replay file: applied to nothing, it gives the settings that it was written from, and it
//! brings the scripts along.

use crate::support::{Bench, SCRIPT, repeat};
use keyrack_harness::{
    Bound, Goal, MeasurementOrder, Override, Pin, Plan, ProgressMode, Sandbox, Settings,
    apply_config, render_replay,
};
use keyrack_store::Durability;
use keyrack_vfs::Fs;
use keyrack_workload::Arrivals;
use std::path::{Path, PathBuf};

const TEXT: &str = "-- a comment; with # marks\nlocal size = kb.param('size', 10)\n\
                    local note = kb.param('note', '')\n\
                    return { name = 'w', run = function() kv.put('k;#\\t', size) end }";

fn replayed(plan: &Plan) -> Settings {
    let text = render_replay(plan);
    let mut settings = Settings::default();
    apply_config(&mut settings, "replay.cnf", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    settings
}

/// Settings of which hardly any has its default.
fn rich(dir: &Path) -> Settings {
    let text = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    Settings {
        backend: vec!["redb".to_owned(), "skiplist".to_owned()],
        threads: vec![4, 1, 2],
        threaded: true,
        batch: vec![2, 64],
        depth: 16,
        repeat: 3,
        order: Some(MeasurementOrder::Shuffle),
        seed: 987_654_321,
        bound: Bound::Secs(0.125),
        bounded: true,
        limit: Some(1_000_000),
        timing: false,
        blind_deletes: true,
        warmup: 0.5,
        users: 11,
        items: 12,
        seed_threads: 2,
        seed_once: false,
        pin: Pin::Always,
        cpus: Vec::new(),
        record: None,
        replay: None,
        format: None,
        speed: None,
        rate: vec![1000.0, 2500.5],
        arrivals: Arrivals::Poisson,
        rate_search: None,
        data_dir: Some(dir.to_owned()),
        store: None,
        durability: None,
        load_durability: Durability::Os,
        settle: 1.5,
        verify: true,
        amplification: true,
        drop_caches: false,
        mem_limit: Some(1 << 30),
        min_free: 4096,
        report: Some("tsv:/a b.tsv,console".to_owned()),
        report_dir: None,
        timeline: 0.25,
        probe: Some(vec!["build".to_owned()]),
        progress: ProgressMode::Auto,
        trace_hash: true,
        auto_plot: true,
        params: text(&[("size", "64"), ("note", "a = b, 'c'"), ("size", "65")]),
        sandbox: Sandbox { open: true, memory_max: 5 << 20 },
        unit_timeout: 3.5,
        workloads: vec![SCRIPT.to_owned(), "ycsb/a".to_owned()],
        overrides: [(
            "w".to_owned(),
            Override {
                bound: Some(Bound::Ops(77)),
                users: Some(5),
                items: Some(6),
                params: text(&[("size", "99")]),
            },
        )]
        .into(),
        common: text(&[("cache_bytes", "8M"), ("durability", "none")]),
        engine_options: [("null".to_owned(), text(&[("value_bytes", "7"), ("miss", "yes")]))]
            .into(),
        places: Default::default(),
        saved_scripts: [(SCRIPT.to_owned(), TEXT.to_owned())].into(),
    }
}

#[test]
fn a_replay_file_gives_the_settings_that_it_was_written_from() {
    let mut bench = Bench::new(TEXT);
    bench.fs.create_dir_all(Path::new("/data")).unwrap();
    let mut settings = rich(Path::new("/data"));
    settings.backend = vec!["skiplist".to_owned(), "null".to_owned()];
    let again = |bench: &mut Bench, settings: &Settings| {
        bench.settings = settings.clone();
        let plan = bench.plan().unwrap();
        let mut found = replayed(&plan);
        // Where the file stands is for messages alone.
        found.places.clear();
        assert_eq!(format!("{found:#?}"), format!("{settings:#?}"));
        assert_eq!(render_replay(&bench_of(bench, found).plan().unwrap()), render_replay(&plan));
    };
    again(&mut bench, &settings);
    // What contradicts the above, in settings of their own.
    settings.rate = Vec::new();
    settings.rate_search = Some(Goal { percentile: 99.9, limit_ns: 250_000 });
    settings.report = None;
    settings.report_dir = Some(PathBuf::from("/reports"));
    settings.seed_once = true;
    settings.order = Some(MeasurementOrder::Engine);
    settings.durability = Some(Durability::None);
    settings.probe = Some(vec!["none".to_owned()]);
    settings.pin = Pin::Auto;
    again(&mut bench, &settings);
    settings.rate_search = None;
    settings.pin = Pin::Never;
    settings.arrivals = Arrivals::Constant;
    settings.bound = Bound::Ops(9);
    settings.limit = None;
    settings.timing = true;
    again(&mut bench, &settings);
}

fn bench_of(bench: &Bench, settings: Settings) -> Bench {
    let mut other = Bench::new("this file is not read");
    other.fs = bench.fs.clone();
    other.settings = settings;
    other
}

#[test]
fn a_replay_needs_no_script_file() {
    let bench = Bench::new(TEXT).set(&[("param", "size=33"), ("ops", "5")]);
    let plan = bench.plan().unwrap();
    let mut other = Bench::new("this file is not read");
    other.settings = replayed(&plan);
    other.mem.remove_file(Path::new(SCRIPT)).unwrap();
    let plan_again = other.plan().unwrap();
    assert_eq!(plan_again.workloads[0].text, TEXT);
    assert_eq!(plan_again.workloads[0].sha256, plan.workloads[0].sha256);
    assert_eq!(repeat(&other.run_clean()).units, 5);
}

#[test]
fn a_replayed_run_issues_the_same_keys() {
    let script = "local K = kb.zipf{} return { name = 'w', run = function() kv.get(K) end }";
    let bench = Bench::new(script).set(&[("ops", "500"), ("seed", "44"), ("trace-hash", "yes")]);
    let mut other = Bench::new("");
    other.settings = replayed(&bench.plan().unwrap());
    let (one, two) = (bench.run_clean(), other.run_clean());
    assert_eq!(repeat(&one).trace_hashes, repeat(&two).trace_hashes);
}

#[test]
fn values_that_look_like_the_syntax_of_the_file_survive() {
    for note in
        ["a # b", "x ;y", "#", "; z", "[bench]", "a=b", "line\nops = 3", "", "\"q\"", "tab\there"]
    {
        let mut bench = Bench::new(TEXT);
        bench.settings.params = vec![("note".to_owned(), note.to_owned())];
        let found = replayed(&bench.plan().unwrap());
        assert_eq!(found.params, bench.settings.params, "{note:?}");
        assert_eq!(found.bound, Bound::Ops(1), "{note:?}");
    }
}

#[test]
fn a_script_that_a_replay_file_could_not_hold_is_refused() {
    let text = b"return { name = 'w', run = function()\nkv.put('\xff\xfe', 'v') end }";
    let refusal = Bench::new("").file(SCRIPT, text).refusal();
    assert!(refusal.starts_with("/w.lua:2: not UTF-8"), "{refusal}");
    // Written as escapes the same bytes are fine.
    let text = r"return { name = 'w', run = function()
        kv.put('\xff\0', 'v') assert(kv.get('\xff\0')) end }";
    let bench = Bench::new(text);
    let mut other = Bench::new("");
    other.settings = replayed(&bench.plan().unwrap());
    other.run_clean();
}

#[test]
fn parameters_of_a_workload_section_are_checked_like_those_of_flags() {
    let script = "local n = kb.param('rows', 3)
        return { name = 'w', sweep = { param = 'x', values = { n, 9 } }, run = function() end }";
    let bench = |param: &str| {
        let mut bench = Bench::new(script);
        let pair = ("param".to_owned(), param.to_owned());
        bench.settings.apply_override("w", &[pair]).unwrap();
        bench
    };
    let text = bench("row=5").refusal();
    assert!(text.contains("[workload:w] param: unknown parameter 'row'"), "{text}");
    assert!(text.contains("did you mean 'rows'?"), "{text}");
    let text = bench("rows=many").refusal();
    assert!(text.contains("-P rows=many: the script expects a whole number"), "{text}");
    // They decide what is swept, as a flag's do.
    let plan = bench("rows=5").plan().unwrap();
    assert_eq!(plan.workloads[0].sweep.as_ref().unwrap().values, [5, 9]);
}
