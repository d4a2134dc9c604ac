//! InstallThemePackage: installs a theme in the home.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreDeps;
use punie_home::ThemePackage;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Install a theme on this device, or update what the same package installed; the answer is JSON.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct InstallThemePackage {
    /// The themeId by default.
    package_id: Option<String>,
    /// Its file.
    theme_id: String,
    /// For people.
    name: String,
    /// Values by name.
    light: BTreeMap<String, String>,
    /// The same.
    dark: BTreeMap<String, String>,
    /// Such as 1.2.0.
    version: Option<String>,
    /// Of the other arguments, to be checked.
    sha256: Option<String>,
}

impl Tool for InstallThemePackage {
    const NAME: &'static str = "InstallThemePackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EXAMPLES: &'static [&'static str] = &[
        r##"{"themeId":"dusk","name":"Dusk","light":{"background":"#ffffff"},"dark":{"background":"#101018"}}"##,
        r#"{"packageId":"themes","themeId":"plain","name":"Plain","light":{},"dark":{},"version":"0.1.0"}"#,
    ];
    const LIMITS: &'static [&'static str] = &["500 values a map, each of 500 characters"];
    type Deps = StoreDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        let title = CallTitle::from_sentence(format!("Install the theme {:?}", self.theme_id));
        CallDescription::with_title(title)
    }

    async fn run(self, _cx: &ToolContext, deps: &StoreDeps) -> Result<ToolReply, ToolError> {
        let package = ThemePackage {
            package: self
                .package_id
                .clone()
                .unwrap_or_else(|| self.theme_id.clone()),
            id: self.theme_id.clone(),
            name: self.name.clone(),
            light: self.light.clone(),
            dark: self.dark.clone(),
            version: self.version.clone(),
        };
        deps.install_package(&self, self.sha256.as_deref(), package.into_package())
            .await
    }
}
