//! Skills in `skills/<id>/SKILL.md`: instructions that the owner gives to agents. Not here: publishing them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::frontmatter::TextList;
use super::home_document::{self, HomeCatalogItem, HomeDocument, HomeProblem};
use super::layout::Home;
use super::secret_mounts::{SecretMount, SecretMounts};

const FILE: &str = "SKILL.md";

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The name of its folder.
    pub id: String,
    /// A name for people; the id unless the head has another.
    pub name: String,
    /// The purpose of the skill; the first line of the body unless the head has another.
    pub description: String,
    /// The kinds of agent that it is for; all if empty.
    pub agent_types: Vec<String>,
    /// The only tools that it may use; all tools if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Search terms for it.
    pub tags: Vec<String>,
    /// The version as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The skill may be used.
    pub enabled: bool,
    /// The secrets for its commands, in this order; not published.
    #[serde(skip)]
    pub secrets: Vec<SecretMount>,
    /// The instructions, in Markdown.
    pub body: String,
    /// Its path on this machine; never published.
    #[serde(skip)]
    pub file: PathBuf,
}

/// The head of a `SKILL.md`. Fields of other products are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SkillHead {
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
    tools: Option<TextList>,
    tags: TextList,
    version: Option<String>,
    enabled: Option<bool>,
    #[serde(alias = "secret_mounts")]
    secret_mounts: SecretMounts,
}

impl Skill {
    /// Converts the skill to its entry in the catalog.
    pub fn catalog_item(&self) -> HomeCatalogItem {
        HomeCatalogItem::from_serializable(&self.id, self)
    }
}

impl From<HomeDocument<SkillHead>> for Skill {
    fn from(
        HomeDocument {
            id,
            file,
            fields: head,
            body,
        }: HomeDocument<SkillHead>,
    ) -> Self {
        Self {
            name: head.name.unwrap_or_else(|| id.clone()),
            description: head
                .description
                .unwrap_or_else(|| home_document::first_text_line(&body)),
            agent_types: head.agent_types.0,
            tools: head.tools.map(|list| list.0),
            tags: head.tags.0,
            version: head.version,
            enabled: head.enabled.unwrap_or(true),
            secrets: head.secret_mounts.into_mounts(),
            body,
            file,
            id,
        }
    }
}

/// Loads all skills of the home sorted by id, with the problems of the others. Reads files: call it where blocking is
/// allowed.
pub fn load_skills(home: &Home) -> (Vec<Skill>, Vec<HomeProblem>) {
    let (documents, mut problems) =
        home_document::read_documents::<SkillHead>(home, &home.skills_dir(), FILE);
    problems.extend(documents.iter().filter_map(|d| {
        home_document::mismatched_id_problem(&d.id, d.fields.id.as_deref(), &d.file)
    }));
    (documents.into_iter().map(Skill::from).collect(), problems)
}
