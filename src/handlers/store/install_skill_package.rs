//! InstallSkillPackage: installs a skill in the home.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreDeps;
use punie_home::{SkillPackage, list_skill_secrets};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Install a skill on this device, or update what the same package installed; the answer is JSON.
///
/// A skill whose head requests secrets asks the owner first.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct InstallSkillPackage {
    /// The skillId by default.
    package_id: Option<String>,
    /// Its folder.
    skill_id: String,
    /// For people.
    name: String,
    /// SKILL.md. Without a head one is written.
    markdown: String,
    /// Only `general` by default.
    agent_types: Option<Vec<String>>,
    /// Search terms.
    tags: Option<Vec<String>>,
    /// Such as 1.2.0.
    version: Option<String>,
    /// Of the other arguments, to be checked.
    sha256: Option<String>,
}

impl Tool for InstallSkillPackage {
    const NAME: &'static str = "InstallSkillPackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EXAMPLES: &'static [&'static str] = &[
        r##"{"packageId":"notes-pack","skillId":"notes","name":"Notes","markdown":"# Notes\n\nTake notes in notes.md.\n","version":"1.0.0"}"##,
        r#"{"skillId":"review","name":"Review","markdown":"---\nname: review\ndescription: Reviews changes.\n---\nRead the diff first.\n"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "an id has 1 to 64 of a-z 0-9 - _, a letter or digit first",
        "1,000,000 bytes of markdown",
    ];
    type Deps = StoreDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let secrets = list_skill_secrets(&self.markdown);
        if secrets.is_empty() {
            return DeclaredAccess::none();
        }
        let names: String = secrets.join(", ").chars().take(500).collect();
        let why = format!(
            "it installs the skill {:?}, whose commands get these secrets of yours: {names}",
            self.skill_id
        );
        DeclaredAccess::none().asking_owner(why)
    }

    fn describe(&self) -> CallDescription {
        let title = CallTitle::from_sentence(format!("Install the skill {:?}", self.skill_id));
        CallDescription::with_title(title)
    }

    async fn run(self, _cx: &ToolContext, deps: &StoreDeps) -> Result<ToolReply, ToolError> {
        let package = SkillPackage {
            package: self
                .package_id
                .clone()
                .unwrap_or_else(|| self.skill_id.clone()),
            id: self.skill_id.clone(),
            name: self.name.clone(),
            markdown: self.markdown.clone(),
            agent_types: self.agent_types.clone().unwrap_or_default(),
            tags: self.tags.clone().unwrap_or_default(),
            version: self.version.clone(),
        };
        deps.install_package(&self, self.sha256.as_deref(), package.into_package())
            .await
    }
}
