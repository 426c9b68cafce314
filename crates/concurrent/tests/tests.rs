//! Interleavings of the version protocol, explored by loom, and the same with real threads.
//!
//! Loom explores all of them up to a number of preemptions, with the weak memory model:
//!
//! ```text
//!   export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3
//!   cargo test -p keyrack-concurrent --test tests --release
//! ```

#[cfg(loom)]
mod interleavings;
#[cfg(not(loom))]
mod threads;
