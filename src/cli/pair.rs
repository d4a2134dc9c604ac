//! `pair`: registers this device with a backend, so that `run` needs no other arguments.

use clap::Args;
use serde_json::json;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::{init, print, wiring};
use crate::backend::Backend;
use crate::config::WorkspaceRule;
use crate::home::{DeviceIdentity, RunnerLock, set_aside};
use crate::redact::Redactor;

#[derive(Debug, Args)]
pub struct PairArgs {
    /// The code that the backend shows
    code: String,
    /// Set this home's identity and journal aside first and pair as a new device: for a home that was copied here
    /// from another machine
    #[arg(long)]
    new_device: bool,
}

/// Opens a first session with the code and stores the backend's address.
pub fn pair(args: &PairArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    if args.new_device {
        // No runner may still use the old identity.
        let _lock = RunnerLock::acquire(&home)?;
        for file in set_aside(&home)? {
            tracing::warn!(file = %file.display(), "set aside");
        }
    }
    let identity = DeviceIdentity::load_or_create(&home)?;
    let device = identity.id().to_string();
    let code = Some(args.code.trim().to_owned());
    let backend = wiring::backend(&config, &home, identity, &Redactor::default(), code)?;
    runtime()?.block_on(backend.open_session())?;
    let url = wiring::functions(&config)?.url().to_owned();
    let kept = init::keep_backend(&config, &url)?;
    if context.json() {
        print::json(
            &json!({"deviceId": device, "url": url, "config": config.file.display().to_string(), "configWritten": kept}),
        );
    } else {
        print::line(&format!("This device ({device}) is paired with {url}."));
        if !kept {
            print::line(&format!(
                "{} names another backend; a plain run uses that one.",
                config.file.display()
            ));
        }
    }
    Ok(Exit::Done)
}
