//! InstallCanvasPackage: writes a small web app into the home from a template. Nothing is run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreDeps;
use punie_home::{CanvasPackage, check_package_id};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Write a small web app (Vite, React) on this device, or update what the same package wrote; the answer is JSON.
///
/// It runs nothing: `npm install` is yours to run.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct InstallCanvasPackage {
    /// An id.
    package_id: String,
    /// Its folder; the name or packageId by default.
    workspace_id: Option<String>,
    /// For people.
    name: Option<String>,
    /// npm names with versions to add.
    dependencies: Option<BTreeMap<String, String>>,
    /// src/App.tsx.
    source: Option<String>,
    /// Such as 1.2.0.
    version: Option<String>,
    /// Of the other arguments, to be checked.
    sha256: Option<String>,
}

impl InstallCanvasPackage {
    /// Returns the canvas's id. A name that is no id is one for people.
    fn id(&self) -> &str {
        let name = self.name.as_deref();
        let name = name.filter(|name| check_package_id("name", name).is_ok());
        let id = self.workspace_id.as_deref().or(name);
        id.unwrap_or(&self.package_id)
    }
}

impl Tool for InstallCanvasPackage {
    const NAME: &'static str = "InstallCanvasPackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"packageId":"chart","source":"export default function App() {\n  return <main>Hello</main>;\n}\n","dependencies":{"d3":"^7.9.0"}}"#,
        r#"{"packageId":"boards","workspaceId":"board-1"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "250,000 characters of source",
        "64 dependencies, each with a version or a range of versions",
    ];
    type Deps = StoreDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        let title = CallTitle::from_sentence(format!("Install the canvas {:?}", self.id()));
        CallDescription::with_title(title)
    }

    async fn run(self, _cx: &ToolContext, deps: &StoreDeps) -> Result<ToolReply, ToolError> {
        let package = CanvasPackage {
            package: self.package_id.clone(),
            id: self.id().to_owned(),
            dependencies: self.dependencies.clone().unwrap_or_default(),
            source: self.source.clone(),
            version: self.version.clone(),
        };
        deps.install_package(&self, self.sha256.as_deref(), package.into_package())
            .await
    }
}
