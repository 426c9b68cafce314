//! An error of the command line in one line, with the nearest name that exists.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use keyrack_store::nearest;

/// Prints help or version, or one line about what is wrong. Returns the exit status.
pub fn explain(error: &clap::Error, command: &Command, argv: &[String]) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            crate::print(&error.render().to_string())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            crate::say!("{}", error.render().to_string().trim_end());
            crate::COULD_NOT
        }
        _ => {
            // Commands have commands: the last one that is named is the one that was meant.
            let mut named = command;
            for word in argv.iter().skip(1) {
                match named.find_subcommand(word) {
                    Some(inner) => named = inner,
                    None => break,
                }
            }
            crate::refuse("keyrack", &usage_line(error, named));
            crate::COULD_NOT
        }
    }
}

/// What is wrong with a command line, in one line with the nearest valid name.
#[must_use]
pub fn usage_line(error: &clap::Error, command: &Command) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let given = text(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let flags: Vec<String> = command
                .get_arguments()
                .filter_map(|arg| arg.get_long())
                .map(|long| format!("--{long}"))
                .collect();
            let hint = match nearest(&given, flags.iter().map(String::as_str)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "see --help".to_owned(),
            };
            format!("unknown option '{given}'; {hint}")
        }
        ErrorKind::InvalidSubcommand => {
            let given = text(ContextKind::InvalidSubcommand);
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            keyrack_store::unknown("command", &given, &names)
        }
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(names)) => {
                format!("missing {}; see --help", names.join(" and "))
            }
            _ => "an argument is missing; see --help".to_owned(),
        },
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            let name = given.split_whitespace().next().unwrap_or(&given).to_owned();
            format!("{name} needs a value; see --help")
        }
        _ => {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}
