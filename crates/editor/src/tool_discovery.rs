//! The tools that a session adds to those of this machine: by its catalog, else by its capabilities, else none. This
//! machine's tools are always there. An editor gets no call that it did not say it serves.

use std::fmt;

use super::attached_editors::AttachedEditors;
use super::editor_tool;
use super::session::EditorSession;
use super::tool_catalog::{ToolCatalog, ToolCatalogProblem};
use punie_tool::{ToolRegistration, ToolRegistry};

/// The source of an editor's abilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorTier {
    /// The catalog of its own tools.
    Catalog,
    /// The capabilities that it declared.
    Capabilities,
    /// None: every tool runs on this machine.
    Local,
}

/// A task that an editor can do in place of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorService {
    /// Reads text files of its project.
    ReadsFiles,
    /// Writes text files of its project.
    WritesFiles,
    /// Runs commands in its terminals.
    RunsCommands,
}

impl EditorTier {
    /// Returns the first tier that applies.
    pub fn first_applicable(catalog: &ToolCatalog, serves: &[EditorService]) -> Self {
        if !catalog.descriptors().is_empty() {
            Self::Catalog
        } else if serves.is_empty() {
            Self::Local
        } else {
            Self::Capabilities
        }
    }

    /// Returns its number, from 1.
    pub fn number(self) -> u8 {
        match self {
            Self::Catalog => 1,
            Self::Capabilities => 2,
            Self::Local => 3,
        }
    }
}

impl EditorService {
    /// Returns the services that the editor declared and the owner's settings allow.
    pub fn served_by(session: &EditorSession) -> Vec<Self> {
        let fs = &session.capabilities.fs;
        let files = session.settings.files;
        let served = [
            (files && fs.read_text_file, Self::ReadsFiles),
            (
                files && fs.read_text_file && fs.write_text_file,
                Self::WritesFiles,
            ),
            (session.serves_commands(), Self::RunsCommands),
        ];
        served
            .into_iter()
            .filter_map(|(does, service)| does.then_some(service))
            .collect()
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::ReadsFiles => "reads text files",
            Self::WritesFiles => "writes text files",
            Self::RunsCommands => "runs commands",
        }
    }
}

/// The result of discovering a session's tools. While this is held, the editor's own tools are in the registry.
pub struct EditorToolDiscovery {
    /// The editor, as it names itself.
    pub editor: String,
    /// The source of its abilities.
    pub tier: EditorTier,
    /// The services that it offers in place of this machine.
    pub serves: Vec<EditorService>,
    /// Tools of its catalog that this machine has as well. They run on this machine, with the editor's services.
    pub known: Vec<String>,
    /// Its own tools, by the names that callers use.
    pub own: Vec<String>,
    /// The tools that were left out, with the reasons.
    pub problems: Vec<ToolCatalogProblem>,
    _registration: ToolRegistration,
}

/// Requests a session's tools, once, and registers those that this machine does not have.
pub async fn discover_editor_tools(
    session: &EditorSession,
    registry: &ToolRegistry,
    editors: &AttachedEditors,
) -> EditorToolDiscovery {
    let catalog = session.tool_catalog().await;
    let mut known = Vec::new();
    let mut own = Vec::new();
    let mut guests = Vec::new();
    let mut problems = catalog.problems().to_vec();
    for tool in catalog.descriptors() {
        let name = tool.name();
        if registry.has_device_tool(&name) {
            known.push(name);
            continue;
        }
        match editor_tool::editor_tool_entry(session, tool, editors) {
            Ok(entry) => {
                own.push(name);
                guests.push(entry);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let serves = EditorService::served_by(session);
    let found = EditorToolDiscovery {
        editor: session.editor.clone(),
        tier: EditorTier::first_applicable(catalog, &serves),
        serves,
        known,
        own,
        problems,
        _registration: registry.register_dynamic(guests),
    };
    tracing::info!(
        editor = found.editor,
        tier = found.tier.number(),
        own = found.own.len(),
        "an editor's tools are known"
    );
    found
}

impl fmt::Display for EditorToolDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let editor = &self.editor;
        match self.tier {
            EditorTier::Catalog => writeln!(f, "Tier 1: {editor} has a catalog of its own tools.")?,
            EditorTier::Capabilities => {
                writeln!(
                    f,
                    "Tier 2: {editor} offers no tools of its own; it declared what it serves."
                )?;
            }
            EditorTier::Local => writeln!(
                f,
                "Tier 3: {editor} serves nothing; every tool runs on this machine."
            )?,
        }
        if !self.own.is_empty() {
            writeln!(f, "Run by {editor}: {}.", self.own.join(", "))?;
        }
        if !self.known.is_empty() {
            writeln!(f, "In its catalog and run here: {}.", self.known.join(", "))?;
        }
        if !self.serves.is_empty() {
            let serves: Vec<&str> = self.serves.iter().map(|service| service.phrase()).collect();
            writeln!(f, "In place of this machine it {}.", serves.join(", "))?;
        }
        for problem in &self.problems {
            writeln!(f, "Left out: {problem}.")?;
        }
        Ok(())
    }
}
