//! A plugin as a package: its manifest and its files.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::package_conflicts::PackageError;
use super::package_content::PackageContent;
use super::package_kind::{PackageKind, check_package_id};
use super::package_store::NewPackage;
use super::package_version::check_version;
use crate::plugins;

const MANIFEST: &str = "plugin.toml";
/// The longest description of a plugin's access in the question to the owner, in characters.
const MAX_ACCESS_CHARS: usize = 600;

/// A plugin as it is given.
#[derive(Debug, Clone)]
pub struct PluginPackage {
    /// The package's id.
    pub package: String,
    /// The plugin's id.
    pub id: String,
    /// A name for people, for the manifest.
    pub name: Option<String>,
    /// The version, for the manifest too.
    pub version: Option<String>,
    /// Its purpose, for the manifest.
    pub description: Option<String>,
    /// The manifest, unless the files have one.
    pub manifest: Option<Map<String, Value>>,
    /// The files, by their paths with `/`.
    pub files: BTreeMap<String, String>,
}

impl PluginPackage {
    /// Checks the plugin and returns its files.
    ///
    /// # Errors
    /// An id, a version, a path or a limit is wrong.
    pub fn into_package(self) -> Result<NewPackage, PackageError> {
        self.build_package().map_err(PackageError::Invalid)
    }

    fn build_package(self) -> Result<NewPackage, String> {
        check_package_id("packageId", &self.package)?;
        check_package_id("pluginId", &self.id)?;
        self.version.as_deref().map_or(Ok(()), check_version)?;
        let manifest = self.manifest_text()?;
        let mut content = PackageContent::default();
        content.add_file(MANIFEST, manifest)?;
        for (path, text) in self.files {
            if path != MANIFEST {
                content.add_file(&path, text)?;
            }
        }
        Ok(NewPackage {
            kind: PackageKind::Plugin,
            id: self.id,
            package: self.package,
            version: self.version,
            content,
        })
    }

    /// Returns the manifest as TOML.
    fn manifest_text(&self) -> Result<String, String> {
        match (&self.manifest, self.files.get(MANIFEST)) {
            (Some(_), Some(_)) => Err(format!(
                "give the manifest once: as `manifest`, or as {MANIFEST} in `files`"
            )),
            (None, None) => Err(format!(
                "it has no manifest. Give `manifest`, such as {{\"command\":[\"node\",\"server.js\"]}}, or {MANIFEST} in `files`"
            )),
            (None, Some(text)) if self.name.is_none() && self.description.is_none() => {
                Ok(text.clone())
            }
            (None, Some(_)) => Err(format!("write name and description into {MANIFEST}")),
            (Some(manifest), None) => {
                let mut manifest = manifest.clone();
                let own = [
                    ("name", &self.name),
                    ("version", &self.version),
                    ("description", &self.description),
                ];
                for (key, value) in own {
                    if let Some(value) = value {
                        manifest.entry(key).or_insert_with(|| json!(value));
                    }
                }
                toml::to_string(&manifest)
                    .map_err(|error| format!("the manifest cannot be written as TOML: {error}"))
            }
        }
    }
}

/// Describes what a plugin runs and may use, for the question to the owner.
pub fn describe_plugin_package(plugin: &PluginPackage) -> String {
    let access = plugin.manifest_text();
    let access = access.and_then(|text| plugins::describe_manifest(&text));
    let access = access.unwrap_or_else(|why| format!("its manifest cannot be used: {why}"));
    let cut: String = access.chars().take(MAX_ACCESS_CHARS).collect();
    let rest = if cut.len() < access.len() {
        " (cut; all of it is in the arguments)"
    } else {
        ""
    };
    format!(
        "it installs the plugin {:?}, a program: {cut}{rest}",
        plugin.id
    )
}
