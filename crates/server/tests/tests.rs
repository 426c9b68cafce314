//! All tests of the server from outside: messages in, messages out. Replay a failure of a random
//! test with `KEYRACK_SEED=n`.

#[cfg(test)]
mod glue;
#[cfg(test)]
mod memcached;
#[cfg(test)]
mod redis;
