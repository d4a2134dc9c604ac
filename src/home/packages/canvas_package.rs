//! A canvas as a package: a small web app from a template in the program, with the given source and dependencies. It is
//! only written; nothing is installed or run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::package_conflicts::PackageError;
use super::package_content::PackageContent;
use super::package_kind::{PackageKind, check_package_id};
use super::package_store::NewPackage;
use super::package_version::{check_version, is_version};
use crate::name_grammar::is_npm_name;

/// The most characters of the source.
const MAX_SOURCE: usize = 250_000;
/// The most dependencies that can be given.
const MAX_DEPENDENCIES: usize = 64;
/// The most bytes of a range of versions.
const MAX_RANGE: usize = 100;
/// The text of the template that stands for the canvas's name.
const NAME_MARK: &str = "{{name}}";
const SOURCE_FILE: &str = "src/App.tsx";
const DEPENDENCIES_FILE: &str = "package.json";
const TEMPLATE: [(&str, &str); 6] = [
    (
        DEPENDENCIES_FILE,
        include_str!("canvas_template/package.json"),
    ),
    ("index.html", include_str!("canvas_template/index.html")),
    (
        "vite.config.js",
        include_str!("canvas_template/vite.config.js"),
    ),
    (
        "tsconfig.json",
        include_str!("canvas_template/tsconfig.json"),
    ),
    ("src/main.tsx", include_str!("canvas_template/main.tsx")),
    (SOURCE_FILE, include_str!("canvas_template/App.tsx")),
];

/// A canvas as it is given.
#[derive(Debug, Clone)]
pub struct CanvasPackage {
    /// The package's id.
    pub package: String,
    /// The canvas's id, the name of its folder.
    pub id: String,
    /// The npm packages to add, each with an exact version or a range.
    pub dependencies: BTreeMap<String, String>,
    /// The content of `src/App.tsx`, in place of the template's.
    pub source: Option<String>,
    /// The version.
    pub version: Option<String>,
}

impl CanvasPackage {
    /// Checks the canvas and returns its files.
    ///
    /// # Errors
    /// An id, a version, a dependency or a limit is wrong.
    pub fn into_package(self) -> Result<NewPackage, PackageError> {
        self.build_package().map_err(PackageError::Invalid)
    }

    fn build_package(mut self) -> Result<NewPackage, String> {
        check_package_id("packageId", &self.package)?;
        check_package_id("workspaceId", &self.id)?;
        self.version.as_deref().map_or(Ok(()), check_version)?;
        self.check_dependencies()?;
        let length = self
            .source
            .as_ref()
            .map_or(0, |source| source.chars().count());
        if length > MAX_SOURCE {
            return Err(format!(
                "the source has {length} characters, and {MAX_SOURCE} are allowed"
            ));
        }
        let mut content = PackageContent::default();
        for (path, text) in TEMPLATE {
            let text = match (path, self.source.take()) {
                (SOURCE_FILE, Some(source)) => source,
                (_, source) => {
                    self.source = source;
                    let text = text.replace(NAME_MARK, &self.id);
                    if path == DEPENDENCIES_FILE {
                        add_dependencies(&text, &self.dependencies)
                    } else {
                        text
                    }
                }
            };
            content.add_file(path, text)?;
        }
        Ok(NewPackage {
            kind: PackageKind::Canvas,
            id: self.id,
            package: self.package,
            version: self.version,
            content,
        })
    }

    fn check_dependencies(&self) -> Result<(), String> {
        if self.dependencies.len() > MAX_DEPENDENCIES {
            return Err(format!(
                "it has {} dependencies, and {MAX_DEPENDENCIES} are allowed",
                self.dependencies.len()
            ));
        }
        for (name, range) in &self.dependencies {
            if !is_npm_name(name) {
                return Err(format!(
                    "the dependency {name:?} is not the name of an npm package"
                ));
            }
            if !is_version_range(range) {
                return Err(format!(
                    "the version {range:?} of {name} is neither an exact version nor a range of versions, such as 1.2.3 or \
                     ^1.2.0"
                ));
            }
        }
        Ok(())
    }
}

/// Adds dependencies to the text of `package.json`.
fn add_dependencies(text: &str, dependencies: &BTreeMap<String, String>) -> String {
    let mut package: Value = serde_json::from_str(text).expect("the template is JSON");
    for (name, range) in dependencies {
        package["dependencies"][name] = json!(range);
    }
    format!("{package:#}\n")
}

/// Returns whether a text is a version, or comparisons of versions joined by blanks and `||`. Tags, addresses and paths
/// are none.
fn is_version_range(range: &str) -> bool {
    let is_comparison = |text: &str| {
        let operators = [">=", "<=", "^", "~", ">", "<", "="];
        let version = operators
            .iter()
            .find_map(|operator| text.strip_prefix(operator));
        let version = version.unwrap_or(text);
        // `1.x` is `1` with any other numbers.
        let bare = version.trim_end_matches(".x").trim_end_matches(".*");
        is_version(bare)
    };
    let is_choice = |choice: &str| {
        let mut comparisons = choice.split_whitespace().peekable();
        comparisons.peek().is_some() && comparisons.all(is_comparison)
    };
    range.len() <= MAX_RANGE && range.split("||").all(is_choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_npm_names_with_versions() {
        for name in ["react", "@scope/name", "d3-array", "lodash.merge", "7zip"] {
            assert!(is_npm_name(name), "{name}");
        }
        for name in [
            "",
            "@scope",
            "@/x",
            "a/b",
            "../x",
            "React",
            "a b",
            ".x",
            "__proto__",
        ] {
            assert!(!is_npm_name(name), "{name}");
        }
        for range in [
            "1.2.3",
            "^1.2.0",
            "~1",
            ">=1.2 <2",
            "1.x",
            "1 || 2.x",
            "1.0.0-beta.1",
        ] {
            assert!(is_version_range(range), "{range}");
        }
        for range in [
            "",
            "latest",
            "*",
            "file:../x",
            "git+ssh://x",
            "https://x/y.tgz",
            "npm:other@1",
            "user/repo",
            "1 ||",
            "^",
            "workspace:1",
        ] {
            assert!(!is_version_range(range), "{range}");
        }
    }

    #[test]
    fn the_template_is_whole_and_has_the_name() {
        let canvas = CanvasPackage {
            package: "pack".to_owned(),
            id: "chart-1".to_owned(),
            dependencies: BTreeMap::from([("d3".to_owned(), "^7.0.0".to_owned())]),
            source: None,
            version: None,
        };
        let package = canvas.into_package().expect("valid");
        let names: Vec<String> = package.content.file_hashes().into_keys().collect();
        assert_eq!(names.len(), TEMPLATE.len());
        for (path, text) in TEMPLATE {
            let is_marked = ["package.json", "index.html", "src/App.tsx"].contains(&path);
            assert_eq!(text.contains(NAME_MARK), is_marked, "{path}");
        }
    }
}
