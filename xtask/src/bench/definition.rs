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
//! command = "keyrack serve --listen memcached://127.0.0.1:41212"
//! address = "127.0.0.1:41212"             # answers when it is up
//! cpu = "1"                               # stays on that CPU, where there is one
//!
//! [[run]]
//! name = "gets"
//! command = "keyrack load -s 127.0.0.1:41212 --json {out}/gets.json"
//! full = "-t 5"                           # behind the command, and with --quick
//! quick = "-t 0.2"                        # this instead
//! server = "ours"                         # whose CPU time is recorded with it
//! ```
//!
//! `{out}` is the folder of the record, `{data}` a scratch folder that goes afterwards. Words are
//! split at blanks; single quotes hold one together. Of TOML there is what stands above: tables,
//! arrays of tables, strings in double quotes, whole numbers, comments.

/// A definition, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) about: String,
    pub(super) docs: String,
    pub(super) turns: u64,
    pub(super) features: String,
    pub(super) rustflags: String,
    pub(super) servers: Vec<Server>,
    pub(super) runs: Vec<Run>,
}

/// A process that lives while the runs are made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) address: String,
    pub(super) cpu: String,
}

/// One command.
#[derive(Debug, Default, PartialEq, Eq)]
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
/// The line, from 1, and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Claim, String> {
    let mut claim = Claim { turns: 1, ..Claim::default() };
    let mut table = "";
    for (index, raw) in text.lines().enumerate() {
        let line = raw.trim();
        let fail = |what: &str| Err(format!("line {}: {what}: {line}", index + 1));
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line {
            "[claim]" => table = "claim",
            "[[server]]" => {
                table = "server";
                claim.servers.push(Server::default());
            }
            "[[run]]" => {
                table = "run";
                claim.runs.push(Run::default());
            }
            _ if line.starts_with('[') => return fail("no such table"),
            _ => {
                let Some((key, value)) = line.split_once('=') else {
                    return fail("neither a table nor a key");
                };
                let Some(value) = value_of(value.trim()) else {
                    return fail("neither a string nor a whole number");
                };
                if !set(&mut claim, table, key.trim(), value) {
                    return fail("no such key here");
                }
            }
        }
    }
    check(&claim).map(|()| claim)
}

/// A string in quotes, or a number as it is; a comment may follow.
fn value_of(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix('"') else {
        let digits = text.split('#').next()?.trim();
        return digits.parse::<u64>().ok().map(|number| number.to_string());
    };
    let mut value = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => match letters.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                _ => return None,
            },
            letter => value.push(letter),
        }
    }
    let rest = letters.as_str().trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

fn set(claim: &mut Claim, table: &str, key: &str, value: String) -> bool {
    let place = match (table, key) {
        ("claim", "turns") => match value.parse() {
            Ok(turns @ 1..=1000) => {
                claim.turns = turns;
                return true;
            }
            _ => return false,
        },
        ("claim", "about") => &mut claim.about,
        ("claim", "docs") => &mut claim.docs,
        ("claim", "features") => &mut claim.features,
        ("claim", "rustflags") => &mut claim.rustflags,
        ("server", _) => {
            let Some(server) = claim.servers.last_mut() else { return false };
            match key {
                "name" => &mut server.name,
                "command" => &mut server.command,
                "address" => &mut server.address,
                "cpu" => &mut server.cpu,
                _ => return false,
            }
        }
        ("run", _) => {
            let Some(run) = claim.runs.last_mut() else { return false };
            match key {
                "name" => &mut run.name,
                "command" => &mut run.command,
                "full" => &mut run.full,
                "quick" => &mut run.quick,
                "server" => &mut run.server,
                "cpu" => &mut run.cpu,
                _ => return false,
            }
        }
        _ => return false,
    };
    *place = value;
    true
}

fn check(claim: &Claim) -> Result<(), String> {
    if claim.about.is_empty() || claim.docs.is_empty() || claim.runs.is_empty() {
        return Err("a claim has `about`, `docs` and at least one [[run]]".to_owned());
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
    let whole = |server: &&Server| {
        !server.name.is_empty() && !server.command.is_empty() && !server.address.is_empty()
    };
    match claim.servers.iter().find(|server| !whole(server)) {
        None => Ok(()),
        Some(server) => Err(format!("server '{}' lacks name, command or address", server.name)),
    }
}

/// The words of a command line.
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
                        [[server]]\nname = \"s\"\ncommand = \"c\"\naddress = \"a\"\n\
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
            ("turns = 3", "turns = 0", "line 5"),
            ("turns = 3", "turms = 3", "line 5: no such key"),
            ("[[server]]", "[server]", "no such table"),
            ("name = \"one\"", "name = \"../one\"", "no plain name"),
            ("about =", "# about =", "`about`"),
            ("address = \"a\"\n", "", "lacks name, command or address"),
            ("command = \"x\"\n", "command = x\n", "neither a string"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
