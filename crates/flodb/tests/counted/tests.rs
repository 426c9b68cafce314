//! Tests that count what the store asks of the machine: allocations and calls of the system. They
//! are a binary of their own, since the allocator counts for the whole process, and take turns.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod allocator;
mod calls;
mod damage;
