//! The server as a process that lives as long as it is wanted, and what is seen of it from outside.

use super::speech::PROTOCOLS;
use crate::support::PATIENCE;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// Lines of its log that are kept for messages.
const LINES_MAX: usize = 60;

pub(super) struct Server {
    child: Child,
    lines: Receiver<String>,
    /// The last lines of its log.
    seen: Vec<String>,
    pub(super) addresses: Vec<SocketAddr>,
    /// How often it said that its log cannot be written.
    pub(super) behind: u64,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) rss_mib: u64,
    pub(super) descriptors: u64,
}

impl Server {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Its last words, when it ended before.
    pub(super) fn start(binary: &Path, dir: &Path, words: &str) -> Result<Server, String> {
        let mut child = Command::new(binary)
            .arg("serve")
            .args(words.split_whitespace())
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // Nobody listens any more after the end.
                let _ = sender.send(line);
            }
        });
        let (seen, addresses) = (Vec::new(), Vec::new());
        let mut server = Server { child, lines, seen, addresses, behind: 0 };
        loop {
            match server.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let is_ready = line.contains("ready");
                    server.note(line);
                    if is_ready {
                        return server.listens().map(|()| server);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let told = server.told();
                    server.kill();
                    panic!("not ready after {PATIENCE:?}:\n{told}");
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = server.finish();
                    return Err(format!("status {status}\n{}", server.told()));
                }
            }
        }
    }

    fn listens(&mut self) -> Result<(), String> {
        for protocol in PROTOCOLS {
            let start = format!("listening on {}://", protocol.scheme());
            let found = self.seen.iter().find_map(|line| line.strip_prefix(&start));
            match found.and_then(|text| text.parse().ok()) {
                Some(address) => self.addresses.push(address),
                None => return Err(format!("no {start}\n{}", self.told())),
            }
        }
        Ok(())
    }

    fn note(&mut self, line: String) {
        self.behind += u64::from(line.contains(" disk-full "));
        self.seen.push(line);
        if self.seen.len() > LINES_MAX {
            self.seen.remove(0);
        }
    }

    /// Takes what it has said since.
    pub(super) fn listen(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.note(line);
        }
    }

    /// Its last words.
    pub(super) fn told(&mut self) -> String {
        self.listen();
        self.seen.join("\n")
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, but for that of files, and open descriptors; `None` when it is gone.
    pub(super) fn held(&self) -> Option<Held> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let rss = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let rss_kib: u64 = rss.trim().trim_end_matches(" kB").parse().ok()?;
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.id())).ok()?.count() as u64;
        Some(Held { rss_mib: rss_kib >> 10, descriptors: open })
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its end; gives its status, 128 and the signal's number where one ended it.
    pub(super) fn finish(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv() {
            self.note(line);
        }
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, unless the test panics.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
