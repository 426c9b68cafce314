//! Notebooks: the published example, appending, and files that are none.

use super::sample::kept_run;
use super::*;
use crate::NotebookFile;
use keyrack_record::{FieldValue, ThreadRow};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

/// What the two threads of the published example reported, with the digits that were cut there.
pub(super) fn example_rows() -> Vec<ThreadRow> {
    let row = |thread, puts, rates: [f64; 3]| ThreadRow {
        test: "rw1".to_owned(),
        thread,
        fields: [
            ("puts", FieldValue::Count(puts)),
            ("puts_per_sec", FieldValue::Number(rates[0])),
            ("gets", FieldValue::Count(puts)),
            ("gets_per_sec", FieldValue::Number(rates[1])),
            ("ops", FieldValue::Count(2 * puts)),
            ("ops_per_sec", FieldValue::Number(rates[2])),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec(),
    };
    vec![
        row(0, 13_243_551, [1_324_492.055_312_3, 1_497_267.139_281_4, 1_405_590.125_800_1]),
        row(1, 13_242_601, [1_324_397.456_018_9, 1_481_151.357_263_2, 1_398_395.266_012_7]),
    ]
}

pub(super) fn example() -> Experiment {
    Experiment {
        revision: "673994c43d58d46f4ebf3f7d4e1fce19074594cb".to_owned(),
        time: "Wed Oct 24 14:54:39 2012".to_owned(),
        gid: None,
        machine: Some("mat".to_owned()),
        cores: 2,
        trials: vec![Trial::new("rw1", "mb", 0, &example_rows())],
    }
}

const EXAMPLE: &str = "{
  \"experiments\": {
    \"x0\": {
      \"git-revision\": \"673994c43d58d46f4ebf3f7d4e1fce19074594cb\",
      \"time\": \"Wed Oct 24 14:54:39 2012\",
      \"machine\": \"mat\",
      \"cores\": 2,
      \"runs\": [\"x0\\/rw1\\/mb\\/0\"]
    }
  },
  \"data\": {
    \"x0\\/rw1\\/mb\\/0\": [
      {
\t\"table\": \"mb\",
\t\"test\": \"rw1\",
\t\"trial\": 0,
\t\"thread\": 0,
\t\"puts\": 13243551,
\t\"puts_per_sec\": 1324492.05531,
\t\"gets\": 13243551,
\t\"gets_per_sec\": 1497267.13928,
\t\"ops\": 26487102,
\t\"ops_per_sec\": 1405590.1258
      },
      {
\t\"table\": \"mb\",
\t\"test\": \"rw1\",
\t\"trial\": 0,
\t\"thread\": 1,
\t\"puts\": 13242601,
\t\"puts_per_sec\": 1324397.45602,
\t\"gets\": 13242601,
\t\"gets_per_sec\": 1481151.35726,
\t\"ops\": 26485202,
\t\"ops_per_sec\": 1398395.26601
      }
    ]
  }
}
";

#[test]
fn the_published_example_comes_out_byte_for_byte() {
    let mut notebook = Notebook::parse("").unwrap();
    assert_eq!(notebook.append(&example()), "x0");
    assert_eq!(notebook.text(), EXAMPLE);
    assert_eq!(Notebook::parse(EXAMPLE).unwrap().text(), EXAMPLE);
}

#[test]
fn a_row_on_one_line_is_that_of_the_published_example() {
    let trial = Trial::new("rw1", "mb", 0, &example_rows());
    assert_eq!(
        trial.rows[0].one_line(),
        "{\"table\":\"mb\",\"test\":\"rw1\",\"trial\":0,\"thread\":0,\"puts\":13243551,\
         \"puts_per_sec\":1324492.05531,\"gets\":13243551,\"gets_per_sec\":1497267.13928,\
         \"ops\":26487102,\"ops_per_sec\":1405590.1258}"
    );
}

#[test]
fn experiments_follow_each_other_and_foreign_members_stay() {
    let old = "{\"zeta\": {\"b\": 1, \"a\": 2.5}, \"experiments\": {\"x0\": {\"note\": \"mine\"}},
               \"alpha\": [\"last\", null]}";
    let mut notebook = Notebook::parse(old).unwrap();
    let experiment = Experiment { gid: Some("night".to_owned()), machine: None, ..example() };
    assert_eq!(notebook.append(&experiment), "x1");
    let text = notebook.text();
    let top: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  \"")?.split_once('"').map(|(name, _)| name))
        .collect();
    assert_eq!(top, ["zeta", "experiments", "alpha", "data"], "{text}");
    assert!(text.contains("\"zeta\": {\"b\":1,\"a\":2.5},\n"), "{text}");
    assert!(text.contains("    \"x0\": {\"note\":\"mine\"},\n    \"x1\": {\n"), "{text}");
    assert!(text.contains("2012\",\n      \"gid\": \"night\",\n      \"cores\": 2,\n"), "{text}");
    assert!(text.contains("\"x1\\/rw1\\/mb\\/0\": ["), "{text}");
    let keys: Vec<&str> = notebook.data().map(|(key, _)| key).collect();
    assert_eq!(keys, ["x1/rw1/mb/0"]);
}

/// With x0 taken out, the number of experiments is the name of one that is there.
#[test]
fn no_experiment_takes_the_name_of_another() {
    let old = "{\"experiments\":{\"x1\":{}},\"data\":{\"x2/rw1/mb/0\":[]}}";
    let mut notebook = Notebook::parse(old).unwrap();
    assert_eq!(notebook.append(&example()), "x3");
    assert_eq!(notebook.append(&example()), "x4");
}

#[test]
fn what_is_no_notebook_is_refused_in_one_line() {
    for (text, why) in [
        ("{", "EOF"),
        ("hello", "expected value"),
        ("[]", "no JSON object"),
        ("3", "no JSON object"),
        ("{}", "no 'experiments'"),
        ("{\"data\":{}}", "no 'experiments'"),
        ("{\"experiments\":[]}", "'experiments' is no object"),
        ("{\"experiments\":{},\"data\":[1]}", "'data' is no object"),
    ] {
        let error = Notebook::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("not a notebook, left as it is: "), "{error}");
        assert!(error.contains(why) && error.lines().count() == 1, "{text}: {error}");
    }
    assert!(Notebook::parse(" \n").is_ok());
}

/// A run of any workload: one row where no threads reported, and names that tell cells apart.
#[test]
fn a_run_without_rows_has_one_for_all_threads() {
    let run = kept_run();
    let experiment = Experiment::of(&run);
    let repeats: usize = run.points.iter().map(|point| point.repeats.len()).sum();
    assert_eq!(experiment.trials.len(), repeats);
    let mut keys: Vec<String> = experiment.trials.iter().map(Trial::key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), repeats, "{keys:?}");
    assert!(keys.iter().any(|key| key == "mixed t4/btree/2"), "{keys:?}");
    assert!(keys.iter().any(|key| key == "mixed t1/skiplist/2"), "{keys:?}");
    let row = &experiment.trials[0].rows[0];
    let names: Vec<&str> = row.members().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["table", "test", "trial", "threads", "ops", "ops_per_sec"]);
    assert_eq!(row.get("ops"), Some(&Value::Count(5000)));
}

#[test]
fn rows_of_a_sequence_are_trials_of_their_own() {
    let mut run = kept_run();
    run.points.truncate(1);
    run.points[0].repeats.truncate(1);
    let mut rows = Vec::new();
    for place in 0..2 {
        rows.extend(
            example_rows()
                .into_iter()
                .map(|row| ThreadRow { test: format!("wcol1,rcol1@{place}"), ..row }),
        );
    }
    run.points[0].repeats[0].rows = rows;
    let trials = Experiment::of(&run).trials;
    let keys: Vec<String> = trials.iter().map(Trial::key).collect();
    let engine = &run.points[0].cell.engine;
    let wanted = [0, 1].map(|place| format!("wcol1,rcol1@{place}/{engine}/0"));
    assert_eq!(keys, wanted);
    assert!(trials.iter().all(|trial| trial.rows.len() == 2));
}

/// A notebook in memory that somebody else may write to as well.
fn page(fs: &Arc<dyn Fs>) -> NotebookFile {
    NotebookFile::open(fs, Path::new("/book.json")).unwrap()
}

fn names(fs: &Arc<dyn Fs>) -> Vec<String> {
    let entries = fs.list(Path::new("/")).unwrap();
    entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_file_grows_by_an_experiment_a_run() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    // Both runs begin before one of them ends.
    let mut sinks = [page(&fs), page(&fs)].map(|page| NotebookSink::new(Box::new(page)));
    let said: Vec<Option<String>> = sinks
        .iter_mut()
        .map(|sink| {
            feed(sink, &kept_run()).unwrap();
            sink.said()
        })
        .collect();
    assert_eq!(said, [Some("EXPERIMENT x0".to_owned()), Some("EXPERIMENT x1".to_owned())]);
    assert_eq!(names(&fs), ["book.json"], "nothing stays behind");
    let text = fs.read_to_string(Path::new("/book.json")).unwrap();
    let half = Experiment::of(&kept_run()).trials.len();
    assert_eq!(Notebook::parse(&text).unwrap().data().count(), 2 * half);
}

#[test]
fn a_run_that_measured_nothing_leaves_no_experiment() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let mut sink = NotebookSink::new(Box::new(page(&fs)));
    let mut run = kept_run();
    run.points.clear();
    feed(&mut sink, &run).unwrap();
    assert_eq!(sink.said(), None);
    assert!(names(&fs).is_empty());
}

#[test]
fn a_file_that_is_no_notebook_is_refused_before_and_after() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let path = Path::new("/book.json");
    let mut sink = NotebookSink::new(Box::new(page(&fs)));
    fs.write_atomic(path, b"mine").unwrap();
    let error = feed(&mut sink, &kept_run()).unwrap_err();
    assert!(error.to_string().starts_with("not a notebook, left as it is: "), "{error}");
    assert_eq!(sink.said(), None);
    let error = NotebookFile::open(&fs, path).unwrap_err();
    assert!(error.starts_with("/book.json: not a notebook"), "{error}");
    assert_eq!(fs.read(path).unwrap(), b"mine");
    fs.create_dir(Path::new("/dir")).unwrap();
    let error = NotebookFile::open(&fs, Path::new("/dir")).unwrap_err();
    assert!(error.contains("no regular file"), "{error}");
    assert!(NotebookFile::open(&fs, Path::new("/absent/book.json")).is_err());
    fs.write_atomic(path, &[0xff, 0xfe]).unwrap();
    assert!(NotebookFile::open(&fs, path).is_err(), "not even text");
}

/// Whatever operation fails, the old notebook or the whole new one is there.
#[test]
fn a_failing_disk_leaves_the_old_notebook() {
    let path = Path::new("/book.json");
    for at in 1.. {
        let mem = Arc::new(MemFs::new());
        mem.write_atomic(path, EXAMPLE.as_bytes()).unwrap();
        let faulty = Arc::new(FaultFs::new(mem.clone()));
        let fs: Arc<dyn Fs> = faulty.clone();
        let mut page = page(&fs);
        faulty.reset();
        faulty.arm(FaultPlan::once(at, Fault::Io));
        let result = append(&mut page, &example());
        let text = mem.read_to_string(path).unwrap();
        if faulty.injected() == 0 {
            assert_eq!(result.unwrap().as_deref(), Some("x1"));
            assert!(at > 4, "reading, writing, syncing, renaming");
            break;
        }
        assert!(result.is_err(), "{at}");
        let experiments = Notebook::parse(&text).unwrap().data().count();
        assert!(text == EXAMPLE || experiments == 2, "{at}: {text}");
    }
}

#[test]
fn a_stream_is_read_from_one_side_and_written_to_the_other() {
    let disk = Disk::default();
    let mut stream = Stream::new(EXAMPLE.to_owned(), Box::new(disk.clone()));
    assert_eq!(append(&mut stream, &example()).unwrap().as_deref(), Some("x1"));
    assert_eq!(Notebook::parse(&disk.flushed()).unwrap().data().count(), 2);
}
