//! `keygen`: creates a key for signing requests, for callers. Not here: the signed text (request).

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::print;
use crate::home::make_request_key;
use crate::request::public_key_of;

#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where the private key is kept, for you alone; there must be no such file yet
    file: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    file: String,
    public_key: String,
}

/// Creates a key and shows how to configure its public half.
pub fn keygen(args: &KeygenArgs, context: &Context) -> anyhow::Result<Exit> {
    let seed = make_request_key(&args.file)?;
    let public_key = public_key_of(seed.expose());
    if context.json() {
        print::json(&Answer { file: args.file.display().to_string(), public_key });
        return Ok(Exit::Done);
    }
    print::line(&format!("{public_key}\n"));
    print::line("At the device, in config.toml, this makes it run nothing that is not signed with it:\n");
    print::line(&format!("[backend]\nrequest_key = \"{public_key}\"\n"));
    print::line(&format!("Sign with: punie-runner send --sign-key {} ...", args.file.display()));
    Ok(Exit::Done)
}
