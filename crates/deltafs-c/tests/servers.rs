//! Two servers of one name space in this process, for the programs.

use keyrack_deltafs::rpc::{ClientOptions, ServeOptions, Served, Tree, serve};
use keyrack_deltafs::{Namespace, Settings};
use keyrack_net::Listener;
use std::time::Duration;
use tempfile::TempDir;

/// What clients have to show.
pub(crate) const TOKEN: &str = "secret";
/// Directories split soon, so that both servers have files.
const SPLIT_AT: u64 = 64;
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct Servers {
    served: Vec<Served>,
    /// The address of the first.
    pub(crate) address: String,
    _logs: TempDir,
}

impl Servers {
    pub(crate) fn start() -> Servers {
        let logs = tempfile::tempdir().unwrap();
        let start = |server: u32| {
            let log = logs.path().join(format!("r{server}"));
            let space = Namespace::open(log, Settings::default()).unwrap();
            let options = ServeOptions {
                listen: vec![Listener::stream("127.0.0.1:0".parse().unwrap())],
                token: Some(TOKEN.as_bytes().to_vec()),
                server,
                servers: 2,
                split_at: SPLIT_AT,
                ..ServeOptions::default()
            };
            serve(Some(space), options).unwrap()
        };
        let served: Vec<Served> = (0..2).map(start).collect();
        let address = |served: &Served| served.handle.local_addrs()[0][0].to_string();
        let addresses: Vec<String> = served.iter().map(address).collect();
        for server in &served {
            server.set_map(addresses.clone()).unwrap();
        }
        Servers { served, address: addresses[0].clone(), _logs: logs }
    }

    /// A client.
    pub(crate) fn tree(&self) -> Tree {
        let token = TOKEN.as_bytes().to_vec();
        let options = ClientOptions { token, ..ClientOptions::default() };
        Tree::discover(self.address.parse().unwrap(), options).unwrap()
    }

    /// Ends them, and with them what they do together. Returns how many calls each has answered.
    pub(crate) fn end(self) -> Vec<u64> {
        let calls = self.served.iter().map(Served::calls).collect();
        for server in self.served {
            server.shutdown(GRACE).unwrap();
        }
        calls
    }
}
