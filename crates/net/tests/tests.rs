//! The tests of this crate that see only its public face.

#[cfg(test)]
mod chaos;
#[cfg(test)]
mod child;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod integrity;
#[cfg(test)]
mod iterations;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listeners;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tls;
