//! `halite completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use std::io::Write;

use crate::{Cli, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite completions bash > ~/.local/share/bash-completion/completions/halite
  halite completions zsh > ~/.zfunc/_halite
  halite completions fish > ~/.config/fish/completions/halite.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<()> {
        // Into memory first: the generator panics where its output is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "halite", &mut script);
        let mut out = output::stdout();
        out.write_all(&script).and_then(|()| out.flush()).map_err(output::failed)
    }
}
