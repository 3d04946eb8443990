//! The `wakegate` command.

use std::process::ExitCode;

// A worker allocates for every wake on one thread and frees on another, which the system's
// allocator pays for dearly (docs/decisions/0032-cost-of-a-batch.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wakegate::cli::main()
}
