//! UninstallPackage: removes what a package installed. The owner can bring it back.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::StoreDeps;
use punie_home::{PackageKind, check_package_id};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Remove what a package installed; the owner can bring it back. The answer is JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct UninstallPackage {
    /// To be checked.
    package_id: Option<String>,
    /// What it is.
    r#type: PackageType,
    /// Its skillId, themeId, workspaceId or pluginId.
    local_id: String,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PackageType {
    Skill,
    Theme,
    Canvas,
    Plugin,
    Mod,
}

impl PackageType {
    /// Returns the kind of package; a mod is none.
    fn kind(self) -> Option<PackageKind> {
        match self {
            Self::Skill => Some(PackageKind::Skill),
            Self::Theme => Some(PackageKind::Theme),
            Self::Canvas => Some(PackageKind::Canvas),
            Self::Plugin => Some(PackageKind::Plugin),
            Self::Mod => None,
        }
    }
}

impl Tool for UninstallPackage {
    const NAME: &'static str = "UninstallPackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"packageId":"notes-pack","type":"skill","localId":"notes"}"#,
        r#"{"type":"plugin","localId":"hello"}"#,
    ];
    const LIMITS: &'static [&'static str] = &["only what a package installed"];
    type Deps = StoreDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        let title = match self.r#type.kind() {
            Some(kind) => format!("Uninstall the {} {:?}", kind.as_str(), self.local_id),
            None => format!("Uninstall the mod {:?}", self.local_id),
        };
        CallDescription::with_title(CallTitle::from_sentence(title))
    }

    async fn run(self, _cx: &ToolContext, deps: &StoreDeps) -> Result<ToolReply, ToolError> {
        let Some(kind) = self.r#type.kind() else {
            let note = "A mod is not uninstalled. SelfModRevert takes back what it changed.";
            let reply = json!({"uninstalled": false, "requiresRevert": true, "note": note});
            return Ok(reply.into());
        };
        let ids = [
            ("packageId", self.package_id.as_ref()),
            ("localId", Some(&self.local_id)),
        ];
        for (name, id) in ids {
            id.map_or(Ok(()), |id| check_package_id(name, id))
                .map_err(ToolError::invalid_args)?;
        }
        let id = self.local_id;
        let package = self.package_id;
        let receipt = deps
            .change_packages(move |packages| packages.uninstall(kind, &id, package.as_deref()))
            .await?;
        let word = kind.as_str();
        let id = receipt.id;
        let note =
            format!("`punie-runner packages restore {word} {id}` brings it back for a while.");
        let reply = json!({"uninstalled": true, "packageId": receipt.package, "note": note});
        Ok(reply.into())
    }
}
