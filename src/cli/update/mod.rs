//! `update`: replaces this program by the newest release, or by the one before.

mod program_files;
mod release;
mod runner_restart;

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use semver::Version;
use serde::Serialize;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::installation::{self, InstalledBy};
use crate::config::{Config, optional_parts};
use program_files::NewProgram;
use punie_engine::journal::{JournalError, JournalReader};
use punie_home::{Home, command_to_type};
use release::ReleaseSource;
use runner_restart::RestartOutcome;

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct UpdateArgs {
    /// Only say whether there is a newer release
    #[arg(long, conflicts_with_all = ["rollback", "now"])]
    check: bool,
    /// Go back to the program that the last update replaced
    #[arg(long)]
    rollback: bool,
    /// Restart the service at once; running calls get the time of `limits.drain_ms`
    #[arg(long)]
    now: bool,
    /// Exit with 0 if this program can open the databases of the home
    #[arg(long, hide = true, exclusive = true)]
    check_home: bool,
}

/// The output with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateOutput {
    /// The version of the program that was asked.
    version: String,
    /// The newest release, or the program that `--rollback` put back.
    found: String,
    /// The program was replaced.
    replaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner: Option<RestartOutcome>,
}

/// Updates the program, or goes back.
pub fn run_update(args: &UpdateArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.config_despite_faults()?;
    if args.check_home {
        return check_home(&config);
    }
    let program = installation::find_own_program()?;
    if !args.check {
        check_ownership(&program)?;
        program_files::check_folder(&program)?;
    }
    if args.rollback {
        return roll_back(&program, &config, args, context);
    }
    let current = own_version();
    let source = ReleaseSource::from_config(&config)?;
    let runtime = command_runtime()?;
    // A home with faults must not stand in the way of the program that mends them.
    let home = Home::find(&config.home).and_then(|_| Home::open_home(&config.home).ok());
    let seen = home.map(|home| home.release_list_file());
    let release = runtime.block_on(source.find_newest(seen.as_deref()))?;
    if release.version <= current {
        let text = format!(
            "punie-runner {current} is the newest release at {}.",
            source.url()
        );
        return Ok(print_version(&text, &release.version, context));
    }
    if args.check {
        let text = format!(
            "punie-runner {} is there; this is {current}. To take it: {}",
            release.version,
            command_to_type("update")
        );
        return Ok(print_version(&text, &release.version, context));
    }
    if !context.is_json() {
        console::print_line(&format!("Downloading punie-runner {} ...", release.version));
    }
    let archive = runtime.block_on(source.download_archive(&release))?;
    let unpacked = program_files::unpack_archive(&archive, release.folder_name())?;
    let new = NewProgram::write_beside(&program, &unpacked.program)?;
    new.check_version(&release.version)?;
    program_files::replace_program(new.path(), &program)?;
    if let Err(error) = program_files::replace_documents(&program, &unpacked.documents) {
        console::print_stderr(&format!(
            "The manual pages and completions are still those of {current}: {error:#}\n"
        ));
    }
    finish(&program, &release.version, &config, args, context)
}

fn own_version() -> Version {
    Version::parse(env!("CARGO_PKG_VERSION")).expect("cargo checks the version")
}

/// Refuses a program that something else keeps up to date.
fn check_ownership(program: &Path) -> anyhow::Result<()> {
    if optional_parts::version() != env!("CARGO_PKG_VERSION") {
        anyhow::bail!(
            "this program is {}, and a release has every part: build the newer one in the same way",
            optional_parts::version()
        );
    }
    let how = match installation::find_installer(program) {
        InstalledBy::Archive => return Ok(()),
        InstalledBy::Cargo => "git pull && cargo install --path ., or cargo binstall punie-runner",
        InstalledBy::Homebrew => "brew upgrade punie-runner",
        InstalledBy::SystemPackage => "your package manager, such as apt",
    };
    let text = format!(
        "{} was not installed by the script or from the archive, so it is not replaced. Update it with {how}",
        program.display()
    );
    Err(CommandError::with_exit(Exit::Failed, text))
}

/// Checks for the program of another version that this one can open the databases of the home.
fn check_home(config: &Config) -> anyhow::Result<Exit> {
    let Some(home) = Home::find(&config.home) else {
        return Ok(Exit::Done);
    };
    match JournalReader::find(&home.journal_file()) {
        Ok(_) | Err(JournalError::Older { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    punie_dev_backend::check_database_version(&home.dev_backend_file())?;
    Ok(Exit::Done)
}

fn roll_back(
    program: &Path,
    config: &Config,
    args: &UpdateArgs,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let previous = installation::previous_program(program);
    if !previous.is_file() {
        let text = format!(
            "there is no earlier program to go back to: no update of {} was made",
            program.display()
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    let version = program_files::ask_version(&previous)?;
    program_files::ask_about_home(&previous, &config.home).with_context(|| {
        format!(
            "punie-runner {version} stays aside: it cannot work with the home {}, which a newer version has changed",
            config.home.display()
        )
    })?;
    program_files::replace_program(&previous, program)?;
    finish(program, &version, config, args, context)
}

/// Restarts the runner of this home, and says what was done.
fn finish(
    program: &Path,
    version: &Version,
    config: &Config,
    args: &UpdateArgs,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let previous = installation::previous_program(program);
    if !context.is_json() {
        console::print_line(&format!(
            "{} is punie-runner {version} now. The one before is {}. To go back to it: {}",
            program.display(),
            previous.display(),
            command_to_type("update --rollback")
        ));
    }
    let restart = runner_restart::restart_runner(program, config, args.now, context)
        .context("the program was replaced, and its runner is still the one before")?;
    if context.is_json() {
        console::print_json(&UpdateOutput {
            version: own_version().to_string(),
            found: version.to_string(),
            replaced: true,
            runner: Some(restart),
        });
    } else if let Some(text) = restart.describe() {
        console::print_line(&text);
    }
    Ok(Exit::Done)
}

fn print_version(text: &str, found: &Version, context: &CliContext) -> Exit {
    if context.is_json() {
        console::print_json(&UpdateOutput {
            version: own_version().to_string(),
            found: found.to_string(),
            replaced: false,
            runner: None,
        });
    } else {
        console::print_line(text);
    }
    Exit::Done
}
