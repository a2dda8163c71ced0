//! The allocator below [`SpillingAllocator`](super::SpillingAllocator).

/// musl's own has one lock for all threads, and static programs wait for it.
#[cfg(target_env = "musl")]
pub use mimalloc::MiMalloc as Heap;
#[cfg(not(target_env = "musl"))]
pub use std::alloc::System as Heap;
