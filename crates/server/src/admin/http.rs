//! As much of HTTP/1.1 as a page needs: one GET a connection.
//!
//! A foreign web page can make a browser send requests here, but not read the answers,
//! unless the name it was loaded from comes to mean this address. So the header `Host` must be an
//! address or `localhost`, which no such name is.

use std::net::IpAddr;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    Page,
    Json,
    Metrics,
    Refused { status: &'static str, why: &'a str },
}

/// The request that `input` holds; nothing while it is not whole.
pub(super) fn read(input: &[u8]) -> Option<Asked<'_>> {
    let end = input.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let refused = |status, why| Some(Asked::Refused { status, why });
    let Ok(head) = std::str::from_utf8(&input[..end]) else {
        return refused("400 Bad Request", "not text");
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return refused("400 Bad Request", "not a request line");
    };
    if !version.starts_with("HTTP/1.") {
        return refused("505 HTTP Version Not Supported", "HTTP/1.1 is spoken here");
    }
    if method != "GET" {
        return refused("405 Method Not Allowed", "GET is all there is");
    }
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    if !host.is_some_and(is_own_host) {
        return refused("403 Forbidden", "use the address in the URL, or localhost");
    }
    match target.split_once('?').map_or(target, |(path, _)| path) {
        "/" => Some(Asked::Page),
        "/stats.json" => Some(Asked::Json),
        "/metrics" => Some(Asked::Metrics),
        _ => refused("404 Not Found", "there are /, /stats.json and /metrics"),
    }
}

fn is_own_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Reply {
    pub(super) fn html(body: &str) -> Self {
        Reply { status: "200 OK", kind: "text/html; charset=utf-8", body: body.to_owned() }
    }

    pub(super) fn json(body: String) -> Self {
        Reply { status: "200 OK", kind: "application/json", body }
    }

    pub(super) fn text(body: String) -> Self {
        Reply { status: "200 OK", kind: "text/plain; version=0.0.4; charset=utf-8", body }
    }

    pub(super) fn refusal(status: &'static str, why: &str) -> Self {
        Reply { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
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

    fn status(request: &str) -> String {
        match read(request.as_bytes()) {
            Some(Asked::Refused { status, .. }) => status[..3].to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn one_get_from_here_is_answered() {
        for (request, wanted) in [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n", "Some(Page)"),
            ("GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n", "Some(Metrics)"),
            ("GET /stats.json?x=1 HTTP/1.1\r\nHost: [::1]:9\r\n\r\n", "Some(Json)"),
            ("GET /x HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "404"),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\n\r\n", "403"),
            ("GET /\r\n\r\n", "400"),
            ("GET / HTTP/2\r\nHost: localhost\r\n\r\n", "505"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n", "None"),
        ] {
            assert_eq!(status(request), wanted, "{request}");
        }
    }
}
