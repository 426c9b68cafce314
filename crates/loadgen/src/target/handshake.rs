//! What is said before the first request: who we are, and which version we speak. It blocks, and it
//! happens before the clock runs.

use std::io::{self, Read, Write};

use keyrack_wire::memcached::binary::{self, Command};
use keyrack_wire::outcome::{Failure, Kind, Outcome, Parser, Step};
use keyrack_wire::resp::command;

use super::Protocol;

const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A name and a password.
#[derive(Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Credentials {
    /// Empty where a password alone is asked for.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    /// Nothing of the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Says what has to be said at the start of a connection, and waits for the answer.
///
/// # Errors
/// The connection broke, or the server refuses: its words are in the error.
pub fn greet(
    stream: &mut (impl Read + Write),
    protocol: Protocol,
    credentials: Option<&Credentials>,
) -> io::Result<()> {
    let mut request = Vec::new();
    // Which command the answer is parsed as.
    let mut kind = Kind::Set;
    match (protocol, credentials) {
        (Protocol::Resp3, credentials) => {
            kind = Kind::Get;
            let auth = credentials.map(|them| (user_or_default(them), them.password.as_bytes()));
            match auth {
                Some((user, password)) => {
                    command(&mut request, &[b"HELLO", b"3", b"AUTH", user, password]);
                }
                None => command(&mut request, &[b"HELLO", b"3"]),
            }
        }
        (_, None) => return Ok(()),
        (Protocol::Resp2, Some(them)) if them.user.is_empty() => {
            command(&mut request, &[b"AUTH", them.password.as_bytes()]);
        }
        (Protocol::Resp2, Some(them)) => {
            command(&mut request, &[b"AUTH", them.user.as_bytes(), them.password.as_bytes()]);
        }
        (Protocol::Binary, Some(them)) => sasl_plain(&mut request, them),
        (Protocol::Text | Protocol::Meta, Some(them)) => {
            check_wants_password(stream)?;
            let words = format!("{} {}", them.user, them.password);
            let head = format!("set auth 0 0 {}\r\n", words.len());
            request.extend_from_slice(head.as_bytes());
            request.extend_from_slice(words.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
    }
    stream.write_all(&request)?;
    stream.flush()?;
    // The password of the meta commands travels in a text command.
    let spoken = if protocol == Protocol::Meta { Protocol::Text } else { protocol };
    let (outcome, words) = answer(stream, spoken, kind)?;
    match outcome {
        Outcome::Failed(failure) if credentials.is_none() => Err(match failure {
            Failure::Auth => wants_password(&words),
            _ => {
                let text = format!("the server does not speak {}{}", protocol.name(), said(&words));
                io::Error::new(io::ErrorKind::InvalidData, text)
            }
        }),
        Outcome::Failed(_) | Outcome::NotStored => {
            let text = format!("the server refuses the user name or password{}", said(&words));
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
        _ => Ok(()),
    }
}

/// The text protocol's way to log in is a `set` of any key. A server without users would store the
/// password, so that it is asked for something else first.
fn check_wants_password(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(b"get auth\r\n")?;
    stream.flush()?;
    match answer(stream, Protocol::Text, Kind::Get)?.0 {
        Outcome::Failed(Failure::Auth) => Ok(()),
        _ => {
            let text = "the server has no users in memcached's text protocol, and would store the \
                        password; leave --username and --password out, or give --binary for SASL";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// The error of a server that wants a password where none was given, with its words.
pub(crate) fn wants_password(words: &[u8]) -> io::Error {
    let remedy = "the server wants a password; give --password, and --username where it has users";
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{remedy}{}", said(words)))
}

/// The server's own words, behind ours.
fn said(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let words = words.trim();
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

fn user_or_default(credentials: &Credentials) -> &[u8] {
    if credentials.user.is_empty() { b"default" } else { credentials.user.as_bytes() }
}

/// SASL's mechanism PLAIN: no other identity, the user, the password, with NUL in front of each.
fn sasl_plain(request: &mut Vec<u8>, credentials: &Credentials) {
    let data = format!("\0{}\0{}", credentials.user, credentials.password);
    let command = Command::SaslAuth { mechanism: b"PLAIN", data: data.as_bytes() };
    binary::Request::new(command, false).write(request);
}

/// One whole answer, with the words of a failure.
pub(super) fn answer(
    stream: &mut impl Read,
    protocol: Protocol,
    kind: Kind,
) -> io::Result<(Outcome, Vec<u8>)> {
    let mut parser = Parser::new(protocol.dialect(), false);
    let mut buffer: Vec<u8> = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let step = parser.step(&buffer, kind).map_err(|malformed| {
            let text = format!(
                "the server does not speak {}: it sent {} that is none",
                protocol.name(),
                malformed.0
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        match step {
            Step::Done(_, outcome) => return Ok((outcome, parser.words().to_vec())),
            Step::Eaten(count) => {
                buffer.drain(..count);
            }
            Step::More => {
                if buffer.len() > ANSWER_BYTES_MAX {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an endless answer"));
                }
                let count = stream.read(&mut chunk)?;
                if count == 0 {
                    let text = "the server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                buffer.extend_from_slice(&chunk[..count]);
            }
        }
    }
}
