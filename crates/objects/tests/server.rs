//! A server of S3's protocol in a directory of its own: versitygw, or moto_server where that is
//! what there is.

use crate::proxy::{Cut, Proxy, Upstream};
use keyrack_objects::Access;
use keyrack_vfs::{Fs, RealFs};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const BUCKET: &str = "bucket";
const KEY: &str = "key";
pub(crate) const SECRET: &str = "a-secret";

/// A running server, and a whole wire to it.
pub(crate) struct Server {
    child: Child,
    upstream: Upstream,
    proxy: Proxy,
    /// Whether it looks at signatures.
    pub(crate) is_strict: bool,
    _dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of the path, or of where Go installs programs.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.extend(std::env::var_os("GOBIN").map(PathBuf::from));
    dirs.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin")));
    dirs.into_iter().map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Waits for a line with `word`, and gives it. What comes later is read and dropped.
fn line_with(output: impl Read + Send + 'static, word: &str) -> Option<String> {
    let mut lines = BufReader::new(output).lines();
    let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(word));
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    found
}

impl Server {
    /// Starts one; says SKIPPED where there is none.
    pub(crate) fn start(test: &str) -> Option<Server> {
        let dir = tempfile::tempdir().unwrap();
        let started = match (find("versitygw"), find("moto_server")) {
            (Some(program), _) => versitygw(&program, dir.path()),
            (None, Some(program)) => moto(&program),
            (None, None) => {
                // Not captured: a test that did nothing has to be seen.
                let line = format!("SKIPPED {test}: neither versitygw nor moto_server is here\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                return None;
            }
        };
        let (child, upstream, is_strict) = started;
        let proxy = Proxy::new(upstream.clone(), Cut::Never);
        Some(Server { child, upstream, proxy, is_strict, _dir: dir })
    }

    pub(crate) fn endpoint(&self) -> String {
        self.proxy.endpoint()
    }

    /// Another wire to it.
    pub(crate) fn wire(&self, cut: Cut) -> Proxy {
        Proxy::new(self.upstream.clone(), cut)
    }

    pub(crate) fn access(&self) -> Access {
        access(&self.endpoint(), SECRET)
    }
}

/// What a client is told, which does not try again for long.
pub(crate) fn access(endpoint: &str, secret: &str) -> Access {
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Access { variables: variables.to_vec(), retries_max: 1, ..Access::of_environment() }
}

pub(crate) fn cut_access(wire: &Proxy) -> Access {
    access(&wire.endpoint(), SECRET)
}

fn versitygw(program: &Path, dir: &Path) -> (Child, Upstream, bool) {
    let socket = dir.join("socket");
    RealFs.create_dir_all(&dir.join("buckets").join(BUCKET)).unwrap();
    let mut child = Command::new(program)
        .args(["--access", KEY, "--secret", SECRET, "--keep-alive", "--port"])
        .arg(&socket)
        .arg("posix")
        .arg(dir.join("buckets"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = line_with(child.stdout.take().unwrap(), "listening on");
    assert!(said.is_some(), "{} did not start", program.display());
    (child, Upstream::Unix(socket), true)
}

fn moto(program: &Path) -> (Child, Upstream, bool) {
    let mut child = Command::new(program)
        .args(["-H", "127.0.0.1", "-p", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = line_with(child.stderr.take().unwrap(), "http://127.0.0.1:").unwrap();
    let port = said.rsplit(':').next().unwrap().trim().parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let host = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close";
    write!(stream, "PUT /{BUCKET} HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (child, Upstream::Tcp(port), false)
}
