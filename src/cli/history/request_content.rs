//! The content of one request: its arguments, its answer, the files that it changed, and how to undo it.

use crate::cli::traffic_text::describe_traffic;
use crate::cli::{audit, console, stop, table, wiring};
use crate::config::Config;
use punie_core::host_traffic::HostTraffic;
use punie_engine::journal::{FullHistory, HistoryEntry, JournalReader};
use punie_home::{Home, command_to_type};
use punie_text::output::hidden_characters::escape_hidden_characters;

use punie_text::output::{CallRecord, CallRecordStore};
use punie_tool::ToolEffect;
use punie_tool::request::OutcomeKind;
use punie_undo::TrashEntry;

/// The content of a request, as far as it is kept.
#[derive(Debug, Default)]
pub(super) struct RequestContent {
    pub record: Option<CallRecord>,
    /// The traffic of the call's command with other hosts.
    pub network: Vec<HostTraffic>,
    pub changed_files: Vec<String>,
    /// The workspaces without snapshots, if the call has snapshots.
    pub snapshot_gaps: Option<Vec<String>>,
    pub can_undo: bool,
    /// The background shells of this request that still run.
    pub running_shells: Vec<String>,
}

impl RequestContent {
    /// Reads the content of a request from this home.
    ///
    /// # Errors
    /// The home cannot be read.
    pub fn load(config: &Config, home: &Home, history: &FullHistory) -> anyhow::Result<Self> {
        let Some(entry) = &history.entry else {
            return Ok(Self::default());
        };
        let store = CallRecordStore::in_folder(home.call_records_dir());
        let record = match entry.finished_at_ms {
            Some(ended_at_ms) => store.find(&entry.id, ended_at_ms)?,
            None => None,
        };
        let backup = wiring::open_trash(config, home).find_entry_of(&entry.id)?;
        let snapshot_gaps = backup.as_ref().and_then(TrashEntry::snapshot_gaps);
        let mut changed_files = match &record {
            Some(record) if snapshot_gaps.is_none() => record.files.clone(),
            _ => Vec::new(),
        };
        let mut can_undo = false;
        if let Some(backup) = &backup {
            can_undo = backup.undone_at_ms.is_none() && backup.file_count() > 0;
            if changed_files.is_empty() {
                let paths = backup.changed_paths();
                changed_files = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
            }
        }
        let reader = JournalReader::find(&home.journal_file())?;
        let running_shells = match reader {
            Some(reader) if entry.finished_at_ms.is_some() => {
                stop::running_shells(&reader, &entry.id)?
            }
            _ => Vec::new(),
        };
        let network = match audit::find_later_traffic(home, &entry.id)? {
            Some(network) => network,
            None => record
                .as_ref()
                .map_or_else(Vec::new, |record| record.network.clone()),
        };
        Ok(Self {
            record,
            network,
            changed_files,
            snapshot_gaps,
            can_undo,
            running_shells,
        })
    }

    /// Prints the changed files. Of a command without snapshots none are known.
    fn show_changed_files(&self, entry: &HistoryEntry) {
        let runs_command = entry.effect == ToolEffect::Executes.as_str();
        let is_untracked = runs_command && self.snapshot_gaps.is_none();
        let heading = "Changed files";
        if !self.changed_files.is_empty() {
            show_block(heading, &self.changed_files.join("\n"));
        } else if self.snapshot_gaps.is_some() {
            console::print_row(heading, "none in the workspaces, but for what git ignores");
        }
        for gap in self.snapshot_gaps.iter().flatten() {
            console::print_row("Not covered", gap);
        }
        if is_untracked && entry.outcome == Some(OutcomeKind::Ok) {
            console::print_line("Changes by the command are not tracked.");
        }
    }

    /// Prints the content under its headings.
    pub fn show_content(&self, entry: &HistoryEntry) {
        match &self.record {
            Some(record) => {
                show_block("Arguments", &record.arguments);
                show_block("Output", &record.output);
            }
            None if entry.finished_at_ms.is_none() => {}
            None if entry.title.is_none() => {
                console::print_row("Arguments", "not kept (keep_titles under [journal])");
                console::print_row("Output", "not kept");
            }
            None => {
                console::print_row("Arguments", "no longer kept");
                console::print_row("Output", "no longer kept");
            }
        }
        if !self.network.is_empty() {
            let lines: Vec<String> = self.network.iter().map(describe_traffic).collect();
            show_block("Network", &lines.join("\n"));
        }
        self.show_changed_files(entry);
        for shell in &self.running_shells {
            let stop = command_to_type(&format!("stop {shell}"));
            console::print_row("Still runs", &format!("{shell}; `{stop}` ends it"));
        }
        if self.can_undo {
            let undo = format!("undo {}", table::short_id(&entry.id));
            console::print_row("Undo", &command_to_type(&undo));
        }
    }
}

/// Prints a text of several lines, indented under its heading.
fn show_block(heading: &str, text: &str) {
    if text.is_empty() {
        return console::print_row(heading, "none");
    }
    console::print_line(heading);
    for line in escape_hidden_characters(text).lines() {
        console::print_line(&format!("  {line}"));
    }
}
