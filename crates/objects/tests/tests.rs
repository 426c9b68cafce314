//! Registries and backups in object stores: in memory, and on a real server of S3's protocol. Where
//! there is no such server, each test that wants one says SKIPPED.

#[cfg(test)]
mod backups;
#[cfg(test)]
mod cut;
#[cfg(test)]
#[path = "../../backup/tests/failing.rs"]
mod failing;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod registries;
#[cfg(test)]
mod server;
#[cfg(test)]
mod shipping;
#[cfg(test)]
mod support;
