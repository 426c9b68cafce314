//! A page of figures over HTTP, on an event loop of its own, so that whoever looks takes no time
//! from the threads that work.
//!
//! It answers one GET a connection with what a function says at that moment.

use std::time::Duration;

use keyrack_net::{
    Endpoint, Handle, Limits, Listener, Options, Peer, Served, Server, Service, Timeouts, Verdict,
    Waker, Worker,
};

/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Bytes of a page at most.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Those who look at once, at most.
const CONNECTIONS_MAX: usize = 16;

/// Where a page is to be: `HOST:PORT`, or a port alone for this machine alone.
///
/// # Errors
/// What is neither.
pub fn page_endpoint(text: &str) -> keyrack_net::Result<Endpoint> {
    match text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}").parse(),
        Err(_) => text.parse(),
    }
}

/// The page. It ends when it is dropped.
#[derive(Debug)]
pub struct Page {
    handle: Handle,
}

impl Page {
    /// Listens at `endpoint`, and answers with what `text` says.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn start(
        endpoint: Endpoint,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> keyrack_net::Result<Page> {
        let patience = Some(Duration::from_secs(10));
        let options = Options {
            listeners: vec![Listener::stream(endpoint)],
            connections_max: CONNECTIONS_MAX,
            limits: Limits {
                input_bytes_max: REQUEST_BYTES_MAX,
                output_bytes_max: OUTPUT_BYTES_MAX,
            },
            timeouts: Timeouts {
                first_request: patience,
                request: patience,
                idle: patience,
                stalled_output: patience,
            },
            ..Options::default()
        };
        Ok(Page { handle: Server::start(Answers(text), options)? })
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.handle.local_addrs().first().and_then(|places| places.first())
    }
}

/// Answers one GET a connection.
struct Answers<F>(F);

impl<F: Fn() -> String + Send + Sync + 'static> Service for Answers<F> {
    type Worker<'a> = &'a Answers<F>;

    fn worker(&self, _: usize, _: Waker) -> &Answers<F> {
        self
    }
}

impl<F: Fn() -> String + Send + Sync> Worker for &Answers<F> {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        if memchr::memmem::find(input, b"\r\n\r\n").is_none() {
            return Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue };
        }
        let (status, body) = match target(input) {
            Some("/" | "/metrics") => ("200 OK", (self.0)()),
            Some(_) => ("404 Not Found", "there is /metrics\n".to_owned()),
            None => ("400 Bad Request", "GET is all there is\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        output.extend_from_slice(head.as_bytes());
        output.extend_from_slice(body.as_bytes());
        Served { consumed: input.len(), need: 0, verdict: Verdict::Close }
    }
}

/// What a GET asks for, without what is behind `?`.
fn target(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_known = method == "GET" && version.starts_with("HTTP/1.");
    is_known.then(|| target.split_once('?').map_or(target, |(path, _)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machine_alone() {
        for text in ["9100", ":9100", "127.0.0.1:9100"] {
            assert_eq!(page_endpoint(text).unwrap().to_string(), "127.0.0.1:9100");
        }
        assert_eq!(page_endpoint("0.0.0.0:9100").unwrap().to_string(), "0.0.0.0:9100");
        assert!(page_endpoint("nowhere").is_err() && page_endpoint("99999").is_err());
    }
}
