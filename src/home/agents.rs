//! Agents: `agents/<id>/AGENT.md`, a prompt and what the agent may use. Not here: publishing or running them.

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
    /// For people; the id unless the head says otherwise.
    pub name: String,
    /// When to use it; the first line of the body unless the head says.
    pub description: String,
    /// Which kinds of agent it can stand for.
    pub agent_types: Vec<String>,
    /// The only tools it may use; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Skills it begins with.
    pub default_skills: Vec<String>,
    /// The model it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How deep it may hand tasks on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_task_depth: Option<NonZeroU32>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// As written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it may be used.
    pub enabled: bool,
    /// Its prompt, in Markdown.
    pub body: String,
    /// Where it lies on this machine; never published.
    #[serde(skip)]
    pub file: PathBuf,
}

/// The head of an `AGENT.md`. Fields of other products are passed over.
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
    /// The agent as the catalog has it.
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

/// All agents of the home in order of their ids, and what is wrong with the rest. Reads files: call it where
/// blocking is allowed.
pub fn load_agents(home: &Home) -> (Vec<Agent>, Vec<Problem>) {
    let (documents, mut problems) = document::read_all::<Head>(home, &home.agents_dir(), FILE);
    problems
        .extend(documents.iter().filter_map(|d| document::other_id(&d.id, d.fields.id.as_deref(), &d.file)));
    (documents.into_iter().map(Agent::from).collect(), problems)
}
