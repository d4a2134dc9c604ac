//! `uninstall`: removes the service, and the home when told; says what is left.

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::installation::{self, InstalledBy};
use super::{console, service};
use crate::config::Config;
use punie_home::{
    DeviceIdentity, Home, KeyPlace, RunnerLock, SecretStore, command_to_type, shell_word,
};

#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// Remove the home too: settings, the device's key, secrets, the audit log, and the backups for `undo`
    #[arg(long)]
    remove_home: bool,
    /// Remove the home without a question
    #[arg(long, requires = "remove_home")]
    yes: bool,
    /// Only say what would be removed and what would be left
    #[arg(long)]
    dry_run: bool,
}

/// What `uninstall` did, and what the owner may remove by hand.
#[derive(Debug, Default)]
struct Outcome {
    removed: Vec<String>,
    /// What is left, each with the way to remove it.
    left: Vec<[String; 2]>,
}

/// Removes the service of this home, and the home when told.
pub fn run_uninstall(args: &UninstallArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.config_despite_faults()?;
    let home = Home::find(&config.home);
    if let Some(home) = home.as_ref().filter(|_| args.remove_home) {
        check_key_place(home)?;
        if !args.yes && !args.dry_run && !is_confirmed(home)? {
            console::print_line("Nothing was removed.");
            return Ok(Exit::Failed);
        }
    }
    let mut outcome = Outcome::default();
    let service = service::find_installed(&config, context)?;
    if let Some(service) = &service {
        let lingers = service
            .read_state()
            .is_ok_and(|state| state.lingers == Some(true));
        if !args.dry_run {
            service::remove_service(service)?;
        }
        outcome
            .removed
            .push(service.file_path().display().to_string());
        if lingers {
            outcome.left.push([
                "your user's right to run services without a login".to_owned(),
                "loginctl disable-linger, unless something else of yours needs it".to_owned(),
            ]);
        }
    }
    if let Some(home) = home {
        list_device(&home, &mut outcome);
        let shown = home.root_dir().display().to_string();
        if args.remove_home {
            if !args.dry_run {
                remove_home(home, &config, context)?;
            }
            outcome.removed.push(shown);
        } else {
            let again = command_to_type("uninstall --remove-home");
            outcome.left.push([format!("the home {shown}"), again]);
        }
    }
    list_program(&mut outcome)?;
    print_outcome(&outcome, args.dry_run, context.is_json());
    Ok(Exit::Done)
}

/// Refuses to leave a key in the keychain whose secrets are removed.
fn check_key_place(home: &Home) -> anyhow::Result<()> {
    if SecretStore::in_home(home).key_place().ok() != Some(KeyPlace::Keychain) {
        return Ok(());
    }
    let text = format!(
        "the key of the secrets is in the system's keychain. Move it into the home first, so that it goes with it: {}",
        command_to_type("secrets key --to file")
    );
    Err(CommandError::with_exit(Exit::Failed, text))
}

fn is_confirmed(home: &Home) -> anyhow::Result<bool> {
    if !(std::io::stdin().is_terminal() && console::is_terminal()) {
        let text =
            "this removes the home for good, and nobody can be asked without a terminal: add --yes";
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    let question = format!(
        "Remove {} for good, with the device's key, secrets, audit log and the backups for undo?",
        home.root_dir().display()
    );
    Ok(console::ask_yes_no(&question)?)
}

/// Removes the home unless a runner runs in it.
fn remove_home(home: Home, config: &Config, context: &CliContext) -> anyhow::Result<()> {
    let lock = RunnerLock::try_acquire(&home).context(
        "the home stays: stop its runner (Ctrl-C in its terminal, or end its process), then type this again",
    )?;
    let user = context.environment().user_dir();
    let kept: Vec<&Path> = config
        .workspaces
        .iter()
        .map(AsRef::as_ref)
        .chain(user)
        .collect();
    home.remove_home(lock, &kept)?;
    Ok(())
}

/// The backend keeps the device's public key until somebody withdraws it there.
fn list_device(home: &Home, outcome: &mut Outcome) {
    if let Ok(Some(identity)) = DeviceIdentity::find(home) {
        let id = identity.device_id();
        outcome.left.push([
            format!("the device {id} at its backend"),
            command_to_type(&format!("operator devices revoke {id}")),
        ]);
    }
}

fn list_program(outcome: &mut Outcome) -> anyhow::Result<()> {
    let program = installation::find_own_program()?;
    let quote = |path: &Path| shell_word(&path.to_string_lossy()).into_owned();
    let how = match installation::find_installer(&program) {
        InstalledBy::Cargo => "cargo uninstall punie-runner".to_owned(),
        InstalledBy::Homebrew => "brew uninstall punie-runner".to_owned(),
        InstalledBy::SystemPackage => {
            "your package manager, such as apt remove punie-runner".to_owned()
        }
        InstalledBy::Archive => format!("rm {}", quote(&program)),
    };
    let mut leave = |what: String, how: String| outcome.left.push([what, how]);
    leave(format!("the program {}", program.display()), how);
    let previous = installation::previous_program(&program);
    if previous.is_file() {
        leave(
            format!("the program before the last update, {}", previous.display()),
            format!("rm {}", quote(&previous)),
        );
    }
    if let Some(share) = installation::find_documents(&program) {
        leave(
            format!("manual pages and completions below {}", share.display()),
            format!(
                "cd {} && rm -f man/man1/punie-runner*.1 zsh/site-functions/_punie-runner \
                 bash-completion/completions/punie-runner fish/vendor_completions.d/punie-runner.fish",
                quote(&share)
            ),
        );
    }
    leave(
        "entries in the settings of your editors (agent_servers)".to_owned(),
        "remove them there".to_owned(),
    );
    Ok(())
}

fn print_outcome(outcome: &Outcome, dry_run: bool, as_json: bool) {
    if as_json {
        let left: Vec<_> = outcome
            .left
            .iter()
            .map(|[what, how]| json!({"what": what, "how": how}))
            .collect();
        console::print_json(&json!({"removed": outcome.removed, "left": left, "dryRun": dry_run}));
        return;
    }
    let verb = if dry_run { "Would remove" } else { "Removed" };
    for path in &outcome.removed {
        console::print_line(&format!("{verb} {path}."));
    }
    if outcome.removed.is_empty() {
        console::print_line("No service of this home is installed.");
    }
    console::print_line("Left, and how to remove it:");
    for [what, how] in &outcome.left {
        console::print_line(&format!("- {what}: {how}"));
    }
}
