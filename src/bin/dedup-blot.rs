use dedup::cli::SpillingAllocator;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: SpillingAllocator = SpillingAllocator;

fn main() -> ExitCode {
    dedup::cli::blot()
}
