//! Interleavings of the version protocol, explored by loom, and the same with real threads. Then a
//! structure whose nodes are retired; the interleavings of that are next to the domain, in `src`.
//! Under shuttle the same as a whole, in random schedules.
//!
//! Loom explores all of them up to a number of preemptions, with the weak memory model:
//!
//! ```text
//!   export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3
//!   cargo test -p keyrack-concurrent --lib --tests --release
//! ```

#[cfg(loom)]
mod interleavings;
#[cfg(not(any(loom, shuttle)))]
mod reclamation;
#[cfg(shuttle)]
mod shuttled;
#[cfg(not(any(loom, shuttle)))]
mod threads;
