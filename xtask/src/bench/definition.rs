//! A claim as data: `benchmarks/definitions/NAME.toml`.
//!
//! ```toml
//! [claim]
//! about = "one line"
//! docs = "docs/results.md#heading"   # where the figure stands
//! turns = 5                               # how often all runs are made, in order; 1 by itself
//! features = "rocksdb"                    # of the binary, beside its defaults
//! rustflags = "-C target-cpu=native"
//!
//! [[server]]                              # lives while the runs are made
//! name = "ours"
//! command = "keyrack serve --listen memcached://127.0.0.1:21212"
//! address = "127.0.0.1:21212"             # answers when it is up
//! cpu = "1"                               # stays on that CPU, where there is one
//!
//! [[run]]
//! name = "gets"
//! command = "keyrack load -s 127.0.0.1:21212 --json {out}/gets.json"
//! full = "-t 5"                           # behind the command, and with --quick
//! quick = "-t 0.2"                        # this instead
//! server = "ours"                         # whose CPU time is recorded with it
//! ```
//!
//! `{out}` is the folder of the record, `{data}` a scratch folder that goes afterwards. Words are
//! split at blanks; single quotes hold one together.

use std::net::SocketAddr;

use toml::{Table, Value};

/// How often the runs of a claim are made, at most.
const TURNS_MAX: i64 = 1000;

/// The ports that the kernel gives to connections by itself begin here. Who asks such a port again
/// and again whether anybody answers is given that port at last, is connected to itself, and keeps
/// the server from it.
const PORT_END: u16 = 32_768;

/// A definition, read.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) about: String,
    pub(super) docs: String,
    pub(super) turns: i64,
    pub(super) features: String,
    pub(super) rustflags: String,
    pub(super) servers: Vec<Server>,
    pub(super) runs: Vec<Run>,
}

/// A process that lives while the runs are made.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) address: SocketAddr,
    pub(super) cpu: String,
}

/// One command.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) full: String,
    pub(super) quick: String,
    pub(super) server: String,
    pub(super) cpu: String,
}

/// Reads a definition.
///
/// # Errors
/// What is wrong with it, with the line where the text is not TOML.
pub(super) fn parse(text: &str) -> Result<Claim, String> {
    let mut root: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let Some(Value::Table(mut claim)) = root.remove("claim") else {
        return Err("there is no table [claim]".to_owned());
    };
    let turns = claim.remove("turns").unwrap_or(Value::Integer(1));
    let turns = turns.as_integer().ok_or("turns is not a whole number")?;
    let [about, docs, features, rustflags] =
        strings(&claim, ["about", "docs", "features", "rustflags"])?;
    let server = |table: &Table| {
        let [name, command, address, cpu] = strings(table, ["name", "command", "address", "cpu"])?;
        if name.is_empty() || command.is_empty() || address.is_empty() {
            return Err(format!("server '{name}' lacks name, command or address"));
        }
        let parsed = address.parse().ok().filter(|parsed: &SocketAddr| parsed.port() < PORT_END);
        let address = parsed.ok_or_else(|| {
            format!("server '{name}': '{address}' is no address with a port below {PORT_END}")
        })?;
        Ok(Server { name, command, address, cpu })
    };
    let run = |table: &Table| {
        let keys = ["name", "command", "full", "quick", "server", "cpu"];
        let [name, command, full, quick, server, cpu] = strings(table, keys)?;
        Ok(Run { name, command, full, quick, server, cpu })
    };
    let (servers, runs) = (tables(&mut root, "server", server)?, tables(&mut root, "run", run)?);
    if let Some(other) = root.keys().next() {
        return Err(format!("there is no table [{other}]"));
    }
    let claim = Claim { about, docs, turns, features, rustflags, servers, runs };
    check(&claim).map(|()| claim)
}

/// What is read from each table `[[name]]`, of which there may be none.
fn tables<T>(
    root: &mut Table,
    name: &str,
    read: impl Fn(&Table) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let tables = root.remove(name).unwrap_or(Value::Array(Vec::new()));
    let tables = tables.as_array().ok_or_else(|| format!("tables of this kind are [[{name}]]"))?;
    let found = tables.iter().map(|table| read(table.as_table().ok_or("not a table")?));
    found.collect()
}

/// The strings under these keys, which are all that there may be. A missing one is empty.
fn strings<const N: usize>(table: &Table, keys: [&str; N]) -> Result<[String; N], String> {
    for (key, value) in table {
        if !keys.contains(&key.as_str()) || !value.is_str() {
            return Err(format!("no such key here, or not a string: {key} = {value}"));
        }
    }
    Ok(keys.map(|key| table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()))
}

fn check(claim: &Claim) -> Result<(), String> {
    if claim.about.is_empty() || claim.docs.is_empty() || claim.runs.is_empty() {
        return Err("a claim has `about`, `docs` and at least one [[run]]".to_owned());
    }
    if !(1..=TURNS_MAX).contains(&claim.turns) {
        return Err(format!("turns must be 1 to {TURNS_MAX} (got {})", claim.turns));
    }
    let names: Vec<&str> = claim.runs.iter().map(|run| run.name.as_str()).collect();
    for (index, run) in claim.runs.iter().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if run.name.is_empty() || !run.name.chars().all(plain) || run.command.is_empty() {
            return Err(format!("run '{}' has no command, or no plain name", run.name));
        }
        if names[..index].contains(&run.name.as_str()) {
            return Err(format!("two runs are called '{}'", run.name));
        }
        let known = claim.servers.iter().any(|server| server.name == run.server);
        if !run.server.is_empty() && !known {
            return Err(format!("run '{}': there is no server '{}'", run.name, run.server));
        }
    }
    Ok(())
}

pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut has_begun) =
        (Vec::new(), String::new(), false, false);
    for letter in line.chars() {
        match letter {
            '\'' => (is_quoted, has_begun) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if std::mem::take(&mut has_begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => {
                word.push(letter);
                has_begun = true;
            }
        }
    }
    if has_begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# why\n[claim]\nabout = \"a \\\"b\\\"\"  # note\ndocs = \"d\"\nturns = 3\n\
                        [[server]]\nname = \"s\"\ncommand = \"c\"\naddress = \"127.0.0.1:2117\"\n\
                        [[run]]\nname = \"one\"\ncommand = \"x 'y z'\"\nserver = \"s\"\n\
                        [[run]]\nname = \"two\"\ncommand = \"x\"\nquick = \"--few\"\n";

    #[test]
    fn a_definition_is_read() {
        let claim = parse(GOOD).unwrap();
        assert_eq!((claim.about.as_str(), claim.turns), ("a \"b\"", 3));
        assert_eq!((claim.runs.len(), claim.servers.len()), (2, 1));
        assert_eq!(claim.runs[1].quick, "--few");
        assert_eq!(words(&claim.runs[0].command), ["x", "y z"]);
        assert_eq!(words("  a   '' b'c d'e "), ["a", "", "bc de"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to, why) in [
            ("[[run]]\nname = \"two\"", "[[run]]\nname = \"one\"", "two runs are called 'one'"),
            ("server = \"s\"", "server = \"t\"", "no server 't'"),
            ("turns = 3", "turns = 0", "turns must be 1 to 1000 (got 0)"),
            ("turns = 3", "turms = 3", "no such key here, or not a string: turms"),
            ("[[server]]", "[server]", "are [[server]]"),
            ("name = \"one\"", "name = \"../one\"", "no plain name"),
            ("about =", "# about =", "`about`"),
            ("address = \"127.0.0.1:2117\"\n", "", "lacks name, command or address"),
            ("127.0.0.1:2117", "localhost", "'localhost' is no address with a port below 32768"),
            ("2117", "32768", "server 's': '127.0.0.1:32768' is no address with a port below"),
            ("command = \"x\"\n", "command = x\n", "line 16"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
