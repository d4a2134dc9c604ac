//! `completions`: prints a shell's completion script.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::Exit;
use super::{Cli, console};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    shell: Shell,
}

/// Prints the script.
#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub fn run_completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "punie-runner", &mut script);
    console::print_line(String::from_utf8_lossy(&script).trim_end());
    Ok(Exit::Done)
}
