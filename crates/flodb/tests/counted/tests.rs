//! Tests that count what the store asks of the machine: allocations and calls of the system. They
//! are a binary of their own, since the allocator counts for the whole process, and take turns.

#[cfg(test)]
mod allocator;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod damage;
