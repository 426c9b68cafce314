//! Pages over HTTP: one GET a connection, on an event loop of its own, so that readers of a page
//! take no time from the threads that work.
//!
//! ```text
//!   GET /metrics?x HTTP/1.1   -- httparse -->   Get { path, host }   -- answer -->   Reply
//! ```
//!
//! The crate `httparse` reads the head. The rest is small: a whole library for servers would bring
//! a runtime for one request a connection.

use crate::{
    ClientMemory, Endpoint, Handle, Limits, Listener, Options, Peer, Result, Served, Server,
    Service, Timeouts, Verdict, Waker, Worker,
};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a request, at most.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Bytes of a reply, at most.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Headers of a request, at most.
const HEADERS_MAX: usize = 100;
const CONNECTIONS_MAX: usize = 64;

/// A GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// What it asks for, without what follows `?`.
    pub path: &'a str,
    /// The header `Host`.
    pub host: Option<&'a str>,
}

/// An answer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// Answers each GET at `endpoint` with what `answer` makes of it, until the handle is dropped. What
/// connections hold is counted in `memory`.
///
/// # Errors
/// An address that cannot be listened on.
pub fn serve<F: Fn(&Get<'_>) -> Reply + Send + Sync + 'static>(
    endpoint: Endpoint,
    memory: Arc<ClientMemory>,
    answer: F,
) -> Result<Handle> {
    let (patience, minute) = (Some(Duration::from_secs(10)), Some(Duration::from_secs(60)));
    let options = Options {
        listeners: vec![Listener::stream(endpoint)],
        connections_max: CONNECTIONS_MAX,
        limits: Limits { input_bytes_max: REQUEST_BYTES_MAX, output_bytes_max: OUTPUT_BYTES_MAX },
        timeouts: Timeouts {
            first_request: patience,
            request: patience,
            idle: minute,
            stalled_output: minute,
        },
        memory,
        ..Options::default()
    };
    Server::start(Pages(answer), options)
}

struct Pages<F>(F);

impl<F: Fn(&Get<'_>) -> Reply + Send + Sync + 'static> Service for Pages<F> {
    type Worker<'a> = &'a Pages<F>;

    fn worker(&self, _: usize, _: Waker) -> &Pages<F> {
        self
    }
}

impl<F: Fn(&Get<'_>) -> Reply> Worker for &Pages<F> {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        let Some(get) = Get::parse(input) else {
            return Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue };
        };
        get.map_or_else(|refusal| refusal, |get| (self.0)(&get)).write(output);
        Served { consumed: input.len(), need: 0, verdict: Verdict::Close }
    }
}

impl<'a> Get<'a> {
    /// The GET that `input` holds; `None` while its head is incomplete.
    ///
    /// # Errors
    /// The answer to a request that is none, or of another method.
    pub fn parse(input: &'a [u8]) -> Option<std::result::Result<Get<'a>, Reply>> {
        let refused = |status, why: &str| Some(Err(Reply::refusal(status, why)));
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(input) {
            Ok(httparse::Status::Partial) => return None,
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::Version) => {
                return refused("505 HTTP Version Not Supported", "HTTP/1.1 is spoken here");
            }
            Err(error) => return refused("400 Bad Request", &error.to_string()),
        }
        if request.method != Some("GET") {
            return refused("405 Method Not Allowed", "GET is all there is");
        }
        let target = request.path.unwrap_or_default();
        let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
        Some(Ok(Get {
            path: target.split_once('?').map_or(target, |(path, _)| path),
            host: host.and_then(|header| std::str::from_utf8(header.value).ok()),
        }))
    }
}

impl Reply {
    /// A page for people.
    #[must_use]
    pub fn html(body: &str) -> Self {
        Reply { status: "200 OK", kind: "text/html; charset=utf-8", body: body.to_owned() }
    }

    /// A word for probes.
    #[must_use]
    pub fn text(body: &str) -> Self {
        Reply { status: "200 OK", kind: "text/plain; charset=utf-8", body: body.to_owned() }
    }

    /// Figures for programs.
    #[must_use]
    pub fn json(body: String) -> Self {
        Reply { status: "200 OK", kind: "application/json", body }
    }

    /// Figures for Prometheus.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Reply { status: "200 OK", kind: "text/plain; version=0.0.4; charset=utf-8", body }
    }

    /// A refusal; `status` is a number and its phrase.
    #[must_use]
    pub fn refusal(status: &'static str, why: &str) -> Self {
        Reply { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; connect-src 'self'; img-src data:\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(self.body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_get_is_read_and_other_requests_are_refused() {
        for (request, wanted) in [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n", "/ Some(\"127.0.0.1:9\")"),
            ("GET /a?x=1 HTTP/1.0\r\nA: b\r\nhost:  [::1]:9 \r\n\r\n", "/a Some(\"[::1]:9\")"),
            ("GET / HTTP/1.1\r\n\r\n", "/ None"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n", "incomplete"),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET /\r\n\r\n", "400"),
            ("hello\r\n\r\n", "400"),
            ("GET / HTTP/2\r\nHost: localhost\r\n\r\n", "505"),
        ] {
            let found = match Get::parse(request.as_bytes()) {
                None => "incomplete".to_owned(),
                Some(Ok(Get { path, host })) => format!("{path} {host:?}"),
                Some(Err(refusal)) => refusal.status[..3].to_owned(),
            };
            assert_eq!(found, wanted, "{request}");
        }
    }
}
