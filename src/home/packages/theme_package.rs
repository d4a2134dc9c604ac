//! A theme as a package: a JSON file with its colours for light and dark.

use std::collections::BTreeMap;

use serde_json::json;

use super::package_conflicts::PackageError;
use super::package_content::PackageContent;
use super::package_kind::{PackageKind, check_package_id};
use super::package_store::NewPackage;
use super::package_version::check_version;

/// The most values of one map, and characters of a key, a value and the name.
const MAX_VALUES: usize = 500;
const MAX_CHARS: usize = 500;

/// A theme as it is given.
#[derive(Debug, Clone)]
pub struct ThemePackage {
    /// The package's id.
    pub package: String,
    /// The theme's id.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The values for light.
    pub light: BTreeMap<String, String>,
    /// The values for dark.
    pub dark: BTreeMap<String, String>,
    /// The version.
    pub version: Option<String>,
}

impl ThemePackage {
    /// Checks the theme and returns its file.
    ///
    /// # Errors
    /// An id, a version or a limit is wrong.
    pub fn into_package(self) -> Result<NewPackage, PackageError> {
        self.build_package().map_err(PackageError::Invalid)
    }

    fn build_package(self) -> Result<NewPackage, String> {
        check_package_id("packageId", &self.package)?;
        check_package_id("themeId", &self.id)?;
        self.version.as_deref().map_or(Ok(()), check_version)?;
        let is_within = |text: &String| (1..=MAX_CHARS).contains(&text.chars().count());
        let mut all = self.light.iter().chain(&self.dark);
        if self.light.len().max(self.dark.len()) > MAX_VALUES
            || !is_within(&self.name)
            || !all.all(|(key, value)| is_within(key) && is_within(value))
        {
            return Err(format!(
                "light and dark may have {MAX_VALUES} values each; the name, a key and a value have 1 to {MAX_CHARS} \
                 characters"
            ));
        }
        let theme =
            json!({"id": self.id, "name": self.name, "light": self.light, "dark": self.dark});
        let mut content = PackageContent::default();
        let file = PackageKind::Theme.file_name(&self.id);
        content.add_file(&file, format!("{theme:#}\n"))?;
        Ok(NewPackage {
            kind: PackageKind::Theme,
            id: self.id,
            package: self.package,
            version: self.version,
            content,
        })
    }
}
