//! `trash`: lists, restores and empties the stored before-images and removed files. Not here: undoing a request in
//! place (undo).

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::{audit, moments, print, undo, wiring};
use crate::audit::{Entry, Event};
use crate::config::WorkspaceRule;
use crate::home::Home;
use crate::output::figures;
use crate::runner::Clock;
use crate::trash::{Trash, TrashEntry};

#[derive(Debug, Args)]
pub struct TrashArgs {
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// What is kept, the latest first
    List,
    /// Copy what is kept of a request into a folder; what is in its place now stays, and so does the trash
    Restore(RestoreArgs),
    /// Let go of everything; then nothing can be undone
    Empty(EmptyArgs),
}

#[derive(Debug, Args)]
struct RestoreArgs {
    /// The request; the beginning or the end of its id is enough
    request: String,
    /// The folder, which must not be there yet or be empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Debug, Args)]
struct EmptyArgs {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// One request, as `--json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    request_id: &'a str,
    tool: &'a str,
    at_ms: i64,
    undone_at_ms: Option<i64>,
    files: u64,
    bytes: u64,
    paths: Vec<String>,
    /// Commands of which nothing is kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    untracked: Vec<&'a str>,
}

/// The result of emptying.
#[derive(Serialize)]
struct Emptied {
    requests: u64,
    bytes: u64,
}

/// Lists, restores or empties the trash.
pub fn trash(args: &TrashArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let trash = wiring::trash(&config, &home);
    match &args.word {
        Word::List => list(&trash, context.json()),
        Word::Restore(args) => restore(&home, &trash, args, context.json()),
        Word::Empty(args) => empty(&home, &trash, args, context.json()),
    }
}

fn list(trash: &Trash, as_json: bool) -> anyhow::Result<Exit> {
    let all = trash.list()?;
    if as_json {
        for kept in &all {
            print::json(&Line::of(kept));
        }
    } else if all.is_empty() {
        print::line("The trash is empty.");
    } else {
        let now_ms = Clock::system().now_ms();
        let rows: Vec<Vec<String>> = all.iter().map(|kept| row(kept, now_ms)).collect();
        print::table(&["WHEN", "TOOL", "FILES", "SIZE", "REQUEST", "PATHS"], &rows);
    }
    Ok(Exit::Done)
}

impl<'a> Line<'a> {
    fn of(kept: &'a TrashEntry) -> Self {
        Self {
            request_id: kept.request.as_str(),
            tool: &kept.tool,
            at_ms: kept.at_ms,
            undone_at_ms: kept.undone_at_ms,
            files: kept.files(),
            bytes: kept.bytes(),
            paths: kept.paths().iter().map(|path| path.display().to_string()).collect(),
            untracked: kept.untracked().collect(),
        }
    }
}

fn row(kept: &TrashEntry, now_ms: i64) -> Vec<String> {
    let mut paths: Vec<String> = kept.paths().iter().map(|path| path.display().to_string()).collect();
    paths.extend(kept.untracked().map(|command| format!("{command} (not kept)")));
    let first = paths.first().cloned().unwrap_or_default();
    let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    let undone = if kept.undone_at_ms.is_some() { "undone: " } else { "" };
    vec![
        moments::ago(kept.at_ms, now_ms),
        print::cell(&kept.tool, 30),
        figures::grouped(kept.files()),
        figures::size(kept.bytes()),
        kept.request.to_string(),
        print::cell(&format!("{undone}{first}{more}"), usize::MAX),
    ]
}

fn restore(home: &Home, trash: &Trash, args: &RestoreArgs, as_json: bool) -> anyhow::Result<Exit> {
    let copied = trash
        .restore(&args.request, &args.to)
        .map_err(|unready| Stop::with(undo::exit(&unready), unready.to_string()))?;
    audit::note(home, audit::by_owner(Event::TrashRestored).about(&copied.request));
    if as_json {
        print::json(&serde_json::json!({
            "requestId": copied.request.as_str(), "copied": copied.lines, "to": args.to.display().to_string(),
        }));
        return Ok(Exit::Done);
    }
    print::line(&format!("Copied to {}:", args.to.display()));
    for line in &copied.lines {
        print::line(&format!("  {}", print::cell(line, usize::MAX)));
    }
    Ok(Exit::Done)
}

fn empty(home: &Home, trash: &Trash, args: &EmptyArgs, as_json: bool) -> anyhow::Result<Exit> {
    if !args.yes {
        if !std::io::stdin().is_terminal() || !print::is_terminal() {
            return Err(Stop::with(Exit::Usage, "nobody can be asked here; say --yes to empty the trash"));
        }
        let all = trash.list()?;
        let bytes: u64 = all.iter().map(TrashEntry::bytes).sum();
        print::aside(&format!(
            "{} of {} are kept. Empty the trash? Nothing of it can be undone then. [y/N] ",
            figures::size(bytes),
            figures::counted(all.len() as u64, "request")
        ));
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            print::line("Nothing was emptied.");
            return Ok(Exit::Failed);
        }
    }
    let (requests, bytes) = trash.empty()?;
    audit::note(home, Entry { count: Some(requests), ..audit::by_owner(Event::TrashEmptied) });
    if as_json {
        print::json(&Emptied { requests, bytes });
    } else {
        print::line(&format!(
            "Emptied: {} of {}.",
            figures::size(bytes),
            figures::counted(requests, "request")
        ));
    }
    Ok(Exit::Done)
}
