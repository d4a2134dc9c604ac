//! `keygen`: creates a key for signing requests, for callers.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::console;
use super::context::CliContext;
use super::exit::Exit;
use punie_home::{command_to_type, make_request_key, shell_word};
use punie_tool::request::public_key_from_seed;

#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// The new file for the private key, readable by you only
    file: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeygenOutput {
    file: String,
    public_key: String,
}

/// Creates a key and shows how to configure its public half.
pub fn run_keygen(args: &KeygenArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let seed = make_request_key(&args.file)?;
    let public_key = public_key_from_seed(seed.expose());
    if context.is_json() {
        console::print_json(&KeygenOutput {
            file: args.file.display().to_string(),
            public_key,
        });
        return Ok(Exit::Done);
    }
    console::print_line(&format!("{public_key}\n"));
    console::print_line(
        "At the device, in config.toml, this makes it run nothing that is not signed with it:\n",
    );
    console::print_line(&format!("[backend]\nrequest_key = \"{public_key}\"\n"));
    console::print_line(&format!(
        "Sign with: {}",
        command_to_type(&format!(
            "send --sign-key {} ...",
            shell_word(&args.file.display().to_string())
        ))
    ));
    Ok(Exit::Done)
}
