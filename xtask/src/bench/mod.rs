//! Claims: every figure of `docs/results.md` is a file in `benchmarks/definitions/`, and this
//! chore makes it again.
//!
//! ```text
//! definition -> the binary with its features -> servers up -> turns x runs -> servers down
//!            -> benchmarks/record/DATE-MACHINE/CLAIM/
//!                 definition.toml  what was run        machine.tsv  on what, with which versions
//!                 RUN.txt          its output          cpu.tsv      CPU time of servers, by run
//! ```
//!
//! The first word of a command is `keyrack`, a name that the binary is also called by (`mttest`),
//! a program of the machine, or `original/NAME`: a program of others that is built by hand and lies
//! in the folder that `KEYRACK_ORIGINALS` names; arguments may name such files, too. A run that
//! lacks one of them is skipped, and the record says so. `--quick` makes each run as small as the
//! definition allows and writes below the target directory: it shows that the claim can be made
//! again, and is no figure.

mod definition;
mod machine;
mod process;

use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Options;
use crate::output::say;
use crate::smoke;
use crate::stage::{Outcome, Stop, stage};
use crate::workspace::Workspace;
use definition::{Claim, Run, parse, words};
use process::{Programs, Served};

const DEFINITIONS: &str = "benchmarks/definitions";
const RECORD: &str = "benchmarks/record";

/// `cargo xtask bench [CLAIM] [--quick]`.
///
/// # Errors
/// `Usage` for a claim that there is not, `Stage` when a run fails, `Broken` when nothing can be
/// written or started.
pub(crate) fn command(workspace: &Workspace, options: &Options) -> Outcome {
    let claims = claims(workspace)?;
    let Some(name) = options.operand() else {
        for (name, claim, _) in &claims {
            say(&format!("{name:<22} {}", claim.about));
        }
        return Ok(());
    };
    let Some((_, claim, text)) = claims.iter().find(|(known, ..)| known == name) else {
        let names: Vec<&str> = claims.iter().map(|(name, ..)| name.as_str()).collect();
        return Err(Stop::Usage(format!("unknown claim '{name}' (have: {})", names.join(", "))));
    };
    let is_quick = options.has("--quick");
    let binary =
        stage("build", || smoke::build_with(workspace, &claim.features, &claim.rustflags))?;
    let out = if is_quick {
        workspace.target("bench-quick")
    } else {
        workspace.root().join(RECORD).join(machine::stamp())
    };
    stage(name, || reproduce(workspace, &binary, &out.join(name), claim, text, is_quick))
}

/// Makes every claim that needs no other build once in its quick size: a part of the smoke run.
///
/// # Errors
/// As [`command`].
pub(crate) fn quick(workspace: &Workspace, binary: &Path) -> Outcome {
    for (name, claim, text) in claims(workspace)? {
        let out = workspace.target("bench-quick").join(&name);
        if claim.features.is_empty() {
            reproduce(workspace, binary, &out, &claim, &text, true)?;
        } else {
            say(&format!("SKIPPED: claim {name} (it needs a build with {})", claim.features));
        }
    }
    Ok(())
}

type Named = (String, Claim, String);

/// All definitions by name.
fn claims(workspace: &Workspace) -> Outcome<Vec<Named>> {
    let folder = workspace.root().join(DEFINITIONS);
    let broken = |error| Stop::Broken(format!("cannot list {DEFINITIONS}: {error}"));
    let mut claims = Vec::new();
    for entry in fs::read_dir(&folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".toml"))
        else {
            continue;
        };
        let text = fs::read_to_string(&path)
            .map_err(|error| Stop::Broken(format!("cannot read {}: {error}", path.display())))?;
        let claim =
            parse(&text).map_err(|why| Stop::Usage(format!("{DEFINITIONS}/{name}.toml: {why}")))?;
        claims.push((name.to_owned(), claim, text));
    }
    claims.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    Ok(claims)
}

/// Makes all runs of a claim and writes them down.
fn reproduce(
    workspace: &Workspace,
    binary: &Path,
    out: &Path,
    claim: &Claim,
    text: &str,
    is_quick: bool,
) -> Outcome {
    let write = |name: &str, text: &str| write_file(&out.join(name), text);
    // What an earlier attempt left would be taken for a part of this one.
    if out.exists() {
        fs::remove_dir_all(out)
            .map_err(|error| Stop::Broken(format!("cannot remove {}: {error}", out.display())))?;
    }
    write("definition.toml", text)?;
    write("machine.tsv", &machine::facts(workspace, binary, claim))?;
    let programs = Programs::new(workspace, binary, out)?;
    let mut cpu = String::from("turn\trun\tserver\tcpu_s\n");
    let mut skipped = String::new();
    let mut servers: Vec<Served> = Vec::new();
    for server in &claim.servers {
        match programs.serve(server)? {
            Some(served) => servers.push(served),
            None => skipped += &format!("server {}\n", server.name),
        }
    }
    let turns = if is_quick { 1 } else { claim.turns };
    for turn in 1..=turns {
        for run in &claim.runs {
            let served = servers.iter().find(|served| served.name == run.server);
            if served.is_none() && !run.server.is_empty() {
                skipped += &format!("run {}: its server is not here\n", run.name);
                continue;
            }
            let before = served.map(Served::cpu_s);
            let name = if turns > 1 { format!("{}-{turn}", run.name) } else { run.name.clone() };
            let words = command_of(run, is_quick, &name);
            let Some(output) = programs.run(&words, &run.cpu, &out.join(format!("{name}.txt")))?
            else {
                skipped += &format!("run {}: no program {}\n", run.name, words[0]);
                continue;
            };
            if !output {
                return Err(Stop::Stage(format!("`{}` did not succeed", words.join(" "))));
            }
            if let (Some(served), Some(before)) = (served, before) {
                let used = served.cpu_s() - before;
                cpu += &format!("{turn}\t{}\t{}\t{used:.6}\n", run.name, run.server);
            }
        }
    }
    drop(servers);
    if !claim.servers.is_empty() {
        write("cpu.tsv", &cpu)?;
    }
    if !skipped.is_empty() {
        skipped.lines().for_each(|line| say(&format!("SKIPPED: {line}")));
        write("skipped.txt", &skipped)?;
    }
    say(&format!("wrote {}", out.display()));
    Ok(())
}

/// The words of a run; `{turn}` is the run's name with its turn.
fn command_of(run: &Run, is_quick: bool, name: &str) -> Vec<String> {
    let size = if is_quick { &run.quick } else { &run.full };
    words(&format!("{} {size}", run.command).replace("{turn}", name))
}

fn write_file(path: &PathBuf, text: &str) -> Outcome {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| Stop::Broken(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// A workspace with one claim, whose binary is a script.
    fn workspace(test: &str, definition: &str) -> (Scratch, Workspace, PathBuf) {
        let scratch = Scratch::new(test);
        scratch.write("benchmarks/definitions/a-claim.toml", definition);
        let binary = scratch.program("keyrack", "echo \"${0##*/} $*\"; [ \"$1\" != no ]");
        let workspace = Workspace::at(scratch.path());
        (scratch, workspace, binary)
    }

    const DEFINITION: &str = "[claim]\nabout = \"x\"\ndocs = \"y\"\nturns = 2\n\
        [[run]]\nname = \"ours\"\ncommand = \"keyrack bench 'a b' --to {out}/f\"\nfull = \"-n 9\"\n\
        quick = \"-q\"\n\
        [[run]]\nname = \"theirs\"\ncommand = \"original/mttest -j1\"\n\
        [[run]]\nname = \"other-name\"\ncommand = \"mttest -j1\"\n";

    #[test]
    fn a_claim_is_made_again_and_written_down() {
        let (scratch, workspace, binary) = workspace("bench-claim", DEFINITION);
        let (_, claim, text) = claims(&workspace).unwrap().remove(0);
        let out = scratch.path().join("out");
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        // What is there from before goes.
        write_file(&out.join("old.txt"), "old").unwrap();
        reproduce(&workspace, &binary, &out, &claim, &text, false).unwrap();
        assert!(!out.join("old.txt").exists());
        for turn in 1..=2 {
            let ours = read(&format!("ours-{turn}.txt"));
            // From the root, wherever that is.
            assert_eq!(ours, "keyrack bench a b --to out/f -n 9\n");
            assert_eq!(read(&format!("other-name-{turn}.txt")), "mttest -j1\n");
        }
        assert_eq!(read("definition.toml"), DEFINITION);
        assert!(read("machine.tsv").contains("\ncpus\t"), "{}", read("machine.tsv"));
        assert!(read("skipped.txt").contains("run theirs: no program original/mttest"));
        reproduce(&workspace, &binary, &out, &claim, &text, true).unwrap();
        assert!(read("ours.txt").ends_with("/f -q\n"), "{}", read("ours.txt"));
    }

    #[test]
    fn a_run_that_fails_fails_the_claim() {
        let definition = DEFINITION.replace("keyrack bench", "keyrack no");
        let (scratch, workspace, binary) = workspace("bench-fails", &definition);
        let (_, claim, text) = claims(&workspace).unwrap().remove(0);
        let out = scratch.path().join("out");
        let failed = reproduce(&workspace, &binary, &out, &claim, &text, true).unwrap_err();
        assert!(matches!(&failed, Stop::Stage(line) if line.contains("keyrack no")), "{failed:?}");
    }

    /// The definitions of this repository are whole, and say where their figures stand.
    #[test]
    fn every_definition_points_to_a_heading_of_the_docs() {
        let workspace = Workspace::find().unwrap();
        let claims = claims(&workspace).unwrap();
        assert!(claims.len() > 5);
        for (name, claim, _) in claims {
            let (page, heading) = claim.docs.split_once('#').expect("a page and a heading");
            let text = fs::read_to_string(workspace.root().join(page)).expect(page);
            let slug = |line: &str| {
                let title = line.trim_start_matches('#').trim().to_lowercase();
                let keep = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
                title.chars().filter(keep).collect::<String>().replace(' ', "-")
            };
            let found = text.lines().any(|line| line.starts_with('#') && slug(line) == heading);
            assert!(found, "{name}: no heading {heading} in {page}");
        }
    }
}
