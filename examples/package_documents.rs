//! Writes what packages carry beside the program: a manual page for each command, and the completion scripts.
//!
//! `cargo test --test package_documents -- DIR DATE` fills `DIR/man` and `DIR/completions`. The pages bear the date, such
//! as 2026-12-31. It is no command of the program, because nobody needs it after the packages are made.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::Command;
use clap_mangen::Man;
use punie_runner::cli::command_groups::grouped_command;
use punie_runner::cli::completion_script;

/// The scripts under the names by which each shell finds them.
const SCRIPTS: &[(&str, &str)] = &[
    ("bash", "punie-runner"),
    ("elvish", "punie-runner.elv"),
    ("fish", "punie-runner.fish"),
    ("powershell", "_punie-runner.ps1"),
    ("zsh", "_punie-runner"),
];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, date] = args.as_slice() else {
        bail!("usage: package_documents DIR DATE");
    };
    write_documents(Path::new(folder), date)
}

/// Writes the pages and the scripts into two folders below this one.
///
/// # Errors
/// A file cannot be written.
pub fn write_documents(folder: &Path, date: &str) -> anyhow::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for created in [&man, &completions] {
        fs::create_dir_all(created)
            .with_context(|| format!("cannot make {}", created.display()))?;
    }
    let mut command = grouped_command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &man, date)?;
    for (shell, file) in SCRIPTS {
        fs::write(completions.join(file), completion_script(shell)?)?;
    }
    Ok(())
}

/// Writes the page of a command, and those of the commands below it.
fn write_pages(command: &Command, folder: &Path, date: &str) -> anyhow::Result<()> {
    // An empty field of the head would be taken for the next one.
    let page = Man::new(command.clone())
        .date(date)
        .source(concat!("punie-runner ", env!("CARGO_PKG_VERSION")))
        .manual("punie-runner");
    page.generate_to(folder)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| write_pages(below, folder, date))
}
