//! Golden scripts: commands above a line, answers below it.
//!
//! ```text
//!   # A comment, kept when the file is rewritten.
//!   > put a 1
//!   > get a
//!   ---
//!   ok
//!   1
//! ```
//!
//! A file is a row of such blocks with blank lines between them. Arguments are words as in the
//! module `token`. The commands:
//!
//! ```text
//!   put K V            ok
//!   get K              the value, or absent
//!   remove K           existed or absent, also where the engine did not look
//!   update K keep | remove | put V | append V | toggle V
//!                      saw and the old value; toggle removes a present key, stores an absent one
//!   scan LOW HIGH [stop N]   rows, then their count; HIGH is * for no bound; N counts from 1
//!   rev LOW HIGH [stop N]    the same in descending order
//!   mget K...          one line for each index
//!   batch { put K V | remove K }
//!   session NAME       goes on in the session of that name, opened at its first use
//!   snapshot           takes a snapshot, in place of the one before
//!   snap get K, snap scan LOW HIGH [stop N]
//! ```
//!
//! [`run_script`] returns the file as it would be if the engine's answers were right, so passing is
//! equality of two texts and rewriting is writing one. An error of the engine is an answer too:
//! `error: usage` and so on. Where an engine has no snapshots, blocks that use them keep the
//! answers that they came with, and a note says so.

use crate::Error;
use crate::operation::{
    Answer, Bytes, Decision, Operation, Range, perform, snapshot_get, snapshot_scan,
};
use crate::token;
use keyrack_store::{Batch, Error as StoreError, Removed, Session, Snapshot, Store};
use std::collections::BTreeMap;

/// What a script looks like after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptRun {
    /// The script with the answers of this store.
    pub text: String,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

enum Command {
    Operation(Operation),
    Session(String),
    Snapshot,
    SnapshotGet(Bytes),
    SnapshotScan(Range),
}

impl Command {
    fn needs_snapshot(&self) -> bool {
        matches!(self, Command::Snapshot | Command::SnapshotGet(_) | Command::SnapshotScan(_))
    }
}

/// Runs `script` over `store`, which should be empty.
///
/// # Errors
/// [`Error::Script`] where a line is not in the language; commands before it have been run.
pub fn run_script(store: &dyn Store, script: &str) -> Result<ScriptRun, Error> {
    let mut runner = Runner::new(store);
    let mut text = String::new();
    let mut notes = Vec::new();
    let mut block: Vec<(Command, usize)> = Vec::new();
    let mut lines = script.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        text.push_str(line);
        text.push('\n');
        if let Some(command) = line.strip_prefix("> ") {
            let parsed = parse(command);
            let parsed = parsed.map_err(|message| Error::Script { line: number, message })?;
            block.push((parsed, number));
        } else if line == "---" {
            let commands: Vec<(Command, usize)> = std::mem::take(&mut block);
            let given: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.is_empty()).collect();
            let answers = runner.run(&commands)?;
            if commands.iter().any(|(command, _)| command.needs_snapshot()) && !runner.snapshots {
                notes.push(format!("line {number}: no snapshots, answers not compared"));
                given.iter().for_each(|line| text.extend([line, "\n"]));
            } else {
                answers.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
            }
            text.push('\n');
        } else if !(line.is_empty() || line.starts_with('#')) {
            let message = format!("'{line}' is none of '> command', '# comment' and '---'");
            return Err(Error::Script { line: number, message });
        }
    }
    if let Some((_, line)) = block.first() {
        return Err(Error::Script { line: *line, message: "no '---' follows".to_owned() });
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(ScriptRun { text, notes })
}

struct Runner<'s> {
    store: &'s dyn Store,
    sessions: BTreeMap<String, Box<dyn Session + 's>>,
    session: String,
    snapshot: Option<Box<dyn Snapshot + 's>>,
    /// False once the store has said that it has no snapshots.
    snapshots: bool,
}

impl<'s> Runner<'s> {
    fn new(store: &'s dyn Store) -> Self {
        let (sessions, session) = (BTreeMap::new(), "main".to_owned());
        Runner { store, sessions, session, snapshot: None, snapshots: true }
    }

    fn run(&mut self, commands: &[(Command, usize)]) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        for (command, line) in commands {
            match self.command(command) {
                Ok(Some(answer)) => lines.extend(answer.lines()),
                Ok(None) if self.snapshots => {
                    let message = "no snapshot was taken".to_owned();
                    return Err(Error::Script { line: *line, message });
                }
                Ok(None) => {}
                Err(error) => lines.push(format!("error: {}", kind(&error))),
            }
        }
        Ok(lines)
    }

    /// The answer, or `None` where there is no snapshot to ask.
    fn command(&mut self, command: &Command) -> keyrack_store::Result<Option<Answer>> {
        match command {
            Command::Session(name) => {
                self.session.clone_from(name);
                self.session()?;
                Ok(Some(Answer::Done))
            }
            Command::Snapshot => {
                self.snapshot = None;
                self.snapshot = self.store.snapshot()?;
                self.snapshots = self.snapshot.is_some();
                Ok(self.snapshots.then_some(Answer::Done))
            }
            Command::SnapshotGet(key) => {
                self.snapshot.as_deref().map(|snapshot| snapshot_get(snapshot, key)).transpose()
            }
            Command::SnapshotScan(range) => {
                self.snapshot.as_deref().map(|snapshot| snapshot_scan(snapshot, range)).transpose()
            }
            Command::Operation(operation) => self.operation(operation).map(Some),
        }
    }

    fn operation(&mut self, operation: &Operation) -> keyrack_store::Result<Answer> {
        let removals_tell = self.store.info().removals_tell;
        let session = self.session()?;
        // An engine that does not look prints what a look would have found, so that one file fits
        // all engines. One that claims to have looked prints its claim, and one that says that its
        // removals tell has to.
        let before = match operation {
            Operation::Remove(key) => session.get(key, &mut |_| {})?,
            _ => false,
        };
        Ok(match perform(session, operation)? {
            Answer::Removed(Removed::Unknown) if !removals_tell => {
                Answer::Removed(if before { Removed::Existed } else { Removed::Absent })
            }
            answer => answer,
        })
    }

    fn session(&mut self) -> keyrack_store::Result<&mut (dyn Session + 's)> {
        if !self.sessions.contains_key(&self.session) {
            self.sessions.insert(self.session.clone(), self.store.session()?);
        }
        match self.sessions.get_mut(&self.session) {
            Some(session) => Ok(session.as_mut()),
            None => Err(StoreError::usage("no such session")),
        }
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Usage { .. } => "usage",
        StoreError::OutOfMemory { .. } => "out-of-memory",
        StoreError::Io { .. } => "io",
        StoreError::Corruption { .. } => "corruption",
        StoreError::Poisoned { .. } => "poisoned",
        StoreError::Closed => "closed",
        _ => "of a new kind",
    }
}

fn parse(line: &str) -> Result<Command, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let bytes = |word: &&str| token::parse(word);
    let operation = match words.as_slice() {
        ["put", key, value] => Operation::Put(bytes(key)?, bytes(value)?),
        ["get", key] => Operation::Get(bytes(key)?),
        ["remove", key] => Operation::Remove(bytes(key)?),
        ["update", key, decision @ ..] => Operation::Update(bytes(key)?, parse_decision(decision)?),
        ["scan", range @ ..] => Operation::Scan(parse_range(range, false)?),
        ["rev", range @ ..] => Operation::Scan(parse_range(range, true)?),
        ["mget", keys @ ..] => {
            Operation::MultiGet(keys.iter().map(bytes).collect::<Result<_, _>>()?)
        }
        ["batch", writes @ ..] => Operation::Apply(parse_batch(writes)?),
        ["session", name] => return Ok(Command::Session((*name).to_owned())),
        ["snapshot"] => return Ok(Command::Snapshot),
        ["snap", "get", key] => return Ok(Command::SnapshotGet(bytes(key)?)),
        ["snap", "scan", range @ ..] => {
            return Ok(Command::SnapshotScan(parse_range(range, false)?));
        }
        _ => return Err(format!("'{line}' is not a command")),
    };
    Ok(Command::Operation(operation))
}

fn parse_decision(words: &[&str]) -> Result<Decision, String> {
    match words {
        ["keep"] => Ok(Decision::Keep),
        ["remove"] => Ok(Decision::Remove),
        ["put", value] => Ok(Decision::Put(token::parse(value)?)),
        ["append", tail] => Ok(Decision::Append(token::parse(tail)?)),
        ["toggle", value] => Ok(Decision::Toggle(token::parse(value)?)),
        _ => Err(format!("'{}' is not a decision", words.join(" "))),
    }
}

fn parse_range(words: &[&str], reverse: bool) -> Result<Range, String> {
    let (low, high, stop) = match words {
        [low, high] => (low, high, None),
        [low, high, "stop", count] => {
            let count = count.parse::<u64>().ok().filter(|&count| count > 0);
            (low, high, Some(count.ok_or_else(|| "stop needs a count from 1".to_owned())?))
        }
        _ => return Err(format!("'{}' is not LOW HIGH [stop N]", words.join(" "))),
    };
    let high = if *high == "*" { None } else { Some(token::parse(high)?) };
    Ok(Range { low: token::parse(low)?, high, stop, reverse })
}

fn parse_batch(words: &[&str]) -> Result<Batch, String> {
    let mut batch = Batch::new();
    let mut rest = words;
    loop {
        rest = match rest {
            [] => return Ok(batch),
            ["put", key, value, rest @ ..] => {
                batch.put(&token::parse(key)?, &token::parse(value)?);
                rest
            }
            ["remove", key, rest @ ..] => {
                batch.remove(&token::parse(key)?);
                rest
            }
            [word, ..] => return Err(format!("'{word}' is neither put K V nor remove K")),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::ModelStore;

    #[test]
    fn a_script_comes_back_with_its_answers() {
        let script =
            "# Two answers.\n> put a 1\n> get a\n---\nwrong\nlines\n\n\n> scan \"\" *\n---";
        let run = run_script(&ModelStore::new(), script).unwrap();
        let expected = "# Two answers.\n> put a 1\n> get a\n---\nok\n1\n\n\n> scan \"\" *\n---\n\
                        a = 1\nrows: 1\n";
        assert_eq!(run.text, expected);
        assert_eq!(run_script(&ModelStore::new(), expected).unwrap().text, expected);
        assert!(run.notes.is_empty());
    }

    #[test]
    fn mistakes_in_a_script_are_named_with_their_line() {
        let table = [
            ("> put a\n---\n", "line 1: 'put a' is not a command"),
            ("# c\n\nput a 1\n", "line 3: 'put a 1' is none of"),
            ("> get a\n", "line 1: no '---' follows"),
            ("> scan a\n---\n", "is not LOW HIGH"),
            ("> scan a b stop 0\n---\n", "stop needs a count"),
            ("> batch put a 1 get b\n---\n", "'get' is neither"),
            ("> update a\n---\n", "is not a decision"),
            ("> get \\x0\n---\n", "bad \\x escape"),
            ("> snap get a\n---\n", "line 1: no snapshot was taken"),
        ];
        for (script, part) in table {
            let error = run_script(&ModelStore::new(), script).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
