//! Files that outlive a power loss, and files that are read as memory.
//!
//! All that a program reports as done is written through [`durable`] or [`atomic_dir`], and every file is mapped through [`Mapping`].
//! `tests/it/power_loss.rs` cuts the power at every system call of every writer.

pub mod atomic_dir;
#[cfg(target_os = "linux")]
mod blocks;
pub mod durable;
mod heap;
mod lock;
mod mapping;
#[cfg(not(target_os = "linux"))]
mod no_blocks;
mod sealed;
mod spilling_allocator;
mod temp;

pub use lock::{LOCK, WriteLock};
pub use mapping::{Mapped, Mapping, ensure_whole};
pub use sealed::{Sealed, SealedWriter, prefetch};
pub use spilling_allocator::{SpillingAllocator, limit_large_blocks, spill_failure};
pub use temp::{TempDir, TempFile, TempReader};
