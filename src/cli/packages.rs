//! `packages`: lists what packages installed, uninstalls some, and brings back removed ones.

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::{console, display_time, wiring};
use crate::config::WorkspaceRule;
use punie_home::{
    ListedPackage, PackageError, PackageKind, PackageReceipt, PackageStore, RemovedPackage,
    check_package_id, command_to_type,
};

/// The changes of a package that a table shows.
const SHOWN_CHANGES: usize = 2;

#[derive(Debug, Args)]
pub struct PackagesArgs {
    #[command(subcommand)]
    word: Option<PackagesCommand>,
}

#[derive(Debug, Subcommand)]
enum PackagesCommand {
    /// List all, and the removed ones that can be restored (the default)
    List,
    /// Remove one, with all files that were changed in it
    Uninstall(PackageArgs),
    /// Put back the one of this id that was removed last
    Restore(PackageArgs),
}

#[derive(Debug, Args)]
struct PackageArgs {
    /// skill, theme, canvas or plugin
    #[arg(value_parser = parse_kind)]
    kind: PackageKind,
    /// Its id in the home
    id: String,
}

fn parse_kind(word: &str) -> Result<PackageKind, String> {
    let words = PackageKind::ALL.map(PackageKind::as_str).join(", ");
    PackageKind::from_word(word).ok_or_else(|| format!("{word:?} is none of {words}"))
}

/// Lists, uninstalls or restores packages.
pub fn run_packages(args: &PackagesArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let packages = wiring::open_packages(&config, &home);
    match &args.word {
        None | Some(PackagesCommand::List) => list_packages(&packages, context.is_json()),
        Some(PackagesCommand::Uninstall(args)) => {
            check_id(&args.id)?;
            let removed = packages.uninstall(args.kind, &args.id, None);
            let receipt = removed.map_err(command_error)?;
            let kind = receipt.kind.as_str();
            if context.is_json() {
                console::print_json(&json!({"kind": kind, "id": receipt.id, "uninstalled": true}));
            } else {
                let restore = command_to_type(&format!("packages restore {kind} {}", receipt.id));
                let text = format!(
                    "Uninstalled: {kind} {}. `{restore}` brings it back.",
                    receipt.id
                );
                console::print_paragraph("", &text);
            }
            Ok(Exit::Done)
        }
        Some(PackagesCommand::Restore(args)) => {
            check_id(&args.id)?;
            let restored = packages.restore(args.kind, &args.id);
            let path = restored.map_err(command_error)?.path.display().to_string();
            let kind = args.kind.as_str();
            if context.is_json() {
                let restored = json!({"kind": kind, "id": args.id, "restored": true, "path": path});
                console::print_json(&restored);
            } else {
                console::print_line(&format!("Restored: {path}"));
            }
            Ok(Exit::Done)
        }
    }
}

fn check_id(id: &str) -> anyhow::Result<()> {
    check_package_id("the id", id).map_err(|bad| CommandError::with_exit(Exit::Usage, bad))
}

fn command_error(error: PackageError) -> anyhow::Error {
    match error {
        PackageError::Home(error) => error.into(),
        other => CommandError::with_exit(Exit::Failed, other.to_string()),
    }
}

fn list_packages(packages: &PackageStore, as_json: bool) -> anyhow::Result<Exit> {
    let (installed, removed) = packages.list_packages().map_err(command_error)?;
    if as_json {
        for one in &installed {
            console::print_json(&json!({
                "kind": one.receipt.kind.as_str(),
                "id": one.receipt.id,
                "packageId": one.receipt.package,
                "version": one.receipt.version,
                "sha256": one.receipt.sha256,
                "state": state_word(one),
                "changes": one.changes,
                "path": one.path.display().to_string(),
                "atMs": one.receipt.at_ms,
            }));
        }
        for one in &removed {
            console::print_json(&json!({
                "kind": one.receipt.kind.as_str(),
                "id": one.receipt.id,
                "packageId": one.receipt.package,
                "version": one.receipt.version,
                "state": "removed",
                "atMs": one.at_ms,
            }));
        }
        return Ok(Exit::Done);
    }
    let shown = installed
        .iter()
        .map(|one| package_row(&one.receipt, state_text(one)));
    let gone = removed.iter().map(removed_row);
    let rows: Vec<Vec<String>> = shown.chain(gone).collect();
    let columns = [
        Column::text("KIND"),
        Column::text("ID"),
        Column::text("PACKAGE"),
        Column::text("VERSION"),
        Column::text("STATE"),
    ];
    console::print_list(&columns, &rows, "No packages are installed.");
    Ok(Exit::Done)
}

fn package_row(receipt: &PackageReceipt, state: String) -> Vec<String> {
    vec![
        receipt.kind.as_str().to_owned(),
        receipt.id.clone(),
        receipt.package.clone(),
        receipt.version.clone().unwrap_or_default(),
        state,
    ]
}

fn removed_row(removed: &RemovedPackage) -> Vec<String> {
    let state = format!("removed {}", display_time::format_moment(removed.at_ms));
    package_row(&removed.receipt, state)
}

fn state_word(one: &ListedPackage) -> &'static str {
    match &one.changes {
        None => "gone",
        Some(changes) if changes.is_empty() => "unchanged",
        Some(_) => "changed",
    }
}

fn state_text(one: &ListedPackage) -> String {
    let changes = one.changes.as_deref().unwrap_or_default();
    let named: Vec<&str> = changes
        .iter()
        .take(SHOWN_CHANGES)
        .map(String::as_str)
        .collect();
    let word = state_word(one);
    if named.is_empty() {
        return word.to_owned();
    }
    let more = if changes.len() > SHOWN_CHANGES {
        ", ..."
    } else {
        ""
    };
    let text = format!("{word} since: {}{more}", named.join(", "));
    console::cell_text(&text, usize::MAX)
}
