//! Servers of others on unix sockets, each in a directory of its own.

use keyrack_migrate::Url;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running server. It ends with this value.
pub(crate) struct Running {
    child: Child,
    dir: TempDir,
    scheme: &'static str,
}

impl Running {
    pub(crate) fn redis(settings: &[&str]) -> Option<Running> {
        let dir = TempDir::with_prefix("keyrack-migrate-").unwrap();
        let socket = dir.path().join("socket");
        let mut command = Command::new(program("redis-server")?);
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        command.args(["--dir".as_ref(), dir.path()]).args(settings);
        Some(Running::start(command, dir, "redis"))
    }

    pub(crate) fn memcached() -> Option<Running> {
        let dir = TempDir::with_prefix("keyrack-migrate-").unwrap();
        let mut command = Command::new(program("memcached")?);
        command.arg("-s").arg(dir.path().join("socket")).args(["-u", "root"]);
        Some(Running::start(command, dir, "memcached"))
    }

    fn start(mut command: Command, dir: TempDir, scheme: &'static str) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The servers do not say in one way when they are ready.
        while UnixStream::connect(dir.path().join("socket")).is_err() {
            assert_eq!(child.try_wait().unwrap(), None, "the server ended");
            std::thread::yield_now();
        }
        Running { child, dir, scheme }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("{}+unix://{}", self.scheme, self.socket().display())).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn connect(&self) -> Talk {
        Talk { stream: BufReader::new(UnixStream::connect(self.socket()).unwrap()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that knows its replies by the names of commands. It serves one connection.
pub(crate) struct Scripted {
    dir: TempDir,
}

impl Scripted {
    pub(crate) fn start(reply: impl Fn(&str) -> &'static str + Send + 'static) -> Scripted {
        let dir = TempDir::with_prefix("keyrack-migrate-").unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut stream = stream;
            while let Some(Ok(head)) = lines.next() {
                // A count, then a length and a text for each.
                let count: usize = head.strip_prefix('*').unwrap().parse().unwrap();
                let words = lines.by_ref().take(2 * count).map(Result::unwrap);
                let words: Vec<String> = words.skip(1).step_by(2).collect();
                stream.write_all(reply(&words[0]).as_bytes()).unwrap();
            }
        });
        Scripted { dir }
    }

    pub(crate) fn url(&self) -> Url {
        let socket = self.dir.path().join("socket");
        Url::parse(&format!("redis+unix://{}", socket.display())).unwrap()
    }
}

/// A connection that sends commands.
pub(crate) struct Talk {
    stream: BufReader<UnixStream>,
}

impl Talk {
    /// Sends a command of Redis, and returns its reply where that is one line or one string.
    pub(crate) fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        let number =
            |line: &[u8]| String::from_utf8_lossy(&line[1..]).trim().parse::<i64>().unwrap();
        match line[0] {
            b'$' if number(&line) >= 0 => {
                let mut bytes = vec![0; usize::try_from(number(&line)).unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                bytes
            }
            b'*' => {
                (0..number(&line)).for_each(|_| drop(self.reply()));
                line
            }
            _ => line,
        }
    }

    /// Words at blanks.
    pub(crate) fn run(&mut self, line: &str) -> Vec<u8> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = self.ask(&words);
        assert!(!reply.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&reply));
        reply
    }

    /// Sends lines to a memcached, and returns as many lines.
    pub(crate) fn lines(&mut self, text: &[u8], count: usize) -> Vec<u8> {
        self.stream.get_mut().write_all(text).unwrap();
        let mut lines = Vec::new();
        for _ in 0..count {
            self.stream.read_until(b'\n', &mut lines).unwrap();
        }
        lines
    }
}

/// Where a program is. Without it the test is skipped, but not in CI.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "there is no {name} on this machine");
        println!("SKIPPED: there is no {name} on this machine");
    }
    found
}
