//! Checks the rules of ARCHITECTURE.md: the permitted imports of each module, the length of files, and their names.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::SourceFile;

/// The crates and modules of ours that each crate and module may use besides `core`. The program and the engine's
/// runner may use all crates in their manifests.
const TABLE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("text", &[]),
    ("tool", &["text"]),
    ("home", &["text"]),
    ("policy", &[]),
    ("sandbox", &[]),
    ("host", &["home", "policy", "sandbox", "text", "tool"]),
    ("editor", &["home", "host", "text", "tool"]),
    ("undo", &["home", "host", "text", "tool"]),
    ("handlers", &["home", "host", "signals", "text", "tool"]),
    ("signals", &[]),
    ("engine", &["home", "text", "tool"]),
    ("dev-backend", &[]),
    ("audit", &[]),
    ("journal", &["tool"]),
    ("backend", &["home", "text", "tool"]),
    ("bridges", &["home", "host", "policy", "text"]),
    ("config", &["sandbox", "text"]),
    ("service", &[]),
    ("mcp", &["host", "tool"]),
];

/// A crate whose modules may not use each other freely.
struct SeparateModules {
    /// The folder of its code.
    folder: &'static str,
    /// The modules that may use every module of the crate.
    free: &'static [&'static str],
    /// True if each other module has a line in [`TABLE`]. Otherwise, it has the imports of its crate and no other
    /// module.
    have_lines: bool,
}

const PROGRAM: SeparateModules = SeparateModules {
    folder: "src",
    free: &["cli", "lib", "main"],
    have_lines: true,
};

const ENGINE: SeparateModules = SeparateModules {
    folder: "crates/engine/src",
    free: &["runner", "lib"],
    have_lines: true,
};

const HANDLERS: SeparateModules = SeparateModules {
    folder: "src/handlers",
    free: &["lib"],
    have_lines: false,
};

/// File names that do not describe the content.
const VAGUE_NAMES: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "misc", "shared",
];

/// The largest number of lines of a file, without its unit tests.
const MAX_LINES: usize = 400;

fn project_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, with its path from the folder. The tests of a crate are left out.
fn rust_files(folder: &Path) -> Vec<(PathBuf, String)> {
    fn walk(top: &Path, folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                // A crate's tests may use the modules that they test.
                if !(path.ends_with("tests") && folder.join("Cargo.toml").exists()) {
                    walk(top, &path, found);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("the file can be read");
                found.push((path.strip_prefix(top).expect("below it").to_owned(), text));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{} holds no code", folder.display());
    found
}

/// The Rust files of all crates. Files of this crate have their path below `src`.
fn all_sources() -> Vec<(PathBuf, String)> {
    let mut files = rust_files(&project_root().join("src"));
    let crates = project_root().join("crates");
    files.extend(
        rust_files(&crates)
            .into_iter()
            .map(|(path, text)| (Path::new("crates").join(path), text)),
    );
    files
}

/// Returns true for a path below `src` whose first folder is a crate of its own.
fn is_in_another_crate(path: &Path) -> bool {
    let first = path.iter().next().expect("a path");
    project_root()
        .join("src")
        .join(first)
        .join("Cargo.toml")
        .exists()
}

/// The line of a crate or a module in [`TABLE`].
fn line_of(name: &str) -> Option<&'static [&'static str]> {
    let (_, allowed) = TABLE.iter().find(|(line, _)| *line == name)?;
    Some(*allowed)
}

/// The imports of a file that its module may not have, as messages.
fn forbidden_imports(modules: &SeparateModules, path: &Path, text: &str) -> Vec<String> {
    let source = SourceFile::of(path, text);
    let own = source.module();
    let module = own.first().map_or("lib", String::as_str);
    if modules.free.contains(&module) {
        return Vec::new();
    }
    let line = line_of(module).filter(|_| modules.have_lines);
    if line.is_none() && modules.have_lines {
        return vec![format!(
            "{}: the module {module} has no line in the table",
            path.display()
        )];
    }
    let allowed = line.unwrap_or_else(|| line_of("handlers").expect("a line"));
    let closed = own == ["config", "toml_document"];
    let may = |used: &[String]| match used.first().map(String::as_str) {
        None => true,
        Some(other) if other != module => allowed.contains(&other),
        Some(_) => !closed || used.starts_with(own),
    };
    let refused = source.uses().into_iter().filter(|used| !may(used));
    refused
        .map(|used| format!("{} may not use {}", path.display(), used.join("::")))
        .collect()
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn every_module_uses_only_what_the_table_allows() {
    let mut found = Vec::new();
    for modules in [PROGRAM, ENGINE, HANDLERS] {
        for (path, text) in rust_files(&project_root().join(modules.folder)) {
            if modules.folder != "src" || !is_in_another_crate(&path) {
                found.extend(forbidden_imports(&modules, &path, &text));
            }
        }
    }
    assert_none("imports that the table does not allow", &found);
}

#[test]
fn every_crate_uses_only_what_the_table_allows() {
    let mut found = Vec::new();
    let in_place = ["home", "handlers"].map(|name| project_root().join("src").join(name));
    let others = fs::read_dir(project_root().join("crates")).expect("the folder can be read");
    let others = others.map(|entry| entry.expect("an entry").path());
    for folder in in_place.into_iter().chain(others) {
        let name = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let Some(allowed) = line_of(&name) else {
            found.push(format!("{name} has no line"));
            continue;
        };
        let text = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let text: toml::Table = text.parse().expect("TOML");
        for section in ["dependencies", "dev-dependencies"] {
            let used = text.get(section).and_then(toml::Value::as_table);
            let ours = used
                .into_iter()
                .flatten()
                .filter_map(|(name, _)| name.strip_prefix("punie-"));
            found.extend(
                ours.filter(|used| *used != "core" && !allowed.contains(used))
                    .map(|used| format!("{name} uses {used}")),
            );
        }
    }
    assert_none("dependencies that the table does not allow", &found);
}

#[test]
fn every_module_installs_the_lock_calls_before_it_opens_a_database() {
    let mut found = Vec::new();
    for (path, text) in all_sources() {
        let code = text.split("mod tests {").next().unwrap_or_default();
        let opens = code.matches("Connection::open").count()
            - code.matches("Connection::open_in_memory").count();
        // A worker process opens one database and no other file.
        let is_worker = path == Path::new("handlers/sqlite/worker_session.rs");
        if !is_worker && opens > code.matches("record_locks::install_lock_calls()").count() {
            found.push(path.display().to_string());
        }
    }
    assert_none(
        "record_locks::install_lock_calls() is missing before Connection::open in",
        &found,
    );
}

#[test]
fn every_file_is_short_and_says_what_it_is_for() {
    let mut found = Vec::new();
    for (path, text) in all_sources() {
        let lines = SourceFile::of(&path, &text).lines();
        if lines > MAX_LINES {
            found.push(format!(
                "{} has {lines} lines; split it at a seam",
                path.display()
            ));
        }
    }
    for folder in ["src", "crates", "tests"] {
        for (path, text) in rust_files(&project_root().join(folder)) {
            if !text.starts_with("//!") {
                found.push(format!(
                    "{folder}/{} does not begin with //!",
                    path.display()
                ));
            }
        }
    }
    assert_none("files that are too long or have no //! header", &found);
}

#[test]
fn no_file_has_a_name_without_meaning() {
    let mut found = Vec::new();
    for folder in ["src", "crates", "tests"] {
        for (path, _) in rust_files(&project_root().join(folder)) {
            let bare = path.with_extension("");
            if bare
                .iter()
                .any(|part| VAGUE_NAMES.iter().any(|vague| part == *vague))
            {
                found.push(format!("{folder}/{}", path.display()));
            }
        }
    }
    assert_none("names without meaning", &found);
}

/// The modules that the header of a file names in parentheses after "Not here:".
fn modules_named_elsewhere(text: &str) -> Vec<String> {
    let header: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//! "))
        .collect();
    let header = header.join(" ");
    let (_, elsewhere) = header.split_once("Not here:").unwrap_or_default();
    let groups = elsewhere.split('(').skip(1);
    groups
        .filter_map(|group| group.split(')').next())
        .flat_map(|group| group.split(", "))
        .map(|name| name.trim_matches('`'))
        .filter(|name| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || "_:".contains(c))
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_header_names_modules_that_exist() {
    let sources = all_sources();
    let modules: BTreeSet<String> = sources
        .iter()
        .flat_map(|(path, _)| {
            let bare = path.with_extension("");
            let parts = bare.iter().map(|part| part.to_string_lossy().into_owned());
            parts.collect::<Vec<_>>()
        })
        .chain(["dev_backend".to_owned()])
        .collect();
    let mut missing = Vec::new();
    for (path, text) in &sources {
        for name in modules_named_elsewhere(text) {
            if name
                .split("::")
                .any(|part| part != "crate" && !modules.contains(part))
            {
                missing.push(format!("{}: ({name})", path.display()));
            }
        }
    }
    assert_none("headers that name no module", &missing);
    let header =
        "//! A file. Not here: logs\n//! (`cli::logs`), others (no such one, gone).\n//!\n//! (x)";
    assert_eq!(modules_named_elsewhere(header), ["cli::logs", "gone"]);
}

#[test]
fn the_page_names_every_module() {
    let page = fs::read_to_string(project_root().join("ARCHITECTURE.md")).expect("the page");
    let mut missing = Vec::new();
    for folder in ["src", "src/handlers", "crates"] {
        for entry in fs::read_dir(project_root().join(folder)).expect("the folder can be read") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a plain name");
            let module = name.trim_end_matches(".rs");
            let named = [
                format!("{module}/"),
                format!("{module}.rs"),
                format!("`{module}`"),
                format!("::{module}"),
            ];
            if !matches!(module, "mod" | "Cargo.toml")
                && !named.iter().any(|form| page.contains(form.as_str()))
            {
                missing.push(format!("{folder}/{name}"));
            }
        }
    }
    assert_none("ARCHITECTURE.md does not name", &missing);
}

#[test]
fn the_page_has_the_same_table() {
    let page = fs::read_to_string(project_root().join("ARCHITECTURE.md")).expect("the page");
    let quoted = |text: &str| -> BTreeSet<String> {
        let names = text.split('`').skip(1).step_by(2);
        names
            .map(|name| name.trim_end_matches('/').to_owned())
            .collect()
    };
    let mut written = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let parts = cells[0];
        let may = cells[cells.len() - 1];
        let before_its_limits = may.split(';').next().unwrap_or(may);
        for part in quoted(parts) {
            written.insert(part, quoted(before_its_limits));
        }
    }
    for (part, allowed) in TABLE {
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(written.get(*part), Some(&allowed), "{part}");
    }
}

// Tests of the check itself.

fn find_violations(path: &str, text: &str) -> Vec<String> {
    match path.strip_prefix("handlers/") {
        Some(path) => forbidden_imports(&HANDLERS, Path::new(path), text),
        None => forbidden_imports(&PROGRAM, Path::new(path), text),
    }
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    for (path, text, used) in cases! {
        ("service/x.rs", "use crate::runner::Stop;", "runner::Stop"),
        ("service/x.rs", "use crate::{ids::RequestId, config::{Unit, State}};", "config::Unit"),
        ("service/x.rs", "fn f() { let x = crate::cli::main(); }", "cli::main"),
        ("service/system/x.rs", "use super::super::super::request::Meta;", "request::Meta"),
        ("config/mod.rs", "use super::mcp::Workspace;", "mcp::Workspace"),
        ("handlers/file/read.rs", "use crate::shell::ShellDeps;", "shell::ShellDeps"),
        ("handlers/file/read.rs", "use super::super::shell;", "shell"),
        ("config/toml_document.rs", "use super::value::Value;", "config::value::Value"),
        ("config/x.rs", "pub use crate::mcp as h;", "mcp"),
        ("config/x.rs", "use punie_policy::PolicyRules;", "policy::PolicyRules"),
        ("config/x.rs", "mod tests { use crate::mcp::Workspace; }", "mcp::Workspace"),
    } {
        let found = find_violations(path, text);
        assert!(
            found
                .iter()
                .any(|line| line.ends_with(&format!("may not use {used}"))),
            "{path}: {found:?}"
        );
    }
    assert_eq!(
        find_violations("attic/mod.rs", "").len(),
        1,
        "a module without a line in the table"
    );
}

#[test]
fn what_the_table_allows_is_left_alone() {
    for (path, text) in cases! {
        ("service/x.rs", "use crate::service::{Home, Lock}; use punie_core::ids::RequestId;"),
        (
            "service/system/x.rs",
            "use super::super::workspace; use super::kill; use crate::service::Answer;",
        ),
        (
            "service/x.rs",
            "//! See [`crate::runner`].\n/* crate::cli */ const X: &str = \"crate::cli::main\";",
        ),
        (
            "service/x.rs",
            "#[cfg(test)]\nmod tests {\n use crate::runner::Stop; const C: char = '}';\n}",
        ),
        ("handlers/mod.rs", "pub mod file; use crate::file::FileDeps;"),
        (
            "handlers/file/read.rs",
            "use super::super::file::FileDeps; pub(crate) fn f<'a>(x: &'a str) {}",
        ),
        ("cli/x.rs", "use crate::runner::Stop; use crate::service;"),
    } {
        assert_none(path, &find_violations(path, text));
    }
}

#[test]
fn unit_tests_do_not_count_as_lines() {
    let text = "//! x\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() { \"}\"; }\n}\n";
    let lines = |text: &str| SourceFile::of(Path::new("service/x.rs"), text).lines();
    assert_eq!(lines(text), 3);
    assert_eq!(
        lines("fn f() {}\n#[cfg(all(test, unix))]\nmod tests {}\n"),
        1
    );
    assert_eq!(lines("fn f() {}\n#[cfg(not(test))]\nmod real {}\n"), 3);
}
