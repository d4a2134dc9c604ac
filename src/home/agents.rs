//! Agent definitions in `agents/<id>/AGENT.md`: a prompt, and the tools and skills that the agent may use. Not here:
//! publishing or running them.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::document::{self, CatalogItem, Document, Problem};
use super::frontmatter::List;
use super::layout::Home;

const FILE: &str = "AGENT.md";

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
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
struct Head {
    id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    #[serde(alias = "agent_types")]
    agent_types: List,
    #[serde(
        alias = "toolsAllowlist",
        alias = "tools_allowlist",
        alias = "allowedTools",
        alias = "allowed_tools",
        alias = "allowed-tools"
    )]
    tools: Option<List>,
    #[serde(alias = "default_skills", alias = "skills")]
    default_skills: List,
    model: Option<String>,
    #[serde(alias = "max_task_depth")]
    max_task_depth: Option<NonZeroU32>,
    tags: List,
    version: Option<String>,
    enabled: Option<bool>,
}

impl Agent {
    /// Converts the agent to its entry in the catalog.
    pub fn catalog_item(&self) -> CatalogItem {
        CatalogItem::of(&self.id, self)
    }
}

impl From<Document<Head>> for Agent {
    fn from(Document { id, file, fields: head, body }: Document<Head>) -> Self {
        Self {
            name: head.name.unwrap_or_else(|| id.clone()),
            description: head.description.unwrap_or_else(|| document::first_line(&body)),
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

/// Loads all agents of the home sorted by id, with the problems of the others. Reads files: call it where blocking is
/// allowed.
pub fn load_agents(home: &Home) -> (Vec<Agent>, Vec<Problem>) {
    let (documents, mut problems) = document::read_all::<Head>(home, &home.agents_dir(), FILE);
    problems
        .extend(documents.iter().filter_map(|d| document::other_id(&d.id, d.fields.id.as_deref(), &d.file)));
    (documents.into_iter().map(Agent::from).collect(), problems)
}
