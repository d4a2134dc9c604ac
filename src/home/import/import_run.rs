//! One import or update: fetch the sources, compare, stage, check, put in place, and write the index. With `dry_run`
//! everything but the last three.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::super::agents;
use super::super::error::HomeError;
use super::super::home_document::DocumentKind;
use super::super::installed_tree::{FileTree, TreeLimits, is_there, remove_tree};
use super::super::layout::Home;
use super::super::plugins::{self, Plugin};
use super::super::runner_lock::try_lock_file;
use super::super::skills;
use super::archive::unpack_archive;
use super::document_search::{FoundDocument, SearchRoot, find_documents};
use super::import_index::{ImportIndex, ImportRecord};
use super::import_source::ImportSource;
use super::staging::Staging;
use super::{ImportLine, ImportResult};
use punie_core::durable::private_folder_builder;
use punie_core::failpoint;

/// The most files and bytes of one document.
const LIMITS: TreeLimits = TreeLimits {
    files: 2_000,
    bytes: 64 << 20,
};

/// Clones a repository into a folder that does not exist yet, or tells why it cannot.
pub type CloneRepository<'a> = &'a dyn Fn(&str, &Path) -> Result<(), String>;

/// Asks the owner whether a plugin may be put in place, which lets it run. The flag tells whether it replaces another.
pub type AllowPlugin<'a> = &'a dyn Fn(&Plugin, bool) -> bool;

/// What an import leaves to its caller.
#[derive(Clone, Copy)]
pub struct ImportHelp<'a> {
    /// Clones repositories.
    pub clone: CloneRepository<'a>,
    /// Asks about plugins.
    pub allow_plugin: AllowPlugin<'a>,
}

/// The options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Compare only.
    pub dry_run: bool,
    /// Replace documents of the owner, too.
    pub force: bool,
}

/// An import into the home. Only one runs at a time.
pub struct DocumentImport<'a> {
    home: &'a Home,
    kind: DocumentKind,
    options: ImportOptions,
    help: ImportHelp<'a>,
    index: ImportIndex,
    staging: Staging,
    /// The ids of this run with their hashes and paths: the first of one id is taken.
    taken: BTreeMap<String, (String, String)>,
    staged: Vec<(String, ImportRecord)>,
    lines: Vec<ImportLine>,
    _lock: File,
}

impl<'a> DocumentImport<'a> {
    /// Begins an import, and removes what an earlier one that was killed left.
    ///
    /// # Errors
    /// The home cannot be written, its index is damaged, or another import runs.
    pub fn begin(
        home: &'a Home,
        kind: DocumentKind,
        options: ImportOptions,
        help: ImportHelp<'a>,
    ) -> Result<Self, HomeError> {
        let lock_file = home.import_lock_file();
        let Some(lock) = try_lock_file(&lock_file)? else {
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "another import runs");
            return Err(HomeError::unwritable(&lock_file)(busy));
        };
        let folder = kind.folder(home);
        let staging = Staging::create(&folder).map_err(HomeError::unwritable(&folder))?;
        let fetched = home.import_fetched_dir();
        remove_tree(&fetched)
            .and_then(|()| private_folder_builder().create(&fetched))
            .map_err(HomeError::unwritable(&fetched))?;
        Ok(Self {
            home,
            kind,
            options,
            help,
            index: ImportIndex::read(home)?,
            staging,
            taken: BTreeMap::new(),
            staged: Vec::new(),
            lines: Vec::new(),
            _lock: lock,
        })
    }

    /// Imports all documents of these sources.
    ///
    /// # Errors
    /// The home cannot be written.
    pub fn run(mut self, sources: &[ImportSource]) -> Result<Vec<ImportLine>, HomeError> {
        for source in sources {
            match self.search_source(source) {
                Ok(found) => {
                    for document in found {
                        self.consider(source, &document);
                    }
                }
                Err(why) => self.add_line("", ImportResult::Refused, source, "", Some(why)),
            }
        }
        self.finish()
    }

    /// Updates the imported documents, or those with these ids, from their sources.
    ///
    /// # Errors
    /// The home cannot be written.
    pub fn update(mut self, ids: &[String]) -> Result<Vec<ImportLine>, HomeError> {
        let records = self.index.records(self.kind).clone();
        let mut by_source: BTreeMap<String, Vec<(String, ImportRecord)>> = BTreeMap::new();
        for (id, record) in records {
            if ids.is_empty() || ids.contains(&id) {
                by_source
                    .entry(record.source.clone())
                    .or_default()
                    .push((id, record));
            }
        }
        for (text, documents) in by_source {
            let searched = ImportSource::parse(&text)
                .and_then(|source| Ok((self.search_source(&source)?, source)));
            for (id, record) in documents {
                let gone = |why: String| (ImportResult::Gone, Some(why));
                let (result, note) = match &searched {
                    Err(why) => gone(why.clone()),
                    Ok(_) if !self.installed_path(&id).exists() => {
                        self.index.records(self.kind).remove(&id);
                        let mend = format!(
                            "`punie-runner {} {}` brings it back",
                            self.kind.plural(),
                            self.kind.import_command()
                        );
                        gone(format!("you removed it from the home; {mend}"))
                    }
                    Ok((found, source)) => {
                        let same = found.iter().find(|one| one.within == record.path);
                        match same {
                            Some(document) => {
                                let mut document = document.clone();
                                document.id = Ok(id.clone());
                                self.consider(source, &document);
                                continue;
                            }
                            None => {
                                gone("it is not in the source any more. Yours stays".to_owned())
                            }
                        }
                    }
                };
                self.lines.push(ImportLine {
                    id,
                    result,
                    source: text.clone(),
                    path: record.path,
                    note,
                });
            }
        }
        self.finish()
    }

    /// Fetches a source and finds its documents.
    fn search_source(&self, source: &ImportSource) -> Result<Vec<FoundDocument>, String> {
        let fetched = || {
            let base = self.home.import_fetched_dir();
            let count = fs::read_dir(&base).map_or(0, Iterator::count);
            base.join(count.to_string())
        };
        let (folder, follows_links) = match source {
            ImportSource::Folder(folder) => {
                let home = fs::canonicalize(self.home.root_dir());
                if home.is_ok_and(|home| folder.starts_with(home)) {
                    return Err("it is in the home already, so nothing was copied".to_owned());
                }
                (folder.clone(), true)
            }
            ImportSource::Archive(archive) => {
                let folder = fetched();
                private_folder_builder()
                    .create(&folder)
                    .map_err(|error| error.to_string())?;
                unpack_archive(archive, &folder)?;
                (folder, false)
            }
            ImportSource::Repository(address) => {
                let folder = fetched();
                (self.help.clone)(address, &folder)?;
                (folder, false)
            }
        };
        failpoint::reach("import.fetched");
        let found = find_documents(&SearchRoot {
            kind: self.kind,
            folder: &folder,
            name: &source.root_name(),
            follows_links,
        })?;
        if found.is_empty() {
            return Err(format!("it has no {}", self.kind.file_name()));
        }
        Ok(found)
    }

    /// Compares a document with the one in the home, and stages it if it is to be put there.
    fn consider(&mut self, source: &ImportSource, document: &FoundDocument) {
        let path = &document.within;
        let compared = document.id.clone().and_then(|id| {
            let tree = self.list_files(&document.root)?;
            Ok((id, tree.content_hash()?, tree))
        });
        let (id, hash, tree) = match compared {
            Ok(compared) => compared,
            Err(why) => {
                let id = document.id.clone().unwrap_or_default();
                return self.add_line(&id, ImportResult::Refused, source, path, Some(why));
            }
        };
        if let Some((taken, first)) = self.taken.get(&id) {
            if *taken != hash {
                let why = format!("{first} has the same id and comes first");
                self.add_line(&id, ImportResult::LeftOut, source, path, Some(why));
            }
            return;
        }
        let shown = format!("{}/{path}", source.as_text());
        self.taken.insert(id.clone(), (hash.clone(), shown));
        let record = ImportRecord {
            source: source.as_text(),
            path: path.clone(),
            hash,
        };
        let (result, note) = match self.compare_installed(&id, &record) {
            Ok(ImportResult::Unchanged) => {
                let records = self.index.records(self.kind);
                let known = records.entry(id.clone()).or_insert_with(|| record.clone());
                known.hash.clone_from(&record.hash);
                (ImportResult::Unchanged, None)
            }
            Ok(result) => match self.stage(&id, &tree, record) {
                Ok(flaws) => (result, Some(flaws).filter(|flaws| !flaws.is_empty())),
                Err(why) => (ImportResult::Refused, Some(why)),
            },
            Err(why) => (ImportResult::Kept, Some(why)),
        };
        self.add_line(&id, result, source, path, note);
    }

    /// Returns the result of putting a document in place, or the reason why the one in the home stays.
    fn compare_installed(&mut self, id: &str, new: &ImportRecord) -> Result<ImportResult, String> {
        let installed = self.installed_path(id);
        if !is_there(&installed) {
            return Ok(ImportResult::Imported);
        }
        let current = self.list_files(&installed);
        let current = current.and_then(|tree| tree.content_hash());
        if current.as_ref() == Ok(&new.hash) {
            return Ok(ImportResult::Unchanged);
        }
        let force = "--force replaces it";
        match self.index.records(self.kind).get(id) {
            _ if self.options.force => Ok(ImportResult::Updated),
            None => Err(format!("you have another one under this id; {force}")),
            Some(known) if (&known.source, &known.path) != (&new.source, &new.path) => {
                Err(format!("yours is from {}; {force}", known.source))
            }
            Some(known) if current.as_ref() == Ok(&known.hash) => Ok(ImportResult::Updated),
            Some(known) if known.hash == new.hash => Err(format!("you changed it; {force}")),
            Some(_) => Err(format!(
                "you changed it, and its source changed too; {force}"
            )),
        }
    }

    /// Copies and checks a document. Returns its flaws as one text.
    fn stage(&mut self, id: &str, tree: &FileTree, record: ImportRecord) -> Result<String, String> {
        let copy = self.staging.copy_path(id);
        let checked = tree.copy_to(&copy).and_then(|()| {
            failpoint::reach_of("import.copied", id);
            if self.list_files(&copy)?.content_hash()? != record.hash {
                return Err("it changed while it was copied. Import it again".to_owned());
            }
            match self.kind {
                DocumentKind::Skill => skills::check_skill(self.home, &copy),
                DocumentKind::Agent => agents::check_agent(self.home, &copy),
                DocumentKind::Plugin => self.check_plugin(id, &copy),
            }
        });
        if checked.is_err() || self.options.dry_run {
            // The copies of a dry run would fill the disk; what stays here is removed at the end.
            let _ = remove_tree(&copy);
        }
        let flaws = checked?.join("; ");
        self.staged.push((id.to_owned(), record));
        Ok(flaws)
    }

    /// Checks a plugin, and asks the owner about it.
    fn check_plugin(&self, id: &str, copy: &Path) -> Result<Vec<String>, String> {
        let plugin = plugins::load_plugin(self.home, copy)?;
        let is_replaced = self.installed_path(id).exists();
        if self.options.dry_run || (self.help.allow_plugin)(&plugin, is_replaced) {
            return Ok(Vec::new());
        }
        Err("you did not allow it. Nothing of it was installed".to_owned())
    }

    /// Puts the staged documents in place, and writes the index.
    fn finish(mut self) -> Result<Vec<ImportLine>, HomeError> {
        let folder = self.kind.folder(self.home);
        if !self.options.dry_run {
            let before = ImportIndex::read(self.home)?;
            self.staging
                .sync_copies()
                .map_err(HomeError::unwritable(&folder))?;
            failpoint::reach("import.staged");
            let mut failed = BTreeMap::new();
            for (id, record) in std::mem::take(&mut self.staged) {
                match self.staging.put_in_place(&id) {
                    Ok(()) => {
                        self.index.records(self.kind).insert(id.clone(), record);
                    }
                    Err(error) => {
                        failed.insert(id.clone(), error.to_string());
                    }
                }
                failpoint::reach_of("import.placed", &id);
            }
            for line in &mut self.lines {
                if let Some(why) = failed.remove(&line.id) {
                    (line.result, line.note) = (ImportResult::Refused, Some(why));
                }
            }
            if self.index != before {
                self.index.write(self.home)?;
            }
            failpoint::reach("import.indexed");
        }
        self.staging
            .remove_folder()
            .and_then(|()| remove_tree(&self.home.import_fetched_dir()))
            .map_err(HomeError::unwritable(&folder))?;
        Ok(self.lines)
    }

    fn list_files(&self, document: &Path) -> Result<FileTree, String> {
        FileTree::list(document, self.kind.file_name(), LIMITS)
    }

    fn installed_path(&self, id: &str) -> PathBuf {
        self.kind.folder(self.home).join(id)
    }

    fn add_line(
        &mut self,
        id: &str,
        result: ImportResult,
        source: &ImportSource,
        path: &str,
        note: Option<String>,
    ) {
        self.lines.push(ImportLine {
            id: id.to_owned(),
            result,
            source: source.as_text(),
            path: path.to_owned(),
            note,
        });
    }
}
