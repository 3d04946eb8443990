//! The `wakegate` command.

fn main() {}
