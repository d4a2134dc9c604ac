//! `keygen`: a key to sign requests with, for whoever asks devices. Not here: what is signed (request).

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

/// Makes a key and says how its public half is pinned.
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
