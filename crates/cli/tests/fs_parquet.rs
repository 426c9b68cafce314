//! `keyrack fs export` and `import` of Parquet: a tree that comes back, DuckDB as the other side,
//! and what is refused. Without the feature `parquet` the program says how to get it.

use crate::support::Lab;

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_parquet_says_how_to_get_it() {
    let lab = Lab::new();
    lab.run("fs mkdir --db s /a").exits(0);
    for line in ["fs export --db s / x.parquet", "fs import --db s --format parquet x"] {
        lab.run(line).refuses(&["--features parquet", "jsonl"]);
    }
    assert!(!lab.exists("x.parquet"));
}

#[cfg(feature = "parquet")]
mod with {
    use super::Lab;
    use std::path::PathBuf;
    use std::process::Command;

    /// A log with entries of each kind, small and large, with names that are no text.
    fn log() -> Lab {
        let lab = Lab::new();
        let keyrack = env!("CARGO_BIN_EXE_keyrack");
        let script = format!(
            "k='{keyrack} fs'; $k mkdir --db s -p /in/a/b \"/in/$(printf 'n\\377')\" && \
             printf 'x\\0y' > bytes && $k put --db s bytes /in/a/bytes && \
             $k create --db s --mode 600 /in/a/none \"/in/$(printf 'n\\377')/f\" && \
             $k create --db s --size 5000000000 /in/a/b/noted && \
             $k ln --db s -s ../../a/bytes /in/a/b/link && $k chown --db s 7:4294967294 \
             /in/a/bytes && $k chmod --db s 2751 /in/a"
        );
        lab.shell(&script).exits(0);
        lab
    }

    /// All of a log as lines of JSON.
    #[track_caller]
    fn lines(lab: &Lab, db: &str) -> String {
        lab.run(&format!("fs export --db {db} --format jsonl /in")).exits(0).stdout
    }

    #[test]
    fn a_tree_comes_back_through_parquet() {
        let lab = log();
        lab.run("fs export --db s /in tree.parquet").exits(0);
        lab.run("fs import --db cut tree.parquet /in").exits(1).warns("--metadata-only");
        lab.run("fs import --db t --metadata-only tree.parquet /in").exits(0).warns("1 of them");
        assert_eq!(lines(&lab, "t"), lines(&lab, "s"));
        assert!(lines(&lab, "t").contains("5000000000"));
        lab.run("fs import --db t --metadata-only tree.parquet /in").exits(1).warns("--overwrite");
        // Without bytes: what is known is the same.
        lab.run("fs export --db s --no-data /in bare.parquet").exits(0);
        lab.run("fs import --db bare --metadata-only bare.parquet /in").exits(0);
        assert_eq!(
            lab.run("fs export --db bare --no-data --format jsonl /in").exits(0).stdout,
            lab.run("fs export --db s --no-data --format jsonl /in").exits(0).stdout
        );
        // The same bytes by standard output.
        lab.shell(&format!(
            "{} fs export --db s --format parquet /in | cmp - tree.parquet",
            env!("CARGO_BIN_EXE_keyrack")
        ))
        .exits(0);
        lab.run("fs import --db t --format parquet - /in").refuses(&["standard input"]);
        // One bit of a page: nothing is taken in.
        let mut bytes = std::fs::read(lab.path("tree.parquet")).unwrap();
        bytes[40] ^= 1;
        std::fs::write(lab.path("flipped.parquet"), bytes).unwrap();
        lab.run("fs import --db t flipped.parquet /x")
            .exits(3)
            .warns("flipped.parquet: the file is");
        lab.run("fs ls --db t /x").exits(1);
        lab.write("bad.parquet", "PAR1 and no more");
        lab.run("fs import --db t bad.parquet /x")
            .refuses(&["bad.parquet: ", "no file of Parquet"]);
        lab.run("fs import --db t none.parquet /x").exits(1).warns("none.parquet");
    }

    /// A Python with DuckDB.
    fn python(test: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has = |python: &PathBuf| {
            let run = Command::new(python).args(["-c", "import duckdb"]).output();
            run.is_ok_and(|output| output.status.success())
        };
        let found = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(has);
        if found.is_none() {
            println!("SKIPPED {test}: there is no Python with duckdb on this machine");
        }
        found
    }

    /// Both ways: what it reads is what `find` says, and what it writes is taken in.
    #[test]
    fn duckdb_reads_what_is_written_and_writes_what_is_read() {
        let Some(python) = python("duckdb_reads_what_is_written_and_writes_what_is_read") else {
            return;
        };
        let lab = log();
        lab.run("fs export --db s /in tree.parquet").exits(0);
        lab.run("fs find --db s --json /in").exits(0);
        lab.write("facts.jsonl", &lab.run("fs find --db s --json /in").exits(0).stdout);
        lab.write("script.py", include_str!("fs_parquet.py"));
        lab.tool(&python, &["script.py"]).exits(0).says("is content");
        lab.run("fs import --db t --metadata-only turned.parquet /in").exits(0);
        assert_eq!(lines(&lab, "t"), lines(&lab, "s"));
    }
}
