//! The `wakegate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    wakegate::cli::main()
}
