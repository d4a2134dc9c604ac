//! The owner's documents: `<folder>/<id>/<FILE>.md`, each with a head and a body. A document that cannot be used
//! becomes a [`HomeProblem`] and does not affect the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::document_checks::{self, ConventionFields};
use super::document_file::{self, UnreadableDocument};
use super::frontmatter;
use super::home_problem::{HomeProblem, ProblemEffect};
use super::layout::Home;
use super::loaded_versions::LoadedVersions;
use punie_core::ids::to_hex;

/// The most documents of one folder.
const MAX_DOCUMENTS: usize = 1000;
/// The longest name of a document's folder.
const MAX_ID: usize = 64;

/// A kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// A skill, `skills/<id>/SKILL.md`.
    Skill,
    /// An agent, `agents/<id>/AGENT.md`.
    Agent,
    /// A plugin, `plugins/<id>/plugin.toml`.
    Plugin,
}

impl DocumentKind {
    /// Returns the name of the file that makes a folder one of this kind.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Skill => "SKILL.md",
            Self::Agent => "AGENT.md",
            Self::Plugin => "plugin.toml",
        }
    }

    /// Returns the word for one of this kind.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Plugin => "plugin",
        }
    }

    /// Returns the name of the folder and of the command.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Skill => "skills",
            Self::Agent => "agents",
            Self::Plugin => "plugins",
        }
    }

    /// Returns the name of the command that copies some into the home.
    pub fn import_command(self) -> &'static str {
        match self {
            Self::Skill | Self::Agent => "import",
            Self::Plugin => "install",
        }
    }

    /// Returns the folder with the documents of this kind.
    pub fn folder(self, home: &Home) -> PathBuf {
        match self {
            Self::Skill => home.skills_dir(),
            Self::Agent => home.agents_dir(),
            Self::Plugin => home.plugins_dir(),
        }
    }
}

/// Whether the texts of loaded documents are copied, so that they stay in force while a file is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyTexts {
    /// The runner does.
    Yes,
    /// Commands that only look do not.
    No,
}

/// One entry of the catalog, as it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Unique within its kind: the id.
    pub key: String,
    /// The SHA-256 of the body text, in hex: it changes exactly when the body does. The backend does not rewrite an
    /// unchanged entry.
    pub hash: String,
    /// The entry as JSON text.
    pub body: String,
}

impl CatalogEntry {
    /// Creates the entry of a value that serializes to JSON with a fixed order of fields.
    ///
    /// # Panics
    /// The value has no form in JSON.
    pub fn from_serializable(key: &str, value: &impl Serialize) -> Self {
        let body = serde_json::to_string(value).expect("plain texts and lists are always JSON");
        Self {
            key: key.to_owned(),
            hash: hash_body(&body),
            body,
        }
    }
}

/// Returns the SHA-256 of a body, in hex.
pub(super) fn hash_body(body: &str) -> String {
    to_hex(&Sha256::digest(body.as_bytes()))
}

/// Sorts the keys of a JSON value at every depth, so that their order does not change its hash.
pub fn sort_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<String, Value> = map.into_iter().collect();
            let entries = sorted.into_iter();
            Value::Object(
                entries
                    .map(|(key, value)| (key, sort_keys(value)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sort_keys).collect()),
        plain => plain,
    }
}

pub(super) trait DocumentHead: DeserializeOwned + Default {
    /// Returns the fields that the convention has rules for.
    fn convention_fields(&self) -> ConventionFields<'_>;
}

/// A document that was read.
#[derive(Debug)]
pub(super) struct HomeDocument<T> {
    pub(super) id: String,
    pub(super) file: PathBuf,
    pub(super) fields: T,
    pub(super) body: String,
    /// The whole text.
    text: String,
    /// The flaws that do not keep it from loading.
    flaws: Vec<String>,
}

#[derive(Debug)]
struct DocumentFolder {
    path: PathBuf,
    /// The id of the plugin that brings the document.
    plugin: Option<String>,
}

impl DocumentFolder {
    /// Returns the name of the copy of its text. An id has no dot.
    fn copy_name(&self) -> String {
        let id = self.path.file_name().unwrap_or_default().to_string_lossy();
        match &self.plugin {
            Some(plugin) => format!("{plugin}.{id}"),
            None => id.into_owned(),
        }
    }
}

/// Lists the owner's documents of a kind, and after them those in plugins.
fn list_folders(
    home: &Home,
    kind: DocumentKind,
    problems: &mut Vec<HomeProblem>,
) -> Vec<DocumentFolder> {
    let own = document_folders(&kind.folder(home), problems).into_iter();
    let mut all: Vec<DocumentFolder> = own
        .map(|path| DocumentFolder { path, plugin: None })
        .collect();
    // Problems with the folder of plugins are reported with the plugins.
    for folder in document_folders(&home.plugins_dir(), &mut Vec::new()) {
        let Ok(plugin) = parse_document_id(&folder) else {
            continue;
        };
        let brought = document_folders(&folder.join(kind.plural()), problems).into_iter();
        all.extend(brought.map(|path| DocumentFolder {
            path,
            plugin: Some(plugin.clone()),
        }));
    }
    all
}

/// Reads the document in every folder of this kind, sorted by id. If one is broken, its earlier version is used. Of two with
/// one id, the owner's counts, then that of the plugin whose id comes first.
pub(super) fn read_documents<T: DocumentHead>(
    home: &Home,
    kind: DocumentKind,
    copy: CopyTexts,
) -> (Vec<HomeDocument<T>>, Vec<HomeProblem>) {
    let mut documents = Vec::<HomeDocument<T>>::new();
    let mut problems = Vec::new();
    let mut owners: BTreeMap<String, Option<String>> = BTreeMap::new();
    let versions = LoadedVersions::in_folder(home.loaded_versions_dir().join(kind.plural()));
    let mut texts = Vec::new();
    let mut earlier = BTreeSet::new();
    for folder in list_folders(home, kind, &mut problems) {
        let path = folder.path.join(kind.file_name());
        let id = folder.path.file_name().unwrap_or_default();
        if let Some(owner) = owners.get(&*id.to_string_lossy()) {
            let owner = owner.as_ref().map_or_else(
                || "you have one of your own".to_owned(),
                |plugin| format!("the plugin {plugin:?} brings one, too"),
            );
            let why = format!("{owner} with this id, which is used. Rename the folder of one");
            problems.push(HomeProblem::not_loaded(path, why));
            continue;
        }
        let document = match read_document::<T>(home, &folder.path, kind) {
            Ok(document) => {
                let warning = |message: &String| HomeProblem {
                    path: path.clone(),
                    message: message.clone(),
                    effect: ProblemEffect::Warning,
                };
                problems.extend(document.flaws.iter().map(warning));
                texts.push((folder.copy_name(), document.text.clone()));
                document
            }
            Err(UnreadableDocument::Refused(why)) => {
                problems.push(HomeProblem::not_loaded(path, why));
                continue;
            }
            Err(UnreadableDocument::Broken(why)) => {
                let mut problem = HomeProblem::not_loaded(path, why);
                let earlier_version = read_earlier_version(&versions, &folder, kind);
                if earlier_version.is_some() {
                    problem.effect = ProblemEffect::EarlierVersion;
                    earlier.insert(folder.copy_name());
                }
                problems.push(problem);
                let Some(document) = earlier_version else {
                    continue;
                };
                document
            }
        };
        owners.insert(document.id.clone(), folder.plugin);
        documents.push(document);
    }
    documents.sort_by(|a, b| a.id.cmp(&b.id));
    if copy == CopyTexts::Yes {
        versions.store_copies(
            texts.iter().map(|(name, text)| (&**name, &**text)),
            &earlier,
        );
    }
    let named = documents.iter().filter_map(|one| {
        let name = one.fields.convention_fields().name?;
        Some((&*one.id, name, &*one.file))
    });
    document_checks::report_same_names(named, &mut problems);
    (documents, problems)
}

/// Returns the plugin that brings the document in this file, if one does.
pub fn plugin_of_document(home: &Home, file: &Path) -> Option<String> {
    let within = file.strip_prefix(home.plugins_dir()).ok()?;
    let folder = within.components().next()?;
    Some(folder.as_os_str().to_string_lossy().into_owned())
}

/// Lists the folders in `dir`, including symlinks to folders, sorted by name. Plain and hidden files are ignored.
pub(super) fn document_folders(dir: &Path, problems: &mut Vec<HomeProblem>) -> Vec<PathBuf> {
    let mut problem = |what: String| {
        problems.push(HomeProblem::not_loaded(dir.to_owned(), what));
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problem(format!("cannot be listed: {error}"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
            Ok(entry) if entry.file_type().is_ok_and(|kind| kind.is_file()) => {}
            Ok(entry) => found.push(entry.path()),
            Err(error) => problem(format!("cannot be listed to its end: {error}")),
        }
    }
    found.sort();
    if found.len() > MAX_DOCUMENTS {
        problem(format!(
            "has {} folders; only the first {MAX_DOCUMENTS} by name are read. Move the others out",
            found.len()
        ));
        found.truncate(MAX_DOCUMENTS);
    }
    found
}

/// Reads the document in a folder, whose name is the id.
pub(super) fn read_document<T: DocumentHead>(
    home: &Home,
    folder: &Path,
    kind: DocumentKind,
) -> Result<HomeDocument<T>, UnreadableDocument> {
    let id = parse_document_id(folder).map_err(UnreadableDocument::Refused)?;
    let file = folder.join(kind.file_name());
    let text = document_file::read_document_text(home, &file, kind.file_name())?;
    parse_document(id, file, text).map_err(UnreadableDocument::Broken)
}

fn read_earlier_version<T: DocumentHead>(
    versions: &LoadedVersions,
    folder: &DocumentFolder,
    kind: DocumentKind,
) -> Option<HomeDocument<T>> {
    let id = parse_document_id(&folder.path).ok()?;
    let text = versions.read_copy(&folder.copy_name())?;
    parse_document(id, folder.path.join(kind.file_name()), text).ok()
}

fn parse_document<T: DocumentHead>(
    id: String,
    file: PathBuf,
    text: String,
) -> Result<HomeDocument<T>, String> {
    let parsed = frontmatter::parse_frontmatter::<T>(&text).map_err(|bad| bad.to_string())?;
    let fields = parsed.fields.convention_fields();
    let flaws = document_checks::find_flaws(&id, &text, &fields, parsed.unquoted_line);
    Ok(HomeDocument {
        id,
        file,
        fields: parsed.fields,
        body: parsed.body,
        text,
        flaws,
    })
}

impl<T> HomeDocument<T> {
    /// Returns the flaws that do not keep it from loading.
    pub(super) fn into_flaws(self) -> Vec<String> {
        self.flaws
    }
}

/// Returns whether a text can be the id of a document: the name of its folder.
pub(super) fn is_document_id(name: &str) -> bool {
    (1..=MAX_ID).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        && name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
}

pub(super) fn parse_document_id(folder: &Path) -> Result<String, String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if is_document_id(&name) {
        return Ok(name.into_owned());
    }
    Err(format!(
        "the folder's name {name:?} is not an id. Rename it: 1 to {MAX_ID} of A-Z a-z 0-9 _ -, a letter or digit first"
    ))
}

/// Returns the purpose of a document without one in its head: the first line of its body that is neither blank nor a
/// heading.
pub(super) fn first_text_line(body: &str) -> String {
    let line = body
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    line.unwrap_or_default().chars().take(200).collect()
}
