//! Servers and directories as both commands name them.

use super::failure;
use crate::serve;
use clap::ArgMatches;
use keyrack_console::Failure;
use keyrack_migrate::Url;
use keyrack_server::{Control, Options, SETTINGS, Server};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A server, with what it takes to stop the one of a directory.
pub(super) struct Place {
    pub(super) url: Url,
    served: Option<Served>,
}

/// What `text` names: the address of a server, or else a path.
pub(super) enum Named {
    Server(Url),
    Path(PathBuf),
}

impl Named {
    pub(super) fn of(text: &str) -> Result<Named, Failure> {
        let path = Path::new(text);
        let is_path = RealFs.exists(path)? || !text.contains(':');
        match Url::is_url(text) {
            true => Url::parse(text).map(Named::Server).map_err(failure),
            false if is_path => Ok(Named::Path(path.to_owned())),
            false => Url::parse(&format!("redis://{text}")).map(Named::Server).map_err(failure),
        }
    }
}

/// The address with the password and the certificates that options name.
pub(super) fn with_access(
    url: Url,
    matches: &ArgMatches,
    password_option: &str,
) -> Result<Url, Failure> {
    let mut url = url;
    if let Some(path) = matches.get_one::<String>(password_option) {
        url = url.with_password(serve::secret(&RealFs, Path::new(path))?);
    }
    match matches.get_one::<String>("tls-ca") {
        Some(path) if url.is_tls() => {
            url.with_authorities(&RealFs, Path::new(path)).map_err(failure)
        }
        _ => Ok(url),
    }
}

impl Place {
    pub(super) fn server(url: Url) -> Place {
        Place { url, served: None }
    }

    /// Opens a directory of `keyrack serve`.
    pub(super) fn directory(path: &Path, matches: &ArgMatches) -> Result<Place, Failure> {
        let served = Served::start(path, matches.get_one::<String>("engine"))?;
        Ok(Place { url: Url::parse(&served.address).map_err(failure)?, served: Some(served) })
    }

    /// Makes what was written durable, where this process serves it.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.served.map_or(Ok(()), Served::end)
    }
}

/// A directory that this process serves to itself.
struct Served {
    server: Server,
    address: String,
    socket_dir: PathBuf,
}

impl Served {
    fn start(path: &Path, engine: Option<&String>) -> Result<Served, Failure> {
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        keyrack_vfs::keep_private();
        let socket_dir = fs.create_unique_dir(&std::env::temp_dir(), "keyrack-migrate")?;
        let address = format!("mixed+unix://{}", socket_dir.join("socket").display());
        let mut options = Options::default();
        options.listen.clear();
        let engine = engine.map_or("rowstore", String::as_str);
        let data_dir = path.to_string_lossy();
        for (name, value) in [
            ("listen", address.as_str()),
            ("engine", engine),
            ("data-dir", &data_dir),
            ("threads", "1"),
        ] {
            let setting = SETTINGS.iter().find(|setting| setting.name == name);
            setting.expect("the table has this setting").apply(&mut options, value)?;
        }
        let started = options.complete().and_then(|()| options.check()).and_then(|()| {
            let control = Control::new();
            let rows = serve::open(&options, &fs, &control)?;
            Server::start(rows, &options, &control, &*fs)
        });
        match started {
            Ok(server) => Ok(Served { server, address, socket_dir }),
            Err(error) => {
                fs.remove_dir_all(&socket_dir)?;
                Err(error.into())
            }
        }
    }

    fn end(self) -> Result<(), Failure> {
        let ended = self.server.end();
        RealFs.remove_dir_all(&self.socket_dir)?;
        ended.map_err(Failure::from)
    }
}
