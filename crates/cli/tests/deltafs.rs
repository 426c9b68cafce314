//! The three runs of DeltaFS' benchmark guide, with few names: called as its programs are called,
//! under our launcher and under mpich's.

use crate::support::{Lab, Outcome, Running};

const N: u32 = 300;

/// How ranks are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ours,
    Mpich,
}

impl Way {
    /// The ways that this machine has; one that is missing is said, and fails where `CI` is set.
    fn all(test: &str) -> Vec<Way> {
        let mut ways = vec![Way::Ours];
        let path = std::env::var_os("PATH").unwrap_or_default();
        if std::env::split_paths(&path).any(|dir| dir.join("mpirun.mpich").is_file()) {
            ways.push(Way::Mpich);
        } else {
            let what = format!("{test}: there is no mpirun.mpich on this machine");
            assert!(std::env::var_os("CI").is_none(), "{what}");
            println!("SKIPPED {test} under mpich: there is no mpirun.mpich on this machine");
        }
        ways
    }

    /// The words that start `ranks` of a program of ours.
    fn words(self, lab: &Lab, ranks: u32, env: &[(&str, &str)], line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |all: &[&str]| words.extend(all.iter().map(|word| (*word).to_owned()));
        match self {
            Way::Ours => add(&["fs", "launch", "-n", &ranks.to_string()]),
            Way::Mpich => add(&["-np", &ranks.to_string()]),
        }
        for (name, value) in env {
            match self {
                Way::Ours => add(&["--env", &format!("{name}={value}")]),
                Way::Mpich => add(&["-env", name, value]),
            }
        }
        let mut line = line.split_whitespace();
        let program = lab.link(line.next().unwrap());
        if self == Way::Ours {
            add(&["--"]);
        }
        add(&[program.to_str().unwrap()]);
        add(&line.collect::<Vec<_>>());
        words
    }

    fn start(self, lab: &Lab, ranks: u32, env: &[(&str, &str)], line: &str) -> Running {
        lab.start_tool(self.program(lab).as_ref(), &self.words(lab, ranks, env, line))
    }

    #[track_caller]
    fn run(self, lab: &Lab, ranks: u32, env: &[(&str, &str)], line: &str) -> Outcome {
        lab.tool(self.program(lab).as_ref(), &self.words(lab, ranks, env, line))
    }

    fn program(self, lab: &Lab) -> String {
        match self {
            Way::Ours => lab.link("keyrack").display().to_string(),
            Way::Mpich => "mpirun.mpich".to_owned(),
        }
    }
}

/// Starts servers and says where rank 0 is.
fn servers(way: Way, lab: &Lab, ranks: u32, line: &str) -> (Running, String) {
    let line = format!("deltafs_bm_svr --info_port=0 {line}");
    let log = [("DELTAFS_Db_disable_write_ahead_logging", "0")];
    let mut running = way.start(lab, ranks, &log, &line);
    running.wait_for("listening on ");
    let seen = running.seen().lines().last().unwrap().to_owned();
    let address = seen.rsplit(' ').next().unwrap().trim().to_owned();
    (running, address)
}

/// The operations of a result line.
#[track_caller]
fn ops(out: &Outcome, name: &str) -> u64 {
    let start = format!("=={name:<10}: ");
    let line = out.stdout.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no line {start}\n{}", out.told()));
    let fields: Vec<&str> = line[start.len()..].split(',').collect();
    assert_eq!(fields.len(), 4, "{line}");
    for (field, unit) in fields.iter().zip([" micros/op", " Mop/s", " s", " ops"]) {
        assert!(field.ends_with(unit), "{line}");
        assert!(field.trim_end_matches(unit).trim().parse::<f64>().is_ok(), "{line}");
    }
    fields[3].trim_end_matches(" ops").trim().parse().unwrap()
}

#[test]
fn run_1_servers_and_clients_share_a_directory() {
    for way in Way::all("run_1_servers_and_clients_share_a_directory") {
        // Datagrams and connections, single calls and batches.
        for (udp, extra) in [(1, ""), (0, "--batched_writes=1 --batch_size=7")] {
            let lab = Lab::new();
            let (running, address) = servers(
                way,
                &lab,
                2,
                &format!(
                    "--db=svr --skip_fs_checks=0 --ports_per_rank=1 --rpc_threads=2 --udp={udp}"
                ),
            );
            let out = way
                .run(
                    &lab,
                    4,
                    &[],
                    &format!(
                        "deltafs_bm_cli --share_dir=1 --n={N} --read_phases=1 --step_interval=0 \
                         --info_svr_uri=tcp://{address} --skip_fs_checks=0 --udp={udp} {extra}"
                    ),
                )
                .exits(0);
            let all = u64::from(4 * N);
            assert_eq!((ops(&out, "insert"), ops(&out, "fstats")), (all, all));
            for line in ["Num ranks:          4", "Share dir:          1", "preparing run..."] {
                assert!(out.stdout.lines().any(|found| found == line), "{line}\n{}", out.stdout);
            }
            // The names are there, so making them again fails, and says so.
            let again = way.run(
                &lab,
                1,
                &[],
                &format!(
                    "deltafs_bm_cli --share_dir=1 --n=5 --read_phases=0 --udp={udp} \
                     --info_svr_uri=tcp://{address} --skip_fs_checks=0"
                ),
            );
            assert!(again.stderr.contains("it exists already"), "{}", again.told());
            running.signal("INT");
            let served = running.finish();
            assert!(served.stdout.contains("Running...\n"), "{}", served.told());
            if way == Way::Ours {
                assert!(served.stdout.contains("Flushing db ..."), "{}", served.told());
                assert!(served.stdout.trim_end().ends_with("Bye"), "{}", served.told());
            }
        }
    }
}

/// The lines of the guide, of the store of a server that began one.
const SERVER_LINES: &[&str] = &[
    "READONLY DB CHAIN:",
    "MAIN DB:",
    "Snappy:             0",
    "Blk cache size:     0    MB",
    "Blk size:           4    KB",
    "Bloom bits:         10",
    "Memtable size:      8    MB",
    "Tbl size:           4    MB",
    "Tbl write size:     256  KB (min), 512 KB (max)",
    "Tbl cache size:     2500",
    "Io monitoring:      1",
    "Lsm compaction off: 0",
    "Db level factor:    8",
    "L0 limits:          8 (soft), 12 (hard)",
    "L1 trigger:         5",
    "Prefetch compaction input: 1",
    "Prefetch read size: 256  KB",
    "Use existing db:    0",
    "Db: svr/r<rank>",
    "------------------------------------------------",
    "Running...",
];

/// Of a client that hands tables over.
const BULK_LINES: &[&str] = &[
    "Bulk in:            1",
    "BK DB:",
    "Snappy:             0",
    "Blk size:           4    KB",
    "Bloom bits:         10",
    "Memtable size:      8    MB",
    "Tbl write size:     256  KB (min), 512 KB (max)",
    "Wal off:            0",
    "Wal write size:     4    KB",
    "Db: cli/b<dir>",
    "Lstats:             300 x 1 per rank",
    "Mon:                OFF",
];

/// Of a client without servers, with its variables.
const CLIENT_LINES: &[&str] = &[
    "CLIENT DB:",
    "Snappy:             1",
    "Blk cache size:     0    MB",
    "Memtable size:      8    MB",
    "Tbl size:           4    MB",
    "Tbl write size:     256  KB (min), 512 KB (max)",
    "Tbl cache size:     2500 (max open tables)",
    "Io monitoring:      1",
    "Lsm compaction off: 1",
    "Wal off:            0",
    "Wal write size:     64   KB",
    "Use existing db:    0",
    "Db: origin/r<rank>",
];

/// Of a merge.
const TARGET_LINES: &[&str] = &[
    "DELTAFS PARALLEL COMPACTOR",
    "SOURCE DB:",
    "Blk cache:          (nil)",
    "Tbl cache:          (nil)",
    "Io monitoring:      1",
    "Db: origin/r<rank>",
    "DESTINATION DB:",
    "Tbl write size:     256  KB",
    "Tbl cache size:     2500",
    "Db level factor:    8",
    "L1 trigger:         5",
    "Prefetch compaction input: 0",
    "Prefetch read size: 256  KB",
    "Wal off:            1",
    "Db force cleaning:  1",
    "Db: compact/r<rank>",
];

/// Behind the result of a merge.
const STATISTICS_LINES: &[&str] = &[
    "Done!",
    " - Db stats: >>>",
    "                              Files                  Compactions",
    "Level  Files Size(MB) Input0 Input1 Output Counts Time(sec) Read(MB) Write(MB)",
    "------------------------------------------------------------------------------",
    " - L0 stats: >>>",
    "Soft-Limit Hard-Limit MemTable",
    "0          0          0",
    "",
    "Bye",
];

/// The output has these lines one after the other, though others may stand between them.
#[track_caller]
fn has_in_order(out: &Outcome, wanted: &[&str]) {
    let mut lines = out.stdout.lines().map(str::trim_end);
    for line in wanted {
        assert!(lines.any(|found| found == *line), "no '{line}' in its place: {}", out.told());
    }
}

#[test]
fn variables_of_the_original_are_spelled_right_or_refused() {
    let lab = Lab::new();
    let line = "deltafs_bm_cli --fs_use_local=1 --db=d --n=1";
    let refused = Way::Ours.run(&lab, 1, &[("DELTAFS_Db_tabel_size", "4M")], line);
    let said = "DELTAFS_Db_tabel_size is no variable of these programs (did you mean \
                DELTAFS_Db_table_size?)";
    assert!(refused.told().contains(said), "{}", refused.told());
    assert_eq!(lab.names("."), ["deltafs_bm_cli", "keyrack"], "nothing is written");
}

#[test]
fn run_2_hands_tables_over() {
    for way in Way::all("run_2_hands_tables_over") {
        let lab = Lab::new();
        let (running, address) = servers(way, &lab, 2, "--db=svr --skip_fs_checks=0");
        let line = format!(
            "deltafs_bm_cli --share_dir=1 --n={N} --bk=1 --db=cli --read_phases=1 \
             --step_interval=0 --info_svr_uri=tcp://{address} --skip_fs_checks=0"
        );
        let out = way.run(&lab, 4, &[], &line).exits(0);
        let all = u64::from(4 * N);
        assert_eq!((ops(&out, "insert"), ops(&out, "fstats")), (all, all));
        has_in_order(&out, BULK_LINES);
        assert_eq!(lab.names("cli"), Vec::<String>::new(), "nothing is left behind");
        // The names are there: the whole table is refused.
        let again = way.run(&lab, 1, &[], &line);
        assert!(again.stderr.contains("it exists already"), "{}", again.told());
        running.signal("INT");
        has_in_order(&running.finish(), SERVER_LINES);
    }
}

#[test]
fn run_3_writes_merges_and_reads_with_widths_of_their_own() {
    for way in Way::all("run_3_writes_merges_and_reads_with_widths_of_their_own") {
        let lab = Lab::new();
        let env = [
            ("DELTAFS_Db_write_ahead_log_buffer", "65536"),
            ("DELTAFS_Db_disable_write_ahead_logging", "0"),
            ("DELTAFS_Db_disable_compaction", "1"),
            ("DELTAFS_Db_compression", "1"),
        ];
        let out = way
            .run(
                &lab,
                4,
                &env,
                &format!(
                    "deltafs_bm_cli --db=origin --share_dir=1 --n={N} --read_phases=0 \
                     --skip_fs_checks=1 --fs_use_local=1"
                ),
            )
            .exits(0)
            .says("Fs infosvr locatio: N/A");
        has_in_order(&out, CLIENT_LINES);
        let all = u64::from(4 * N);
        assert_eq!(ops(&out, "insert"), all);
        for ranks in [1, 3] {
            let merged = way
                .run(
                    &lab,
                    ranks,
                    &[("DELTAFS_Db_disable_write_ahead_logging", "1")],
                    "parallel_compactor --src_dir=origin --dst_dir=compact --rpc_batch_min=4 \
                     --rpc_batch_max=8 --rpc_threads=2",
                )
                .exits(0);
            has_in_order(&merged, TARGET_LINES);
            has_in_order(&merged, STATISTICS_LINES);
            // One table a part, at the last level.
            let row = merged.stdout.lines().find(|line| line.starts_with("  6 ")).unwrap();
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words[1], ranks.to_string(), "{}", merged.told());
            // A root and a directory of each log, beside the files.
            assert!(ops(&merged, "mapreduce") >= all, "{}", merged.told());
            let files = format!("{} written; names that several logs have: 0", all + 3);
            assert!(merged.stdout.contains(&files), "{}", merged.told());
        }
        for (db, ranks) in [("compact", 2), ("origin", 3)] {
            let line = format!("--use_existing_fs=1 --db={db} --skip_fs_checks=0 --rpc_threads=2");
            let (running, address) = servers(way, &lab, ranks, &line);
            let read = way
                .run(
                    &lab,
                    4,
                    &[],
                    &format!(
                        "deltafs_bm_cli --use_existing_fs=1 --share_dir=1 --n={N} \
                         --write_phases=0 --read_phases=1 --info_svr_uri=tcp://{address} \
                         --skip_fs_checks=0"
                    ),
                )
                .exits(0);
            assert_eq!(ops(&read, "fstats"), all, "{db}");
            // What is served as it is cannot be changed.
            let refused = way.run(
                &lab,
                1,
                &[],
                &format!(
                    "deltafs_bm_cli --share_dir=1 --n=1 --read_phases=0 --use_existing_fs=1 \
                     --info_svr_uri=tcp://{address} --skip_fs_checks=1"
                ),
            );
            assert!(refused.stderr.contains("read-only"), "{}", refused.told());
            running.signal("INT");
            running.finish();
        }
    }
}

/// The bytes of a directory, as lengths of its files and as blocks.
fn bytes_of(lab: &Lab, dir: &str) -> [u64; 2] {
    [&["--apparent-size"][..], &[]].map(|flags| {
        let words = [&["-s", "--block-size=1"], flags, &[dir]].concat();
        let out = lab.tool("du".as_ref(), &words).exits(0).stdout;
        out.split_whitespace().next().unwrap().parse().unwrap()
    })
}

/// The original has 16.3 to 17.4 bytes a name after these runs, with as many names a rank as here
/// and ten times as many. A fifth more is the limit here, and a few blocks for each log.
#[test]
fn closed_and_merged_logs_have_their_names_and_no_spare_space() {
    const NAMES: u64 = 10_000;
    const LOG_BYTES: u64 = 48 << 10;
    let lab = Lab::new();
    let way = Way::Ours;
    let check = |dir: &str, ranks: u64, each: f64| {
        for bytes in bytes_of(&lab, dir) {
            let spare = (bytes as f64) - each * (2 * NAMES) as f64;
            assert!(spare < (ranks * LOG_BYTES) as f64, "{dir}: {bytes} bytes");
        }
    };
    let compressed =
        [("DELTAFS_Db_disable_write_ahead_logging", "0"), ("DELTAFS_Db_compression", "1")];
    let line = format!(
        "deltafs_bm_cli --db=origin --share_dir=1 --n={NAMES} --read_phases=0 --skip_fs_checks=1 \
         --fs_use_local=1"
    );
    way.run(&lab, 2, &compressed, &line).exits(0);
    check("origin", 2, 19.5);
    let line = "parallel_compactor --src_dir=origin --dst_dir=compact";
    way.run(&lab, 2, &compressed[1..], line).exits(0);
    check("compact", 2, 17.0);
    let line = "deltafs_bm_svr --info_port=0 --db=svr --skip_fs_checks=0";
    let mut running = way.start(&lab, 2, &compressed, line);
    running.wait_for("listening on ");
    let seen = running.seen().lines().last().unwrap().to_owned();
    let address = seen.rsplit(' ').next().unwrap().trim().to_owned();
    let line = format!(
        "deltafs_bm_cli --share_dir=1 --n={NAMES} --read_phases=0 --skip_fs_checks=0 \
         --info_svr_uri=tcp://{address}"
    );
    way.run(&lab, 2, &[], &line).exits(0);
    running.signal("INT");
    running.finish();
    check("svr", 2, 20.4);
}

#[test]
fn a_writer_that_is_killed_loses_nothing_that_it_acknowledged() {
    let lab = Lab::new();
    let (mut running, address) = servers(Way::Ours, &lab, 1, "--db=svr --skip_fs_checks=0");
    let line = format!(
        "deltafs_bm_cli --n={N} --read_phases=0 --info_svr_uri=tcp://{address} --skip_fs_checks=0"
    );
    Way::Ours.run(&lab, 1, &[], &line).exits(0);
    // The launcher's child too: it is the one that has the log.
    let id = running.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let rank = children.trim();
    let killed = std::process::Command::new("kill").args(["-KILL", rank]).status().unwrap();
    assert!(killed.success());
    running.kill();
    running.finish();
    let out = lab.called("parallel_compactor", "--src_dir=svr --dst_dir=out").exits(0);
    let files = format!("{} written", N + 3);
    assert!(out.stdout.contains(&files), "{}", out.told());
}

#[test]
fn a_dummy_answers_and_no_server_is_an_error_with_its_address() {
    let lab = Lab::new();
    let (running, address) = servers(Way::Ours, &lab, 1, "--dummy_svr=1");
    let line = format!("deltafs_bm_cli --n=100 --info_svr_uri=tcp://{address} --step_interval=0");
    let out = Way::Ours.run(&lab, 2, &[], &line).exits(0);
    assert_eq!((ops(&out, "insert"), ops(&out, "fstats")), (200, 200));
    running.signal("INT");
    running.finish().exits(0);
    let out = lab.called("deltafs_bm_cli", &format!("--n=1 --info_svr_uri=tcp://{address}"));
    let out = out.exits(1);
    assert!(out.stderr.contains(&address), "{}", out.told());
}

#[test]
fn two_dummies_answer_as_one_does() {
    let lab = Lab::new();
    let (running, address) = servers(Way::Ours, &lab, 2, "--dummy_svr=1");
    for shared in ["0", "1"] {
        let line = format!(
            "deltafs_bm_cli --n=100 --share_dir={shared} --info_svr_uri=tcp://{address} \
             --step_interval=0"
        );
        let out = Way::Ours.run(&lab, 2, &[], &line).exits(0);
        assert_eq!((ops(&out, "insert"), ops(&out, "fstats")), (200, 200), "{}", out.told());
    }
    running.signal("INT");
    running.finish().exits(0);
}

#[test]
fn wrong_flags_and_logs_are_said() {
    let lab = Lab::new();
    for program in ["deltafs_bm_svr", "deltafs_bm_cli", "parallel_compactor"] {
        let out = lab.called(program, "--upd=1").exits(1);
        assert_eq!(out.stderr.trim_end(), "Invalid flag: '--upd=1' (did you mean --udp=?)");
    }
    let out = lab.called("parallel_compactor", "--src_dir=nowhere --dst_dir=x").exits(1);
    assert!(out.stderr.contains("nowhere: there is no such directory"), "{}", out.told());
    let out = lab.called("deltafs_bm_svr", "--ip=0.0.0.0 --db=x").exits(1);
    assert!(out.stderr.contains("KEYRACK_FS_TOKEN"), "{}", out.told());
}

#[test]
fn our_own_names_do_the_same_without_mpi() {
    let lab = Lab::new();
    lab.run("fs clients --db logs --n 200 --shared").exits(0).says("==fstats    : ");
    lab.run("fs merge --from logs --to parts --parts 5").exits(0);
    let again = lab.run("fs merge --from logs --to parts").exits(1);
    assert!(again.stderr.contains("there is something already"), "{}", again.told());
    lab.run("fs merge --from logs --to parts --replace").exits(0);
    let mut running = lab.start("fs serve --db parts --read-only --port 0 --udp");
    running.wait_for("listening on ");
    let address = running.seen().trim_end().rsplit(' ').next().unwrap().to_owned();
    for way in ["", "--udp", "--depth 1"] {
        let line = format!("fs clients --server {address} --n 200 --shared --existing {way}");
        assert_eq!(ops(&lab.run(&line).exits(0), "fstats"), 200);
    }
    running.signal("TERM");
    running.finish().exits(0);
    lab.run("fs clients --n 1").refuses(&["--server", "--db"]);
    let failed = lab.run_words(&["fs", "launch", "-n", "3", "--", "sh", "-c", "exit 4"]).exits(1);
    assert!(failed.stderr.contains(" ended with status 4; the job is over"), "{}", failed.told());
}

/// All processes wrote into `r0`, and all but one were refused.
#[test]
fn processes_of_a_benchmark_have_logs_of_their_own() {
    let lab = Lab::new();
    let keyrack = lab.link("keyrack").display().to_string();
    let bench = "fs bench --db d --n 70 --ranks 2 --share_dir 1 --step_interval 0";
    let line = format!("fs launch -n 3 -- {keyrack} {bench} --json j.json");
    let out = lab.run(&line).exits(0).says("Num ranks:          6");
    assert_eq!((ops(&out, "insert"), ops(&out, "fstats")), (6 * 70, 6 * 70));
    assert_eq!(out.stdout.matches("==insert").count(), 1, "{}", out.told());
    assert_eq!(lab.names("d"), ["r0", "r1", "r2", "r3", "r4", "r5"]);
    // Each name is in one log.
    let merged = lab.run("fs merge --from d --to one --parts 1").exits(0);
    assert!(merged.stdout.contains("names that several logs have: 0"), "{}", merged.told());
    // The logs are there: every process refuses its own.
    let again = lab.run(&line).exits(1);
    assert!(again.stderr.contains("there is a log already"), "{}", again.told());
    let mdtest = format!("fs launch -n 2 -- {keyrack} fs bench --db m --mdtest --n 5");
    let refused = lab.run(&mdtest).exits(1);
    assert!(refused.stderr.contains("--mdtest measures one process"), "{}", refused.told());
}
