//! `wakegate completions <shell>`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Exit, Failure, print};

const AFTER_HELP: &str = "\
Examples:
  wakegate completions bash > ~/.local/share/bash-completion/completions/wakegate
  wakegate completions zsh > \"${fpath[1]}/_wakegate\"
  wakegate completions fish > ~/.config/fish/completions/wakegate.fish";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompletionsArgs {
    /// The shell to print them for
    pub shell: Shell,
}

/// Prints the script. It reads no configuration, so that a wrong one does not break a shell.
pub(super) fn execute(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wakegate", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
