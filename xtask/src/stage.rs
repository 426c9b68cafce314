//! A chore is a list of stages. A stage has a name, runs once, and its wall time is printed when it
//! ends, well or badly. The first stage that fails stops the list.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::output::say;
use crate::tally::Tally;

/// Why a chore ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The arguments make no sense. One line says why.
    Usage(String),
    /// The chore could not run: a tool is missing, the tree cannot be read.
    Broken(String),
    /// A named stage ran and the answer is no.
    Stage(String),
    /// As `Stage`, in a chore that ends with the closing line of [`Tally`].
    Failed(Tally),
}

impl Stop {
    /// The line for stderr, if there is something left to say.
    pub(crate) fn line(&self) -> Option<&str> {
        match self {
            Stop::Usage(line) | Stop::Broken(line) | Stop::Stage(line) => Some(line),
            Stop::Failed(_) => None,
        }
    }

    /// 1 when the answer is no, 2 when the chore could not run.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Stop::Usage(_) | Stop::Broken(_) => 2,
            Stop::Stage(_) | Stop::Failed(_) => 1,
        }
    }
}

/// What a stage or a chore returns.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Runs `work` under a heading and prints how long it took.
///
/// # Errors
/// Those of `work`.
pub(crate) fn stage<T>(name: &str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    say(&format!("== {name}"));
    let started = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    say(&format!("== {name}: {verdict}, {}", seconds(started.elapsed())));
    outcome
}

/// Runs a command with this process's streams and waits for it.
///
/// # Errors
/// `Broken` when it cannot be started, `Stage` when it exits with anything but 0.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = shown(command);
    let status = command
        .status()
        .map_err(|error| Stop::Broken(format!("cannot start `{shown}`: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Stop::Stage(format!("`{shown}` did not succeed ({status})")))
    }
}

/// The command as a person would type it, program name without its directory.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or(&program);
    let mut line = name.to_string();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// A duration as stage times are printed: `0.42 s`, `3 min 07 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole_s = duration.as_secs();
    if whole_s < 60 {
        format!("{:.2} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole_s / 60, whole_s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_no_from_could_not() {
        assert_eq!(Stop::Stage(String::new()).exit_code(), 1);
        assert_eq!(Stop::Failed(Tally::one_failure()).exit_code(), 1);
        assert_eq!(Stop::Usage(String::new()).exit_code(), 2);
        assert_eq!(Stop::Broken(String::new()).exit_code(), 2);
    }

    #[test]
    fn a_failing_program_fails_its_stage_and_a_missing_one_is_broken() {
        assert!(run(&mut Command::new("true")).is_ok());
        assert!(matches!(run(&mut Command::new("false")), Err(Stop::Stage(_))));
        assert!(matches!(run(&mut Command::new("no-such-program-here")), Err(Stop::Broken(_))));
    }

    #[test]
    fn a_stage_hands_on_what_its_work_returned() {
        assert_eq!(stage("a", || Ok(7)).ok(), Some(7));
        let failed: Outcome = stage("b", || Err(Stop::Stage("no".into())));
        assert!(matches!(failed, Err(Stop::Stage(line)) if line == "no"));
    }

    #[test]
    fn commands_are_shown_without_directories() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["fmt", "--all"]);
        assert_eq!(shown(&command), "cargo fmt --all");
    }

    #[test]
    fn durations_switch_to_minutes() {
        assert_eq!(seconds(Duration::from_millis(420)), "0.42 s");
        assert_eq!(seconds(Duration::from_secs(187)), "3 min 07 s");
    }
}
