//! Agent definitions in `agents/<id>/AGENT.md`: a prompt, and the tools and skills that the agent may use.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document_checks::ConventionFields;
use super::document_file::UnreadableDocument;
use super::frontmatter::{TextList, ToolNames};
use super::home_document::{
    self, CatalogEntry, CopyTexts, DocumentHead, DocumentKind, HomeDocument,
};
use super::home_problem::HomeProblem;
use super::layout::Home;

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDefinition {
    /// The name of its folder.
    pub id: String,
    /// A name for people; the id unless the head has another.
    pub name: String,
    /// The purpose of the agent; the first line of the body unless the head has another.
    pub description: String,
    /// The kinds of agent that it can replace.
    pub agent_types: Vec<String>,
    /// The only tools that it may use; all tools if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The skills that it starts with.
    pub default_skills: Vec<String>,
    /// The model that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most levels of tasks that it may delegate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_task_depth: Option<NonZeroU32>,
    /// Search terms for it.
    pub tags: Vec<String>,
    /// The version as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The agent may be used.
    pub enabled: bool,
    /// Its prompt, in Markdown.
    pub body: String,
    /// Its path on this machine; never published.
    #[serde(skip)]
    pub file: PathBuf,
}

/// The head of an `AGENT.md`. Fields of other products are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AgentHead {
    id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    #[serde(alias = "agent_types")]
    agent_types: TextList,
    #[serde(
        alias = "toolsAllowlist",
        alias = "tools_allowlist",
        alias = "allowedTools",
        alias = "allowed_tools",
        alias = "allowed-tools"
    )]
    tools: Option<ToolNames>,
    #[serde(alias = "default_skills", alias = "skills")]
    default_skills: TextList,
    model: Option<String>,
    #[serde(alias = "max_task_depth")]
    max_task_depth: Option<NonZeroU32>,
    tags: TextList,
    version: Option<String>,
    enabled: Option<bool>,
}

impl AgentDefinition {
    /// Converts the agent to its entry in the catalog.
    pub fn catalog_item(&self) -> CatalogEntry {
        CatalogEntry::from_serializable(&self.id, self)
    }
}

impl From<HomeDocument<AgentHead>> for AgentDefinition {
    fn from(
        HomeDocument {
            id,
            file,
            fields: head,
            body,
            ..
        }: HomeDocument<AgentHead>,
    ) -> Self {
        Self {
            name: head.name.unwrap_or_else(|| id.clone()),
            description: head
                .description
                .unwrap_or_else(|| home_document::first_text_line(&body)),
            agent_types: head.agent_types.0,
            tools: head.tools.map(|list| list.0),
            default_skills: head.default_skills.0,
            model: head.model,
            max_task_depth: head.max_task_depth,
            tags: head.tags.0,
            version: head.version,
            enabled: head.enabled.unwrap_or(true),
            body,
            file,
            id,
        }
    }
}

impl DocumentHead for AgentHead {
    fn convention_fields(&self) -> ConventionFields<'_> {
        ConventionFields {
            id: self.id.as_deref(),
            name: self.name.as_deref(),
            description: self.description.as_deref(),
            ..ConventionFields::default()
        }
    }
}

/// Loads all agents of the home sorted by id, with the problems of the others. Reads files: call it where blocking is
/// allowed.
pub fn load_agents(home: &Home, copy: CopyTexts) -> (Vec<AgentDefinition>, Vec<HomeProblem>) {
    let (documents, problems) =
        home_document::read_documents::<AgentHead>(home, DocumentKind::Agent, copy);
    (
        documents.into_iter().map(AgentDefinition::from).collect(),
        problems,
    )
}

/// Checks that the agent in this folder of the home can be loaded, and returns its flaws.
pub(super) fn check_agent(home: &Home, folder: &Path) -> Result<Vec<String>, String> {
    home_document::read_document::<AgentHead>(home, folder, DocumentKind::Agent)
        .map(HomeDocument::into_flaws)
        .map_err(UnreadableDocument::into_text)
}
