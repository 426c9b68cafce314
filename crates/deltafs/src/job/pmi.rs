//! The side of a rank of PMI-1, the protocol by which launchers of MPI jobs speak to processes.
//!
//! Lines of `key=value` over the descriptor that `PMI_FD` names:
//!
//! ```text
//!   cmd=init pmi_version=1 pmi_subversion=1      cmd=response_to_init ... rc=0
//!   cmd=get_maxes                                cmd=maxes kvsname_max=. keylen_max=. vallen_max=.
//!   cmd=get_my_kvsname                           cmd=my_kvsname kvsname=.
//!   cmd=put kvsname=. key=. value=.              cmd=put_result rc=0
//!   cmd=barrier_in                               cmd=barrier_out
//!   cmd=get kvsname=. key=.                      cmd=get_result rc=0 value=.
//!   cmd=finalize                                 cmd=finalize_ack
//! ```
//!
//! The descriptor is duplicated by its number, which the kernel does without trust in the number:
//! a wrong one is an error.

use super::error::{Error, Result};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Bytes of a line, at most.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// A connection to the launcher.
#[derive(Debug)]
pub(super) struct Pmi {
    stream: UnixStream,
    input: Vec<u8>,
    rank: u32,
    size: u32,
    is_one_machine: bool,
    kvs_name: String,
    value_bytes_max: usize,
}

impl Pmi {
    /// The launcher behind the descriptor with that number.
    pub(super) fn open(fd: &str, rank: u32, size: u32, is_one_machine: bool) -> Result<Pmi> {
        Pmi::over(adopt(fd)?, rank, size, is_one_machine)
    }

    /// Says hello.
    pub(super) fn over(
        stream: UnixStream,
        rank: u32,
        size: u32,
        is_one_machine: bool,
    ) -> Result<Pmi> {
        let (kvs_name, value_bytes_max) = (String::new(), 256);
        let input = Vec::new();
        let mut pmi = Pmi { stream, input, rank, size, is_one_machine, kvs_name, value_bytes_max };
        let answer = pmi.call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        check_code(&answer)?;
        let answer = pmi.call("cmd=get_maxes", "maxes")?;
        if let Some(max) = field(&answer, "vallen_max").and_then(|text| text.parse().ok()) {
            pmi.value_bytes_max = max;
        }
        pmi.call("cmd=get_appnum", "appnum")?;
        let answer = pmi.call("cmd=get_my_kvsname", "my_kvsname")?;
        let name = field(&answer, "kvsname");
        name.ok_or_else(|| unexpected(&answer))?.clone_into(&mut pmi.kvs_name);
        Ok(pmi)
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Whether all ranks run on this machine.
    pub(super) fn is_one_machine(&self) -> bool {
        self.is_one_machine
    }

    /// Leaves a value for others to find behind the next barrier.
    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<()> {
        if value.len() > self.value_bytes_max || value.contains([' ', '=', '\n']) {
            return Err(Error::Pmi(format!("'{value}' cannot be a value")));
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.kvs_name);
        check_code(&self.call(&line, "put_result")?)
    }

    pub(super) fn barrier(&mut self) -> Result<()> {
        self.call("cmd=barrier_in", "barrier_out").map(|_| ())
    }

    pub(super) fn get(&mut self, key: &str) -> Result<String> {
        let line = format!("cmd=get kvsname={} key={key}", self.kvs_name);
        let answer = self.call(&line, "get_result")?;
        check_code(&answer)?;
        field(&answer, "value").map(str::to_owned).ok_or_else(|| unexpected(&answer))
    }

    pub(super) fn finalize(&mut self) -> Result<()> {
        self.call("cmd=finalize", "finalize_ack").map(|_| ())
    }

    fn call(&mut self, line: &str, answer: &str) -> Result<String> {
        let failed = |cause: std::io::Error| Error::Pmi(format!("no answer to '{line}': {cause}"));
        self.stream.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
        let received = self.line().map_err(failed)?;
        match field(&received, "cmd") {
            Some(command) if command == answer => Ok(received),
            _ => Err(unexpected(&received)),
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        loop {
            if let Some(line) = take_line(&mut self.input) {
                return Ok(line);
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            let mut chunk = [0; 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The first line of what has come, without its end.
pub(super) fn take_line(input: &mut Vec<u8>) -> Option<String> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = input.drain(..=end).collect();
    Some(String::from_utf8_lossy(&line[..end]).into_owned())
}

/// The value of a field. The last of `put` may hold spaces, but ours never does.
pub(super) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn check_code(answer: &str) -> Result<()> {
    match field(answer, "rc") {
        Some("0") | None => Ok(()),
        Some(_) => Err(unexpected(answer)),
    }
}

fn unexpected(answer: &str) -> Error {
    Error::Pmi(format!("it answers '{}'", answer.escape_debug()))
}

/// The descriptor with that number, once more.
fn adopt(fd: &str) -> Result<UnixStream> {
    let failed = |cause: &dyn std::fmt::Display| {
        Error::Pmi(format!(
            "PMI_FD={fd} cannot be used: {cause}; give --rendezvous HOST:PORT --rank R --size N"
        ))
    };
    let number: i32 = fd.parse().map_err(|_| failed(&"it is no number"))?;
    if number < 0 {
        return Err(failed(&"it is no descriptor"));
    }
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(|error| failed(&error))?;
    let copy = pidfd_getfd(&this, number, PidfdGetfdFlags::empty());
    Ok(UnixStream::from(copy.map_err(|error| failed(&error))?))
}
