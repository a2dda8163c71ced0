use std::process::ExitCode;

fn main() -> ExitCode {
    dedup::cli::shard()
}
