//! The tests of this crate that see only its public face. Random tests print the seed they had;
//! `KEYRACK_SEED=n` replaces it, `KEYRACK_FUZZ=n` how many messages each fuzzer makes, and
//! `KEYRACK_FUZZ_S=n` makes it seconds of a protocol.

#[cfg(test)]
mod dice;
#[cfg(test)]
mod masstree_fuzz;
#[cfg(test)]
mod masstree_messages;
#[cfg(test)]
mod memcached;
#[cfg(test)]
mod outcome;
#[cfg(test)]
mod outcome_fuzz;
#[cfg(test)]
mod resp_fuzz;
#[cfg(test)]
mod resp_reply;
#[cfg(test)]
mod resp_request;
