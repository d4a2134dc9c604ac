//! Skills in `skills/<id>/SKILL.md`: instructions that the owner gives to agents.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document_checks::ConventionFields;
use super::document_file::UnreadableDocument;
use super::frontmatter::{self, TextList, ToolNames};
use super::home_document::{
    self, CatalogEntry, CopyTexts, DocumentHead, DocumentKind, HomeDocument,
};
use super::home_problem::HomeProblem;
use super::layout::Home;
use super::secret_mounts::{SecretMount, SecretMounts};

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
    /// Its license, or the name of the file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The products, programs or networks that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Anything else that its author wrote about it, with sorted keys.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
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
    tools: Option<ToolNames>,
    tags: TextList,
    version: Option<String>,
    license: Option<String>,
    compatibility: Option<String>,
    metadata: Option<Value>,
    enabled: Option<bool>,
    #[serde(alias = "secret_mounts")]
    secret_mounts: SecretMounts,
}

impl Skill {
    /// Converts the skill to its entry in the catalog.
    pub fn catalog_item(&self) -> CatalogEntry {
        CatalogEntry::from_serializable(&self.id, self)
    }
}

impl From<HomeDocument<SkillHead>> for Skill {
    fn from(
        HomeDocument {
            id,
            file,
            fields: head,
            body,
            ..
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
            license: head.license,
            compatibility: head.compatibility,
            metadata: match head.metadata.map(home_document::sort_keys) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            },
            enabled: head.enabled.unwrap_or(true),
            secrets: head.secret_mounts.into_mounts(),
            body,
            file,
            id,
        }
    }
}

impl DocumentHead for SkillHead {
    fn convention_fields(&self) -> ConventionFields<'_> {
        ConventionFields {
            id: self.id.as_deref(),
            name: self.name.as_deref(),
            description: self.description.as_deref(),
            compatibility: self.compatibility.as_deref(),
            is_metadata_wrong: self
                .metadata
                .as_ref()
                .is_some_and(|value| !value.is_object()),
        }
    }
}

/// Loads all skills of the home sorted by id, with the problems of the others. Reads files: call it where blocking is
/// allowed.
pub fn load_skills(home: &Home, copy: CopyTexts) -> (Vec<Skill>, Vec<HomeProblem>) {
    let (documents, problems) =
        home_document::read_documents::<SkillHead>(home, DocumentKind::Skill, copy);
    (documents.into_iter().map(Skill::from).collect(), problems)
}

/// Returns the secrets that the head of this text requests.
pub(super) fn read_secret_mounts(text: &str) -> Result<Vec<SecretMount>, String> {
    let parsed = frontmatter::parse_frontmatter::<SkillHead>(text);
    let head = parsed.map_err(|bad| bad.to_string())?.fields;
    Ok(head.secret_mounts.into_mounts())
}

/// Checks that the skill in this folder of the home can be loaded, and returns its flaws.
pub(super) fn check_skill(home: &Home, folder: &Path) -> Result<Vec<String>, String> {
    home_document::read_document::<SkillHead>(home, folder, DocumentKind::Skill)
        .map(HomeDocument::into_flaws)
        .map_err(UnreadableDocument::into_text)
}
