//! The tools that install, refuse, replace and remove packages, also after crashes and beside the owner's own files.

mod canvases;
mod crashes;
mod homes;
mod ids;
mod plugins;
mod skills;
mod uninstalling;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punie_handlers::store::{self, StoreDeps};
use punie_home::{Home, PackageStore};
use punie_tool::{ReplyBody, ToolError, ToolRegistry};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::tools;

/// The configuration that enables the tools.
const ENABLED: &str = "[store]\nenabled = true\n";

/// The package tools with a home of the test's own.
struct StoreFixture {
    home: PathBuf,
    tools: ToolRegistry,
    _folder: TempDir,
}

impl StoreFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("home");
        let home = Home::open_home(&root).expect("a home");
        let packages = PackageStore::in_home(&home, Duration::from_hours(24));
        Self {
            home: root,
            tools: tools::build_registry(store::tools(StoreDeps { packages })),
            _folder: folder,
        }
    }

    async fn call(&self, tool: &str, args: &Value) -> Result<Value, ToolError> {
        let reply = tools::call_tool(&self.tools, tool, args.clone()).await?;
        match reply.body {
            ReplyBody::Json(value) => Ok(value),
            other => panic!("no JSON: {other:?}"),
        }
    }

    /// Installs a package, and returns the tool's result, such as `installed`.
    async fn install(&self, tool: &str, args: &Value) -> String {
        let said = self.call(tool, args).await;
        let said = said.unwrap_or_else(|error| panic!("{}: {args}", error.model_text()));
        said["result"].as_str().expect("a text").to_owned()
    }

    /// Checks that a tool refuses a call and changes nothing in the home. Returns the code and the text of the refusal.
    async fn refused(&self, tool: &str, args: &Value) -> (String, String) {
        let before = read_files(&self.home);
        let error = self.call(tool, args).await.expect_err(&args.to_string());
        assert_eq!(
            render_files(&read_files(&self.home)),
            render_files(&before),
            "{args}"
        );
        (
            error.stable_code().as_str().to_owned(),
            error.model_text().to_owned(),
        )
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.home.join(path)).unwrap_or_default()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
}

/// Reads every file below a folder, except lock files. The content of a link is its target.
fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(top: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(top).expect("below").display().to_string();
            let meta = path.symlink_metadata().expect("there");
            if meta.is_dir() {
                walk(top, &path, found);
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&path).expect("a link");
                found.insert(name, target.into_os_string().into_encoded_bytes());
            } else if path.extension().is_none_or(|ending| ending != "lock") {
                found.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

fn render_files(files: &BTreeMap<String, Vec<u8>>) -> String {
    files
        .iter()
        .fold(String::new(), |mut text, (name, content)| {
            let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(content));
            text
        })
}

fn skill_package(version: &str, text: &str) -> Value {
    json!({"packageId": "pack", "skillId": "notes", "name": "Notes", "version": version,
        "markdown": format!("# Notes\n\n{text}\n")})
}

fn theme_package(color: &str) -> Value {
    json!({"packageId": "pack", "themeId": "dusk", "name": "Dusk", "light": {"ground": color}, "dark": {}})
}

#[test]
fn the_catalog_of_packages_is_as_it_was_agreed() {
    let store = StoreFixture::new();
    let mut text = String::new();
    for spec in store.tools.device_specs() {
        let view = Value::Object(spec.model_view());
        writeln!(
            text,
            "== {} | {}\n\n{view:#}\n",
            spec.name,
            spec.effect.as_str()
        )
        .expect("a text");
    }
    insta::assert_snapshot!(text);
}
