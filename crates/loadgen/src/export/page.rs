//! A page of figures for Prometheus, and where it is.

use keyrack_net::http::{Reply, serve};
use keyrack_net::{ClientMemory, Endpoint, Handle};

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
        let handle = serve(endpoint, ClientMemory::unlimited(), move |get| match get.path {
            "/" | "/metrics" => Reply::metrics(text()),
            _ => Reply::refusal("404 Not Found", "there is /metrics"),
        })?;
        Ok(Page { handle })
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.handle.local_addrs().first().and_then(|places| places.first())
    }
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
