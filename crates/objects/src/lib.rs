//! # keyrack-objects: registries and backups in object stores
//!
//! Published name spaces where there is no directory that everybody sees: in S3 and what speaks its
//! protocol, in Google Cloud Storage, in Azure. [`registry`] takes an address and gives a registry.
//! [`backup_target`] gives a place for backups.
//!
//! ```text
//!   --store s3://bucket/prefix            objects
//!     prefix/names/NAME/VERSION           a publication: put if absent
//!     prefix/views/NAME                   a list: put if it is as it was seen
//!     prefix/holds/LOG                    a list: put if absent
//!     prefix/ledger/names/NAME/VERSION    a note that the text has to be there: put if absent
//!     prefix/logs/LOG-N/FILE              the files of a log, never changed
//! ```
//!
//! A publisher makes its copy beside its log, by hard links, puts the files, and then the text with
//! its version. That last put is conditional, so of two publishers of a version one wins, and what
//! is cut off before it has published nothing. A put whose answer was lost is asked about: the text
//! names its own copy, so a publisher knows whether it is its own.
//!
//! Readers read what they need: ranges of tables, in blocks that are kept in memory. Nothing is
//! copied to a disk.
//!
//! **Invariant:** an object below `logs` is never written twice, and no text names a log before all
//! of its objects are there.
//!
//! Without the feature `object-store` the crate knows directories alone, and says so.
#![forbid(unsafe_code)]

mod address;
#[cfg(feature = "object-store")]
mod blocks;
#[cfg(feature = "object-store")]
mod bucket;
#[cfg(feature = "object-store")]
mod connect;
#[cfg(feature = "object-store")]
mod failure;
#[cfg(feature = "object-store")]
mod files;
#[cfg(feature = "object-store")]
mod lease;
#[cfg(feature = "object-store")]
mod remote;
#[cfg(feature = "object-store")]
mod storage;
#[cfg(feature = "object-store")]
mod upload;

pub use address::Address;

use keyrack_backup::{DirTarget, Target};
use keyrack_deltafs::{Registry, Result};
use keyrack_vfs::{Fs, RealFs};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How an object store is spoken to.
#[derive(Clone)]
pub struct Access {
    /// Credentials, endpoints and all else, by the names of the services' own variables.
    pub variables: Vec<(String, String)>,
    /// How often a request that failed is sent again: 4.
    pub retries_max: usize,
    /// How long the lock of a killed backup keeps others out: 90 s. A process that cannot renew its
    /// lock for a third of that stops.
    pub lease: Duration,
}

/// Names the variables alone: their values are secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| &name[..]).collect();
        f.debug_struct("Access")
            .field("variables", &names)
            .field("retries_max", &self.retries_max)
            .field("lease", &self.lease)
            .finish()
    }
}

impl Access {
    /// With the variables of this process.
    #[must_use]
    pub fn of_environment() -> Access {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Access { variables: variables.collect(), retries_max: 4, lease: Duration::from_secs(90) }
    }
}

/// The registry at an address, for logs on `local`. Asks an object store whether it is there: one
/// request.
///
/// # Errors
/// [`keyrack_deltafs::Error::Usage`] for an address that is none, for a bucket that is not there,
/// and for object stores without the feature `object-store`;
/// [`keyrack_deltafs::Error::Remote`] if the store cannot be reached, or refuses access.
#[cfg_attr(
    not(feature = "object-store"),
    expect(unused_variables, reason = "directories are not asked for credentials")
)]
pub fn registry(address: &Address, access: &Access, local: Arc<dyn Fs>) -> Result<Registry> {
    match address {
        Address::Directory(dir) => Ok(Registry::new_in(local, dir)),
        #[cfg(feature = "object-store")]
        Address::Objects { .. } | Address::Memory => {
            Ok(Registry::on(Arc::new(connect::connect(address, access, local)?)))
        }
        #[cfg(not(feature = "object-store"))]
        Address::Objects { .. } | Address::Memory => {
            Err(keyrack_deltafs::Error::Usage(without_feature(address)))
        }
    }
}

/// The place for backups at an address. Asks an object store whether it is there: one request.
///
/// # Errors
/// [`keyrack_backup::Error::Usage`] for an address that is none or keeps nothing, for a bucket that
/// is not there, and for object stores without the feature `object-store`;
/// [`keyrack_backup::Error::Remote`] if the store cannot be reached, or refuses access.
#[cfg_attr(
    not(feature = "object-store"),
    expect(unused_variables, reason = "directories are not asked for credentials")
)]
pub fn backup_target(
    address: &Address,
    access: &Access,
) -> keyrack_backup::Result<Arc<dyn Target>> {
    match address {
        Address::Directory(dir) => Ok(Arc::new(DirTarget::new(Arc::new(RealFs), dir.clone()))),
        #[cfg(feature = "object-store")]
        Address::Objects { .. } | Address::Memory => {
            let remote = connect::remote(address, access).map_err(bucket::of_backup)?;
            Ok(Arc::new(bucket::Bucket::new(remote, access.lease)))
        }
        #[cfg(not(feature = "object-store"))]
        Address::Objects { .. } | Address::Memory => {
            Err(keyrack_backup::Error::Usage(without_feature(address)))
        }
    }
}

#[cfg(not(feature = "object-store"))]
fn without_feature(address: &Address) -> String {
    format!(
        "{address}: this program was built without object stores; build it with \
         --features object-store, or name a directory"
    )
}
