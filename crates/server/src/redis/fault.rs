//! Why a command failed, in the words that Redis' clients look for.
//!
//! The first word of an error is its kind; libraries make classes of it. What a client sent is
//! repeated in an error only where Redis does, and the writer takes line ends out of it.

use keyrack_store::Error;

/// The result of a handler, whose reply is already written.
pub(crate) type Done = Result<(), Fault>;

/// An error that becomes the reply.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The whole line without its minus sign.
    Text(&'static str),
    /// The same, made for the case.
    Made(String),
    /// The store's error.
    Store(Error),
    /// The row is the header of the large hash with this id. Commands on hashes go on from it.
    Large(u64),
    /// The hash has to become large first.
    Grown,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Store(error)
    }
}

impl Fault {
    pub(crate) const WRONG_TYPE: Fault =
        Fault::Text("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Fault = Fault::Text("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Fault =
        Fault::Text("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Fault = Fault::Text("ERR value is not a valid float");
    pub(crate) const OVERFLOW: Fault = Fault::Text("ERR increment or decrement would overflow");
    pub(crate) const NOT_FINITE: Fault = Fault::Text("ERR increment would produce NaN or Infinity");
    pub(crate) const INFINITE: Fault = Fault::Text("ERR value is NaN or Infinity");
    pub(crate) const HASH_NOT_AN_INTEGER: Fault = Fault::Text("ERR hash value is not an integer");
    pub(crate) const HASH_NOT_A_FLOAT: Fault = Fault::Text("ERR hash value is not a float");
    pub(crate) const NO_SUCH_KEY: Fault = Fault::Text("ERR no such key");
    pub(crate) const NOT_POSITIVE: Fault =
        Fault::Text("ERR value is out of range, must be positive");
    pub(crate) const OUT_OF_RANGE: Fault = Fault::Text("ERR value is out of range");
    pub(crate) const OFFSET: Fault = Fault::Text("ERR offset is out of range");
    pub(crate) const TOO_LONG: Fault =
        Fault::Text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const CURSOR: Fault = Fault::Text("ERR invalid cursor");
    pub(crate) const DB_INDEX: Fault = Fault::Text("ERR DB index is out of range");
    pub(crate) const NO_AUTH: Fault = Fault::Text("NOAUTH Authentication required.");
    pub(crate) const WRONG_PASS: Fault =
        Fault::Text("WRONGPASS invalid username-password pair or user is disabled.");
    pub(crate) const EXEC_ABORT: Fault =
        Fault::Text("EXECABORT Transaction discarded because of previous errors.");
    pub(crate) const PATTERN: Fault = Fault::Text("ERR the pattern takes too many steps to match");
    pub(crate) const BUSY_HASH: Fault =
        Fault::Text("ERR other clients replace the hash all the time; try again");
    pub(crate) const CLEARED: Fault = Fault::Text("ERR all keys were removed meanwhile");
    pub(crate) const TOO_MANY_DRAWS: Fault =
        Fault::Text("ERR at most 16384 fields of a large hash are drawn with repetition");
    pub(crate) const MEMORY: Fault =
        Fault::Text("ERR out of memory: connections hold what --clients-memory-max allows");
    pub(crate) const REPLY_TOO_LARGE: Fault =
        Fault::Text("ERR the reply would be too large; use SCAN, or KR.RANGE with LIMIT");

    pub(crate) fn arity(name: &str, parent: Option<&str>) -> Fault {
        Fault::Made(match parent {
            Some(parent) => {
                format!("ERR wrong number of arguments for '{parent}|{name}' command")
            }
            None => format!("ERR wrong number of arguments for '{name}' command"),
        })
    }

    /// An argument above the limit, whose bytes were dropped.
    pub(crate) fn argument_too_long(bytes_max: u64) -> Fault {
        Fault::Made(format!(
            "ERR an argument exceeds the {bytes_max} bytes of proto-max-bulk-len (--value-max); \
             the command was not carried out"
        ))
    }

    /// A command or transaction that would block other clients for too long.
    pub(crate) fn too_much_work(units_max: u64) -> Fault {
        Fault::Made(format!(
            "ERR the command or transaction would take more than {units_max} units of work \
             (--transaction-work-max); nothing was changed"
        ))
    }

    pub(crate) fn expire_time(command: &str) -> Fault {
        Fault::Made(format!("ERR invalid expire time in '{command}' command"))
    }

    /// The same, as the reason why EXEC itself was refused.
    pub(crate) fn aborting(&self) -> Fault {
        self.with_line(|line| {
            let line = String::from_utf8_lossy(line);
            let reason = line.strip_prefix("ERR ").unwrap_or(&line);
            Fault::Made(format!("EXECABORT Transaction discarded because of: {reason}"))
        })
    }

    pub(crate) fn unsupported(what: &str) -> Fault {
        Fault::Made(format!("ERR {what} is not supported by this server"))
    }

    /// The line, without its minus sign. What the machine did wrong has the words by which clients
    /// of Redis know it.
    pub(crate) fn with_line<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Fault::Text(line) => visit(line.as_bytes()),
            Fault::Made(line) => visit(line.as_bytes()),
            Fault::Store(Error::OutOfMemory { message }) => {
                visit(format!("OOM command not allowed: {message}").as_bytes())
            }
            Fault::Store(Error::Usage { message }) => visit(format!("ERR {message}").as_bytes()),
            Fault::Store(error @ (Error::Poisoned { .. } | Error::Io { .. })) => {
                visit(format!("MISCONF {error}").as_bytes())
            }
            Fault::Store(error) => visit(format!("ERR {error}").as_bytes()),
            Fault::Large(id) => panic!("the large hash {id} reached a command that has no fields"),
            Fault::Grown => panic!("the hash that became large was not written"),
        }
    }
}

/// The error of a name that is no command: the name and the first arguments, cut as Redis cuts.
pub(crate) fn unknown_command<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Fault {
    const SHOWN_MAX: usize = 128;
    let mut shown = String::new();
    for arg in args {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        shown.push('\'');
        shown.push_str(&text(arg, SHOWN_MAX.saturating_sub(shown.len() - 1)));
        shown.push_str("' ");
    }
    let name = text(name, SHOWN_MAX);
    Fault::Made(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}

/// The error of a second word that is no subcommand of the first.
pub(crate) fn unknown_subcommand(command: &str, name: &[u8]) -> Fault {
    let (name, command) = (text(name, 128), command.to_ascii_uppercase());
    Fault::Made(format!("ERR unknown subcommand '{name}'. Try {command} HELP."))
}

/// A subcommand with words that it does not take.
pub(crate) fn wrong_subcommand(command: &str, name: &[u8]) -> Fault {
    let (name, command) = (text(name, 128), command.to_ascii_uppercase());
    Fault::Made(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP."
    ))
}

/// At most `bytes_max` bytes of what a client sent, up to the first zero byte.
fn text(bytes: &[u8], bytes_max: usize) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end.min(bytes_max)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_were_taken_for_its_kind() {
        let line = |error: Error| {
            Fault::from(error).with_line(|line| String::from_utf8_lossy(line).into_owned())
        };
        assert_eq!(
            line(Error::usage("out of memory, says a key")),
            "ERR out of memory, says a key"
        );
        assert_eq!(line(Error::out_of_memory("16 MiB")), "OOM command not allowed: 16 MiB");
        let aborting = Fault::from(Error::out_of_memory("16 MiB")).aborting();
        aborting.with_line(|line| {
            let line = String::from_utf8_lossy(line);
            assert!(line.starts_with("EXECABORT "), "{line}");
            assert!(line.ends_with("because of: OOM command not allowed: 16 MiB"), "{line}");
        });
    }

    #[test]
    fn what_is_shown_of_an_unknown_command_is_short() {
        let long = [b'x'; 300];
        let fault = unknown_command(&long, [&long[..], b"never shown"].into_iter());
        fault.with_line(|line| {
            assert_eq!(line.iter().filter(|&&byte| byte == b'x').count(), 256);
            assert!(line.ends_with(b"x' "));
        });
    }
}
