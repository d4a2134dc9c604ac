//! Projects with a repository that changed lately.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::git_config::parse_git_config;
use crate::epoch::days_before;
use crate::file_access::{EntryKind, is_absent, is_link, list_folder, modified_time, read_bounded};
use crate::plain_text::clean_title;
use crate::report_text::show_path;
use crate::{Budget, Section, SignalPlaces, SourceReport, System, Tier};

pub(super) const NAME: &str = "dev projects";
const MAX_AGE_DAYS: u64 = 30;
const MAX_DEPTH: u32 = 4;
const MAX_PROJECTS: usize = 15;
/// The folders of the user's folder in which projects are looked for, in any case of letters.
const ROOTS: [&str; 9] = [
    "projects",
    "repos",
    "code",
    "dev",
    "src",
    "work",
    "workspace",
    "git",
    "github",
];
/// Folders in which nobody works: what tools install and build. Those that begin with a dot are skipped, too.
const SKIPPED: [&str; 10] = [
    "node_modules",
    "vendor",
    "target",
    "build",
    "dist",
    "__pycache__",
    "venv",
    "env",
    "bower_components",
    "site-packages",
];
/// Folders of the system directly below the user's folder. Elsewhere a project can have such a name.
const SKIPPED_IN_HOME: [&str; 8] = [
    "go",
    "library",
    "appdata",
    "application data",
    "applications",
    "program files",
    "program files (x86)",
    "windows",
];
/// The largest `.git` file or `.gitmodules`.
const MAX_GIT_FILE_BYTES: u64 = 64 << 10;

struct Project {
    path: PathBuf,
    kind: &'static str,
    changed: SystemTime,
}

/// Finds the projects that changed within 30 days.
pub(super) fn read_projects(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut search = ProjectSearch {
        places,
        budget,
        projects: Vec::new(),
        seen: HashSet::new(),
        queue: VecDeque::new(),
        problems: Vec::new(),
    };
    search.add_roots();
    let is_absent = search.queue.is_empty() && search.problems.is_empty();
    search.run();
    if is_absent {
        return SourceReport::absent(NAME);
    }
    let ProjectSearch {
        mut projects,
        problems,
        ..
    } = search;
    projects.sort_by(|one, other| {
        other
            .changed
            .cmp(&one.changed)
            .then_with(|| one.path.cmp(&other.path))
    });
    projects.truncate(MAX_PROJECTS);
    let lines: Vec<String> = projects
        .iter()
        .map(|project| show_project(project, places))
        .collect();
    let section = (!lines.is_empty()).then(|| Section {
        title: "Active Projects".to_owned(),
        tier: Tier::Work,
        markdown: lines.join("\n"),
    });
    let mut report = SourceReport::read(NAME, section.into_iter().collect());
    report.problems = problems;
    report
}

fn show_project(project: &Project, places: &SignalPlaces) -> String {
    let name = project.path.file_name().unwrap_or_default();
    let name = clean_title(&name.to_string_lossy());
    let path = show_path(&project.path, &places.user_home);
    let age = show_age(project.changed, places.now);
    format!("- {name}{} ({path}), {age}", project.kind)
}

/// Writes how many whole days ago something was.
fn show_age(time: SystemTime, now: SystemTime) -> String {
    match now.duration_since(time).unwrap_or_default().as_secs() / 86_400 {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days}d ago"),
    }
}

struct ProjectSearch<'a> {
    places: &'a SignalPlaces,
    budget: &'a Budget,
    projects: Vec<Project>,
    seen: HashSet<PathBuf>,
    /// Folders to search, each with its depth below its root. All roots are searched level by level, so that a large one
    /// does not use up the budget of the others.
    queue: VecDeque<(PathBuf, u32)>,
    problems: Vec<String>,
}

impl ProjectSearch<'_> {
    /// Links are not followed, except for the folders that the owner's configuration names.
    fn add_roots(&mut self) {
        let mut roots = self.places.project_folders.clone();
        match list_folder(&self.places.user_home, self.budget) {
            Ok(entries) => {
                let is_root = |name: &OsStr| {
                    let name = name.to_string_lossy().to_lowercase();
                    let is_mac_folder = self.places.system == System::MacOs && name == "developer";
                    ROOTS.contains(&name.as_str()) || is_mac_folder
                };
                let entries = entries.into_iter();
                let found =
                    entries.filter(|entry| entry.kind == EntryKind::Folder && is_root(&entry.name));
                roots.extend(found.map(|entry| entry.path));
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => self.problems.push(format!("~: {error}")),
        }
        if self.places.system == System::Windows {
            roots.extend(["C:\\dev", "C:\\projects", "C:\\repos"].map(PathBuf::from));
        }
        for root in roots {
            if modified_time(&root).is_some() {
                self.queue.push_back((root, 0));
            }
        }
    }

    fn run(&mut self) {
        while let Some((folder, depth)) = self.queue.pop_front() {
            if !self.seen.insert(self.identity(&folder)) {
                continue;
            }
            if !self.budget.has_time() {
                break;
            }
            let entries = match list_folder(&folder, self.budget) {
                Ok(entries) => entries,
                Err(error) if depth == 0 && !is_absent(&error) => {
                    let shown = show_path(&folder, &self.places.user_home);
                    self.problems.push(format!("{shown}: {error}"));
                    continue;
                }
                // A folder that is closed to the user is none of the owner's projects.
                Err(_) => continue,
            };
            let repository = entries.iter().find(|entry| entry.name == ".git");
            if let Some(repository) = repository {
                self.add(&folder, repository.kind);
                continue;
            }
            if depth == MAX_DEPTH || self.budget.is_exceeded() {
                continue;
            }
            let is_home = folder == self.places.user_home;
            let searched = entries.into_iter().filter(|entry| {
                let name = entry.name.to_string_lossy().to_lowercase();
                let is_skipped = name.starts_with('.')
                    || SKIPPED.contains(&name.as_str())
                    || is_home && SKIPPED_IN_HOME.contains(&name.as_str());
                entry.kind == EntryKind::Folder && !is_skipped
            });
            self.queue
                .extend(searched.map(|entry| (entry.path, depth + 1)));
        }
    }

    /// Returns the path by which a folder is known: these systems do not distinguish the case of letters.
    fn identity(&self, folder: &Path) -> PathBuf {
        match self.places.system {
            System::Linux => folder.to_owned(),
            System::MacOs | System::Windows => folder.to_string_lossy().to_lowercase().into(),
        }
    }

    fn add(&mut self, folder: &Path, kind: EntryKind) {
        let Some(repository) = find_repository(folder, kind) else {
            return;
        };
        self.add_if_active(folder, &repository);
        // A submodule lies within the project, and nothing else within it is searched.
        let modules =
            read_bounded(&folder.join(".gitmodules"), MAX_GIT_FILE_BYTES).unwrap_or_default();
        for entry in parse_git_config(&modules) {
            let path = Path::new(&entry.value);
            let is_below = path
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            if entry.section != "submodule" || entry.key != "path" || !is_below {
                continue;
            }
            if !self.budget.take_entry() {
                return;
            }
            let module = folder.join(path);
            let has_links = path
                .ancestors()
                .any(|part| !part.as_os_str().is_empty() && is_link(&folder.join(part)));
            if !has_links
                && self.seen.insert(self.identity(&module))
                && let Some(repository) = find_repository(&module, EntryKind::File)
            {
                self.add_if_active(&module, &repository);
            }
        }
        self.add_inner_worktrees(folder, &repository);
    }

    /// Adds the worktrees of a repository that lie within its project. Those beside it are found like other projects.
    fn add_inner_worktrees(&mut self, folder: &Path, repository: &Path) {
        let records = list_folder(&repository.join("worktrees"), self.budget).unwrap_or_default();
        for record in records {
            // The path of the worktree's `.git` file.
            let bytes =
                read_bounded(&record.path.join("gitdir"), MAX_GIT_FILE_BYTES).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let Some(worktree) = Path::new(text.trim()).parent() else {
                continue;
            };
            let is_inner = worktree.starts_with(folder) && worktree != folder;
            if is_inner
                && modified_time(worktree).is_some()
                && self.seen.insert(self.identity(worktree))
            {
                self.add_if_active(worktree, &record.path);
            }
        }
    }

    fn add_if_active(&mut self, folder: &Path, repository: &Path) {
        let changed = ["index", "HEAD", "FETCH_HEAD", "logs/HEAD"]
            .iter()
            .filter_map(|name| modified_time(&repository.join(name)))
            .max()
            .or_else(|| modified_time(repository));
        let Some(changed) = changed else { return };
        if changed < days_before(self.places.now, MAX_AGE_DAYS) {
            return;
        }
        let has_part = |name: &str| repository.components().any(|part| part.as_os_str() == name);
        let kind = match (has_part("worktrees"), has_part("modules")) {
            _ if repository.parent() == Some(folder) => "",
            (true, _) => ", a worktree",
            (_, true) => ", a submodule",
            _ => "",
        };
        self.projects.push(Project {
            path: folder.to_owned(),
            kind,
            changed,
        });
    }
}

/// Returns the folder of the repository: `.git`, or the one that a `.git` file of a worktree or a submodule names.
fn find_repository(folder: &Path, kind: EntryKind) -> Option<PathBuf> {
    let path = folder.join(".git");
    match kind {
        EntryKind::Folder => Some(path),
        EntryKind::File => {
            let bytes = read_bounded(&path, MAX_GIT_FILE_BYTES).ok()?;
            let text = String::from_utf8_lossy(&bytes);
            let target = text.strip_prefix("gitdir:")?.trim();
            let repository = folder.join(target);
            modified_time(&repository).map(|_| repository)
        }
        EntryKind::Other => None,
    }
}

#[cfg(test)]
mod tests;
