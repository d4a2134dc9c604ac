//! InstallPluginPackage: installs a plugin in the home, after the owner was asked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::StoreDeps;
use punie_home::{PluginPackage, describe_plugin_package};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Install a plugin on this device, or update what the same package installed; the answer is JSON.
///
/// The owner is asked first.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct InstallPluginPackage {
    /// The pluginId by default.
    package_id: Option<String>,
    /// The packageId by default.
    plugin_id: Option<String>,
    /// For the manifest.
    name: Option<String>,
    /// Such as 1.2.0.
    version: Option<String>,
    /// For the manifest.
    description: Option<String>,
    /// plugin.toml as an object.
    manifest: Option<Map<String, Value>>,
    /// Texts by path.
    files: Option<BTreeMap<String, String>>,
    /// Of the other arguments, to be checked.
    sha256: Option<String>,
}

impl InstallPluginPackage {
    fn to_package(&self) -> PluginPackage {
        let id = self.plugin_id.as_ref().or(self.package_id.as_ref());
        let package = self.package_id.as_ref().or(self.plugin_id.as_ref());
        PluginPackage {
            package: package.cloned().unwrap_or_default(),
            id: id.cloned().unwrap_or_default(),
            name: self.name.clone(),
            version: self.version.clone(),
            description: self.description.clone(),
            manifest: self.manifest.clone(),
            files: self.files.clone().unwrap_or_default(),
        }
    }
}

impl Tool for InstallPluginPackage {
    const NAME: &'static str = "InstallPluginPackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"pluginId":"hello","version":"1.0.0","manifest":{"command":["node","server.js"]},"files":{"server.js":"// a server of the Model Context Protocol\n"}}"#,
        r#"{"packageId":"pack","pluginId":"bundle","files":{"plugin.toml":"description = \"A skill.\"\n","skills/hello/SKILL.md":"Say hello.\n"}}"#,
    ];
    const LIMITS: &'static [&'static str] = &["200 files of 4,000,000 bytes together"];
    type Deps = StoreDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let why = describe_plugin_package(&self.to_package());
        DeclaredAccess::none().asking_owner(why)
    }

    fn describe(&self) -> CallDescription {
        let title = format!("Install the plugin {:?}", self.to_package().id);
        CallDescription::with_title(CallTitle::from_sentence(title))
    }

    async fn run(self, _cx: &ToolContext, deps: &StoreDeps) -> Result<ToolReply, ToolError> {
        let package = self.to_package().into_package();
        deps.install_package(&self, self.sha256.as_deref(), package)
            .await
    }
}
