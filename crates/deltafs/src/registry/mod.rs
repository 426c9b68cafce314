//! The registry: finished logs under names that others can build views of.
//!
//! ```text
//!   registry/
//!     logs/LOG-N/          a checkpoint of a log: tables and a manifest, never changed
//!     names/NAME/1 2 3     publications: what the log is, its files with digests, its base
//!     views/VIEW           lists of publications under a name
//!     holds/LOG            what a log that is still being written was begun on
//!     ledger/              which of these texts have to be there: see `ledger`
//! ```
//!
//! Publishing copies the log (by hard links where it stays on its file system), and gives the text
//! about it a name that only one can get. So a version is there whole or not at all; of two
//! publishers of one version one wins, and the other is told. A crash before, or a failure of which
//! nobody can say how it ended, leaves a copy that perhaps nobody names, for [`Registry::gc`].
//!
//! Where all this is kept is the business of a [`Storage`]: a directory, or an object store.
//!
//! Nothing that a publisher does waits for another.
//!
//! **Invariant:** a name from a text becomes a path only as a [`RelativePath`], so no text leads
//! out of the registry, and [`Registry::gc`] removes nothing but copies below `logs` that no needed
//! publication names.

mod directory;
mod files;
mod gc;
mod handle;
mod ledger;
mod list;
mod lookup;
mod names;
mod publication;
mod publish;
mod storage;
mod views;

pub use gc::{Collected, GcOptions};
pub use handle::Registry;
pub use lookup::VIEW_LOGS_MAX;
pub use names::copy_name;
pub use publication::{Publication, PublishedFile, Reference};
pub use storage::{CopyFacts, Storage, Tag, Text};
