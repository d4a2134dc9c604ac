//! `pair`: registers this device with a backend, so that `run` needs no other arguments.

use clap::Args;
use serde_json::json;

use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::{console, first_contact, init, runner_screen, wiring};
use crate::config::WorkspaceRule;
use punie_engine::backend::Backend;
use punie_home::{DeviceIdentity, RunnerLock, command_to_type, set_identity_aside};
use punie_text::redact::Redactor;

#[derive(Debug, Args)]
pub struct PairArgs {
    /// The pairing code that the backend shows
    code: String,
    /// Pair as a new device, and set the identity and journal of this home aside: for a home that was copied from
    /// another machine
    #[arg(long)]
    new_device: bool,
}

impl PairArgs {
    /// The arguments for pairing this device as it is.
    pub(super) fn with_code(code: String) -> Self {
        Self {
            code,
            new_device: false,
        }
    }
}

/// Prints the workspaces that a runner takes where it is started in this folder.
fn print_workspaces_here(context: &CliContext) {
    if let Ok(here) = context.try_config(WorkspaceRule::OrCurrentDir) {
        console::print_line(&format!(
            "Started in this folder, it works in {}.",
            runner_screen::describe_workspaces(&here.workspaces, context.environment())
        ));
    }
}

/// Opens a first session with the code and stores the backend's address.
pub fn run_pair(args: &PairArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    if args.new_device {
        // No runner may still use the old identity.
        let _lock = RunnerLock::try_acquire(&home)?;
        for file in set_identity_aside(&home)? {
            tracing::warn!(file = %file.display(), "set aside");
        }
    }
    let identity = DeviceIdentity::load_or_create(&home)?;
    let device = identity.device_id().to_string();
    let code = Some(args.code.trim().to_owned());
    let backend = wiring::convex_backend(&config, &home, identity, &Redactor::default(), code)?;
    let url = wiring::http_functions(&config)?.backend_url().to_owned();
    let session = command_runtime()?
        .block_on(backend.open_session())
        .map_err(|error| first_contact::explain_pairing(error.into(), Some(&url), true))?;
    let kept = init::store_backend_url(&config, &home, &url)?;
    if context.is_json() {
        console::print_json(
            &json!({"deviceId": device, "url": url, "config": config.file.display().to_string(), "configWritten": kept}),
        );
    } else {
        let already = if session.is_new_device {
            "is paired"
        } else {
            "was already paired: the code was not needed"
        };
        console::print_line(&format!("This device ({device}) {already} ({url})."));
        if !kept {
            console::print_line(&format!(
                "{} names another backend, which a plain run uses. For this one: {}",
                config.file.display(),
                command_to_type("")
            ));
        } else if config.workspaces.is_empty() {
            console::print_line(&format!(
                "Next: set paths under [workspaces] in {}, or go to the folder to work in. Then run: {}",
                config.file.display(),
                command_to_type("")
            ));
            print_workspaces_here(context);
        } else {
            console::print_line(&format!(
                "Next: {}, which runs requests until Ctrl-C. To keep it running: {}",
                command_to_type(""),
                command_to_type("service install")
            ));
        }
    }
    Ok(Exit::Done)
}
