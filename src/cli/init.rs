//! `init`: writes a first configuration, and stores a backend's address in it.
#![expect(clippy::disallowed_methods, reason = "it reads and writes the owner's own configuration file")]

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::print;
use crate::config::default_file::{self, Known};
use crate::config::{BackendUrl, Config, WorkspaceRule};
use crate::durable::{self, Readers};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Replace a configuration that is there
    #[arg(long)]
    force: bool,
}

/// Writes the configuration with the values of the flags.
pub fn init(args: &InitArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    Context::home(&config)?;
    if config.file.exists() && !args.force {
        let text = format!("{} is there already; --force replaces it", config.file.display());
        return Err(Stop::with(Exit::Failed, text));
    }
    let known = Known { backend_url: config.backend.url.clone(), workspaces: config.workspaces.clone() };
    write(&config.file, &default_file::text(&known))?;
    if context.json() {
        print::json(&json!({"config": config.file.display().to_string()}));
    } else {
        print::line(&format!(
            "Wrote {}. Every key is in it, with its default and what it does.",
            config.file.display()
        ));
        if config.backend.url.is_none() {
            print::line("Next: punie-runner --backend-url URL pair CODE, which puts the address into it.");
        }
    }
    Ok(Exit::Done)
}

/// Stores this backend's address for a plain run. Returns false if the file names another one, which stays.
pub(super) fn keep_backend(config: &Config, url: &str) -> anyhow::Result<bool> {
    let kept = BackendUrl::parse(url).map_err(|cause| Stop::with(Exit::Config, cause))?;
    let known = Known { backend_url: Some(kept), workspaces: config.workspaces.clone() };
    if !config.file.exists() {
        write(&config.file, &default_file::text(&known))?;
        return Ok(true);
    }
    let written = std::fs::read_to_string(&config.file).with_context(|| config.file.display().to_string())?;
    match set_url(&written, url) {
        Change::Already => Ok(true),
        Change::Other => Ok(false),
        Change::To(text) => write(&config.file, &text).map(|()| true),
    }
}

/// The change to a configuration's text.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Already,
    Other,
    To(String),
}

/// Sets `url` under `[backend]` and leaves every other line as it is.
fn set_url(text: &str, url: &str) -> Change {
    let wanted = format!("url = {}", serde_json::Value::from(url));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(table) = lines.iter().position(|line| line.trim() == "[backend]") else {
        lines.extend([String::new(), "[backend]".to_owned(), wanted]);
        return Change::To(lines.join("\n") + "\n");
    };
    let end = lines
        .iter()
        .skip(table + 1)
        .position(|line| line.trim_start().starts_with('['))
        .map_or(lines.len(), |at| table + 1 + at);
    let is_url = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == "url");
    if let Some(set) = lines[table..end].iter().find(|line| is_url(line.trim_start())) {
        let same = set.split_once('=').is_some_and(|(_, value)| {
            value.trim().trim_matches(['"', '\'']).trim_end_matches('/') == url.trim_end_matches('/')
        });
        return if same { Change::Already } else { Change::Other };
    }
    match lines[table..end].iter().position(|line| line.trim_start().strip_prefix('#').is_some_and(is_url)) {
        Some(at) => lines[table + at] = wanted,
        None => lines.insert(table + 1, wanted),
    }
    Change::To(lines.join("\n") + "\n")
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    durable::replace_file(file, text.as_bytes(), Readers::AsBefore)
        .map_err(|cause| Stop::with(Exit::CannotWrite, format!("{}: {cause}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_set_and_nothing_else_is_touched() {
        let written =
            "# mine\n[limits]\nreads = 4\n[backend]\n#url = \"https://example\"\nkind = \"convex\"\n[log]\n";
        let Change::To(text) = set_url(written, "http://127.0.0.1:1") else { panic!("it is set") };
        assert_eq!(
            text,
            "# mine\n[limits]\nreads = 4\n[backend]\nurl = \"http://127.0.0.1:1\"\nkind = \"convex\"\n[log]\n"
        );
        assert_eq!(set_url(&text, "http://127.0.0.1:1/"), Change::Already);
        assert_eq!(set_url(&text, "http://127.0.0.1:2"), Change::Other);
        let Change::To(text) = set_url("", "http://127.0.0.1:1") else { panic!("it is set") };
        assert_eq!(text, "\n[backend]\nurl = \"http://127.0.0.1:1\"\n");
    }
}
