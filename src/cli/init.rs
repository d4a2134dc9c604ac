//! `init`: writes a first configuration, and stores a backend's address in it.
#![expect(
    clippy::disallowed_methods,
    reason = "it reads and writes the owner's own configuration file"
)]

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::console;
use super::context::CliContext;
use super::exit::{CommandError, Exit};
use crate::config::default_file::{self, KnownSettings};
use crate::config::{BackendUrl, Config, WorkspaceRule};
use crate::durable::{self, Readers};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Replace a configuration that is there
    #[arg(long)]
    force: bool,
}

/// Writes the configuration with the values of the flags.
pub fn run_init(args: &InitArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    CliContext::config_home(&config)?;
    if config.file.exists() && !args.force {
        let text = format!(
            "{} is there already; --force replaces it",
            config.file.display()
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    let known = KnownSettings {
        backend_url: config.backend.url.clone(),
        workspaces: config.workspaces.clone(),
    };
    write_config(&config.file, &default_file::render_default_config(&known))?;
    if context.is_json() {
        console::print_json(&json!({"config": config.file.display().to_string()}));
    } else {
        console::print_line(&format!(
            "Wrote {}. Every key is in it, with its default and what it does.",
            config.file.display()
        ));
        if config.backend.url.is_none() {
            console::print_line(
                "Next: punie-runner --backend-url URL pair CODE, which puts the address into it.",
            );
        }
    }
    Ok(Exit::Done)
}

/// Stores this backend's address for a plain run. Returns false if the file names another one, which stays.
pub(super) fn store_backend_url(config: &Config, url: &str) -> anyhow::Result<bool> {
    let kept =
        BackendUrl::parse_url(url).map_err(|cause| CommandError::with_exit(Exit::Config, cause))?;
    let known = KnownSettings {
        backend_url: Some(kept),
        workspaces: config.workspaces.clone(),
    };
    if !config.file.exists() {
        write_config(&config.file, &default_file::render_default_config(&known))?;
        return Ok(true);
    }
    let written =
        std::fs::read_to_string(&config.file).with_context(|| config.file.display().to_string())?;
    match set_backend_url(&written, url) {
        UrlChange::AlreadySet => Ok(true),
        UrlChange::OtherUrl => Ok(false),
        UrlChange::NewText(text) => write_config(&config.file, &text).map(|()| true),
    }
}

/// The change to a configuration's text.
#[derive(Debug, PartialEq, Eq)]
enum UrlChange {
    AlreadySet,
    OtherUrl,
    NewText(String),
}

/// Sets `url` under `[backend]` and leaves every other line as it is.
fn set_backend_url(text: &str, url: &str) -> UrlChange {
    let wanted = format!("url = {}", serde_json::Value::from(url));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(table) = lines.iter().position(|line| line.trim() == "[backend]") else {
        lines.extend([String::new(), "[backend]".to_owned(), wanted]);
        return UrlChange::NewText(lines.join("\n") + "\n");
    };
    let end = lines
        .iter()
        .skip(table + 1)
        .position(|line| line.trim_start().starts_with('['))
        .map_or(lines.len(), |at| table + 1 + at);
    let is_url = |line: &str| {
        line.split_once('=')
            .is_some_and(|(key, _)| key.trim() == "url")
    };
    if let Some(set) = lines[table..end]
        .iter()
        .find(|line| is_url(line.trim_start()))
    {
        let same = set.split_once('=').is_some_and(|(_, value)| {
            value.trim().trim_matches(['"', '\'']).trim_end_matches('/')
                == url.trim_end_matches('/')
        });
        return if same {
            UrlChange::AlreadySet
        } else {
            UrlChange::OtherUrl
        };
    }
    match lines[table..end]
        .iter()
        .position(|line| line.trim_start().strip_prefix('#').is_some_and(is_url))
    {
        Some(at) => lines[table + at] = wanted,
        None => lines.insert(table + 1, wanted),
    }
    UrlChange::NewText(lines.join("\n") + "\n")
}

fn write_config(file: &Path, text: &str) -> anyhow::Result<()> {
    durable::replace_file(file, text.as_bytes(), Readers::AsBefore).map_err(|cause| {
        CommandError::with_exit(Exit::CannotWrite, format!("{}: {cause}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_set_and_nothing_else_is_touched() {
        let written = "# mine\n[limits]\nreads = 4\n[backend]\n#url = \"https://example\"\nkind = \"convex\"\n[log]\n";
        let UrlChange::NewText(text) = set_backend_url(written, "http://127.0.0.1:1") else {
            panic!("it is set")
        };
        assert_eq!(
            text,
            "# mine\n[limits]\nreads = 4\n[backend]\nurl = \"http://127.0.0.1:1\"\nkind = \"convex\"\n[log]\n"
        );
        assert_eq!(
            set_backend_url(&text, "http://127.0.0.1:1/"),
            UrlChange::AlreadySet
        );
        assert_eq!(
            set_backend_url(&text, "http://127.0.0.1:2"),
            UrlChange::OtherUrl
        );
        let UrlChange::NewText(text) = set_backend_url("", "http://127.0.0.1:1") else {
            panic!("it is set")
        };
        assert_eq!(text, "\n[backend]\nurl = \"http://127.0.0.1:1\"\n");
    }
}
