//! Command lines of old names: tables of options, numbers as those tools write them, and what all
//! of them do with a line that cannot be meant.
//!
//! ```text
//!   table of Opt --command--> clap --parse--> ArgMatches --read, suffixed, ..--> Options of a tool
//!        '---------list-----> the help          '------> Exit: Help, or one line of Usage
//! ```

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::say;

/// No letter.
pub(super) const NONE: char = '\0';
/// Threads, children and trials, at most.
const COUNT_MAX: u32 = 1024;
/// Seconds, at most.
const SECONDS_MAX: f64 = 1e9;

/// An option of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt {
    pub(super) name: &'static str,
    pub(super) letter: char,
    /// What its value is called; empty for an option without one.
    pub(super) value: &'static str,
    /// Without help it is taken and not listed.
    pub(super) help: &'static str,
    /// Other long names.
    pub(super) others: &'static [&'static str],
    /// Whether all its values count, not the last alone.
    pub(super) is_list: bool,
}

pub(super) const fn value(
    name: &'static str,
    letter: char,
    value: &'static str,
    help: &'static str,
) -> Opt {
    Opt { name, letter, value, help, others: &[], is_list: false }
}

/// An option without a value.
pub(super) const fn flag(name: &'static str, letter: char, help: &'static str) -> Opt {
    value(name, letter, "", help)
}

impl Opt {
    /// The same, with other long names.
    pub(super) const fn or(self, others: &'static [&'static str]) -> Opt {
        Opt { others, ..self }
    }

    /// The same, all of whose values count.
    pub(super) const fn list(self) -> Opt {
        Opt { is_list: true, ..self }
    }

    /// How a message names it: by its letter, if it has one.
    pub(super) fn shown(&self) -> String {
        if self.letter == NONE { format!("--{}", self.name) } else { format!("-{}", self.letter) }
    }

    fn arg(&self) -> Arg {
        let mut arg = Arg::new(self.name).long(self.name).aliases(self.others);
        if self.letter != NONE {
            arg = arg.short(self.letter);
        }
        match (self.value.is_empty(), self.is_list) {
            (true, _) => arg.action(ArgAction::SetTrue),
            (false, true) => arg.action(ArgAction::Append).allow_hyphen_values(true),
            (false, false) => arg.action(ArgAction::Set).allow_hyphen_values(true),
        }
    }
}

/// The command line with these options. Of an option that is given twice the last one counts.
pub(super) fn command(name: &'static str, options: &[Opt]) -> Command {
    Command::new(name)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .args_override_self(true)
        .arg(Arg::new("help").long("help").action(ArgAction::SetTrue))
        .args(options.iter().map(Opt::arg))
}

/// Why there are no options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Help was asked for.
    Help,
    /// One line about what is wrong.
    Usage(String),
}

/// Reads a command line, program name first, and makes options of it.
pub(super) fn parse<O>(
    argv: &[String],
    command: impl Fn() -> Command,
    of: impl FnOnce(&ArgMatches) -> Result<O, String>,
) -> Result<O, Exit> {
    let matches = command()
        .try_get_matches_from(argv)
        .map_err(|error| Exit::Usage(keyrack_console::usage_line(&error, &command())))?;
    if matches.get_flag("help") {
        return Err(Exit::Help);
    }
    of(&matches).map_err(Exit::Usage)
}

/// A tool by its old name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// What a person is told after a refusal.
    pub(super) hint: &'static str,
    /// The exit status of a refusal.
    pub(super) refused: u8,
}

impl Tool {
    /// Prints the help, or says what is wrong, or runs. Returns the exit status.
    pub(super) fn main<O>(
        &self,
        options: Result<O, Exit>,
        help: impl FnOnce() -> String,
        run: impl FnOnce(&O) -> Result<u8, String>,
    ) -> u8 {
        let refuse = |why: &str| {
            keyrack_console::refuse(self.name, why);
            self.refused
        };
        match options {
            Ok(options) => run(&options).unwrap_or_else(|why| refuse(&why)),
            Err(Exit::Help) => keyrack_console::print(&help()),
            Err(Exit::Usage(why)) => {
                let status = refuse(&why);
                say!("{}", self.hint);
                status
            }
        }
    }
}

pub(super) fn text<'m>(matches: &'m ArgMatches, name: &str) -> Option<&'m str> {
    matches.get_one::<String>(name).map(String::as_str)
}

/// What `text` is, by `parse`; or a line that names the option and what it expects.
pub(super) fn read<T>(
    text: Option<&str>,
    option: &str,
    wanted: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = text else { return Ok(None) };
    let parsed = parse(text).ok_or_else(|| format!("{option} expects {wanted}, not '{text}'"))?;
    Ok(Some(parsed))
}

/// What [`count`] expects.
pub(super) const COUNT: &str = "a number from 1 to 1024";

/// How many threads, children or trials.
pub(super) fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count))
}

/// Seconds, in which a run may be bounded.
pub(super) fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))
}

/// What [`suffixed`] expects.
pub(super) const SUFFIXED: &str = "a number such as 5000 or 1.5m";

/// A number with a decimal suffix: k, m, g or b.
pub(super) fn suffixed(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (end, 'k' | 'K') => (&text[..end], 1e3),
        (end, 'm' | 'M') => (&text[..end], 1e6),
        (end, 'g' | 'G' | 'b' | 'B') => (&text[..end], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().ok()? * factor;
    (0.0..1e19).contains(&number).then_some(number as u64)
}

/// Threads when nobody says how many: one for each processor.
pub(super) fn processors() -> u32 {
    let found = std::thread::available_parallelism();
    found.ok().and_then(|count| u32::try_from(count.get()).ok()).unwrap_or(1).min(COUNT_MAX)
}

/// Which CPUs threads are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// The first, and the distance to the next.
    From(usize, usize),
    /// The first ones; they go on behind the last of the list.
    List(Vec<usize>),
}

impl Cores {
    /// What [`Cores::parse`] expects.
    pub(super) const EXPECTED: &'static str = "FIRST, FIRST+STRIDE or A,B,C";

    pub(super) fn parse(text: &str) -> Option<Cores> {
        if let Some((first, stride)) = text.split_once('+') {
            return Some(Cores::From(first.parse().ok()?, stride.parse().ok()?));
        }
        let list: Option<Vec<usize>> = text.split(',').map(|core| core.parse().ok()).collect();
        match list?.as_slice() {
            [first] => Some(Cores::From(*first, 1)),
            list => Some(Cores::List(list.to_vec())),
        }
    }

    /// The CPU of each of so many threads, of those that this process may use.
    pub(super) fn allowed(&self, threads: u32, allowed: &[usize]) -> Result<Vec<usize>, String> {
        let chosen = self.of(threads);
        match chosen.iter().find(|cpu| !allowed.is_empty() && !allowed.contains(cpu)) {
            Some(cpu) => {
                let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
                Err(format!("--cores: this process may not use CPU {cpu} (but {})", list.join(",")))
            }
            None => Ok(chosen),
        }
    }

    /// The CPU of each of so many threads.
    fn of(&self, threads: u32) -> Vec<usize> {
        let (head, next, stride) = match self {
            Cores::From(first, stride) => (&[][..], *first, *stride),
            Cores::List(list) => (list.as_slice(), list.last().map_or(0, |last| last + 1), 1),
        };
        let tail = (0..).map(|index: usize| next.saturating_add(index.saturating_mul(stride)));
        head.iter().copied().chain(tail).take(threads as usize).collect()
    }
}

/// Appends a line of help for each option that has any: `  -j, --threads=THREADS   Run with ..`.
pub(super) fn list(text: &mut String, options: &[Opt]) {
    for option in options.iter().filter(|option| !option.help.is_empty()) {
        let short = match option.letter {
            NONE => "   ".to_owned(),
            letter => format!("-{letter},"),
        };
        let equals = if option.value.is_empty() { "" } else { "=" };
        let mut name = format!("--{}{equals}{}", option.name, option.value);
        for other in option.others {
            name.push_str(&format!(", --{other}"));
        }
        text.push_str(&format!("  {short} {name:<25} {}\n", option.help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_decimal_suffixes() {
        for (text, limit) in [
            ("0", 0),
            ("12", 12),
            ("1.5k", 1500),
            ("2M", 2_000_000),
            ("1g", 1_000_000_000),
            ("3b", 3_000_000_000),
        ] {
            assert_eq!(suffixed(text), Some(limit), "{text}");
        }
        for text in ["", "k", "-1", "1x", "10kk", "nan", "1e30", "\u{e9}"] {
            assert_eq!(suffixed(text), None, "{text}");
        }
    }

    #[test]
    fn cores_are_dealt_out() {
        for (text, expected) in [
            ("3", Some(vec![3, 4, 5, 6])),
            ("0+2", Some(vec![0, 2, 4, 6])),
            ("5+0", Some(vec![5, 5, 5, 5])),
            ("7,1", Some(vec![7, 1, 2, 3])),
            ("4,3,2,1,0", Some(vec![4, 3, 2, 1])),
            ("", None),
            ("x", None),
            ("1,", None),
            ("-1", None),
            ("1+2+3", None),
        ] {
            assert_eq!(Cores::parse(text).map(|cores| cores.of(4)), expected, "{text}");
        }
        let cores = Cores::parse("1+2").unwrap();
        assert_eq!(cores.allowed(2, &[0, 1, 2, 3]), Ok(vec![1, 3]));
        assert_eq!(cores.allowed(2, &[]), Ok(vec![1, 3]));
        assert!(cores.allowed(3, &[0, 1, 3]).unwrap_err().contains("CPU 5 (but 0,1,3)"));
    }

    #[test]
    fn an_option_has_its_names_and_the_last_value_counts() {
        let options = [
            value("port", 'p', "PORT", "Port").or(&["fsp"]),
            value("test", NONE, "TEST", "Test").list(),
            flag("quiet", 'q', "Say less"),
            value("secret", NONE, "X", ""),
        ];
        let words = ["tool", "-p1", "--fsp", "2", "--test=a", "-q", "--test", "b", "--secret=-1"];
        let matches = command("tool", &options).try_get_matches_from(words).unwrap();
        assert_eq!((text(&matches, "port"), matches.get_flag("quiet")), (Some("2"), true));
        assert_eq!(matches.get_many::<String>("test").unwrap().len(), 2);
        assert_eq!(text(&matches, "secret"), Some("-1"));
        let mut help = String::new();
        list(&mut help, &options);
        assert!(help.starts_with("  -p, --port=PORT, --fsp "), "{help}");
        assert!(help.contains("\n  -q, --quiet  ") && !help.contains("secret"), "{help}");
        assert_eq!((options[0].shown(), options[1].shown()), ("-p".into(), "--test".into()));
    }
}
