//! The protected paths of the workspaces as commands meet them: which are there when one starts, for it to find them
//! read-only, and which appeared or changed while it ran. Not here: which names are protected (acp::protected), and
//! making them read-only (shut_in).
//!
//! Looked at are the workspaces' folders, those on the way from there to where the command starts, and the repositories
//! in a workspace (repositories): a look at everything would cost more than most commands.
#![expect(
    clippy::disallowed_methods,
    reason = "the protected paths are looked at as they are, links included"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::repositories::Repositories;
use crate::acp::protected;
use crate::sandbox::Rules;

/// How many folders of a workspace are looked at for repositories of their own, among so many children.
const MOST_FOLDERS: usize = 256;
const MOST_CHILDREN: usize = 4096;
/// How deep repositories of submodules are looked for below each other's folders.
const DEEPEST_MODULE: usize = 6;
/// How many files of a protected folder are told apart.
const MOST_FILES: usize = 200;
/// The longest configuration that is looked into.
const MOST_CONFIG: u64 = 64 << 10;
/// How many changes are named.
const MOST_NAMED: usize = 5;
/// How much of the end of an output is looked at.
const TAIL: usize = 8_000;
/// What the system says of a path that is read-only to a command, or must stay where it is.
const REFUSED: &[&str] = &["Read-only file system", "Device or resource busy", "EROFS", "EBUSY"];

/// How a command meets a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// It cannot write it.
    ReadOnly,
    /// It cannot move or remove it; what is in it is another matter.
    InPlace,
}

/// A protected path that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    why: &'static str,
    cover: Option<Cover>,
    /// Differs once it was changed; of a folder nothing, since its files are told apart.
    stamp: Option<Stamp>,
}

/// Inode, size, mode, and when it last changed: no command can set the last.
type Stamp = (u64, u64, u32, i64, i64);

/// The protected paths where a command starts.
#[derive(Debug)]
pub(super) struct Watch {
    roots: Vec<PathBuf>,
    cwd: PathBuf,
    free: Vec<PathBuf>,
    /// With repositories, further down than directly in a workspace.
    deeper: Vec<PathBuf>,
    before: BTreeMap<PathBuf, Seen>,
}

impl Watch {
    /// What is there now. Blocks for some tens of system calls. What the owner lets commands write is left out, and so
    /// is the runner's own folder.
    pub fn begin(rules: &Rules, cwd: &Path, repositories: &Repositories) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = rules.workspaces.iter().map(real).collect();
        let named = rules.write.iter().filter(|path| roots.iter().all(|root| !root.starts_with(path)));
        let free = named.chain([&rules.own_home]).cloned().collect();
        let deeper = repositories.below(&roots);
        let cwd = real(&cwd.to_owned());
        let mut watch = Self { roots, cwd, free, deeper, before: BTreeMap::new() };
        watch.before = watch.look();
        watch
    }

    /// What is to be covered, the outer before the inner.
    pub fn covers(&self) -> impl Iterator<Item = (&Path, Cover)> {
        self.before.iter().filter_map(|(path, seen)| Some((path.as_path(), seen.cover?)))
    }

    /// What appeared or changed since, in sentences. Blocks like the first look.
    pub fn changes(&self) -> Vec<String> {
        let mut after = self.look();
        // What only says where a repository was cloned from, and the like, is no news.
        after.retain(|path, seen| self.before.get(path) == Some(seen) || !is_plain(path, seen));
        let is_new = |path: &Path| after.contains_key(path) && !self.before.contains_key(path);
        let mut told = Vec::new();
        for (path, seen) in &after {
            let Seen { why, .. } = seen;
            let shown = path.display();
            match self.before.get(path) {
                None if path.ancestors().skip(1).any(is_new) => {}
                None => told.push(format!(
                    "{shown} appeared while this command ran: {why}. The owner should look at it before it is used; \
                     removing it undoes it."
                )),
                Some(before) if before.stamp != seen.stamp => told.push(format!(
                    "{shown} was changed while this command ran: {why}. The owner should look at it before it is used, and \
                     put back what was there; that is not kept."
                )),
                Some(_) => {}
            }
        }
        let more = told.len().saturating_sub(MOST_NAMED);
        told.truncate(MOST_NAMED);
        if more > 0 {
            told.push(format!("The same holds for {more} more protected paths."));
        }
        told
    }

    /// Why a command that failed may have: a covered path that its output names, with the setting that would allow it.
    pub fn refused(&self, output: &str) -> Option<String> {
        let mut from = output.len().saturating_sub(TAIL);
        while !output.is_char_boundary(from) {
            from += 1;
        }
        let lines = output[from..].lines().rev();
        let mut complaints = lines.filter(|line| REFUSED.iter().any(|word| line.contains(word)));
        complaints.find_map(|line| {
            let (path, cover) = self
                .covers()
                .filter_map(|(path, cover)| Some((self.named_in(line, path)?, path, cover)))
                .max_by_key(|(how, ..)| *how)
                .map(|(_, path, cover)| (path, cover))?;
            let what = if cover == Cover::ReadOnly { "change" } else { "move or remove" };
            let (shown, why) = (path.display().to_string(), self.before[path].why);
            Some(format!(
                "This is because commands may not {what} {shown}: {why}. The owner can allow it: write = [{shown:?}] under \
                 [sandbox] in config.toml."
            ))
        })
    }

    /// How surely a line means this path, if it names it at all: by all of it, by how much of its end, and whether it is
    /// where the command started.
    fn named_in(&self, line: &str, path: &Path) -> Option<(bool, usize, bool, usize)> {
        let end = path_from_its_folder(path);
        let folder = path.ancestors().nth(end.components().count())?;
        let whole = line.contains(&*path.to_string_lossy());
        let short = end.to_string_lossy();
        line.contains(&*short)
            .then(|| (whole, short.len(), self.cwd.starts_with(folder), folder.components().count()))
    }

    fn look(&self) -> BTreeMap<PathBuf, Seen> {
        let mut found = Found { free: &self.free, seen: BTreeMap::new() };
        for folder in &self.deeper {
            found.repository(&folder.join(".git"));
        }
        for root in &self.roots {
            found.folder(root);
            for child in folders_in(root) {
                found.repository(&child.join(".git"));
            }
            if self.cwd.starts_with(root) {
                for folder in self.cwd.ancestors().take_while(|folder| *folder != root) {
                    found.folder(folder);
                }
            }
        }
        found.seen
    }
}

struct Found<'a> {
    free: &'a [PathBuf],
    seen: BTreeMap<PathBuf, Seen>,
}

impl Found<'_> {
    /// What of a folder is protected.
    fn folder(&mut self, folder: &Path) {
        self.repository(&folder.join(".git"));
        for (name, why) in protected::names() {
            self.whole(&folder.join(name), why);
        }
    }

    /// A repository by its `.git`, with those of its submodules.
    fn repository(&mut self, git: &Path) {
        let Some(metadata) = self.admitted(git) else { return };
        if !metadata.is_dir() {
            self.note(git, protected::REPOSITORY, cover_of(&metadata), Some(stamp(&metadata)));
            return;
        }
        self.note(git, protected::REPOSITORY, Some(Cover::InPlace), None);
        self.inside_of_git(git);
        self.modules(&git.join("modules"), 0);
        // What they have of their own leads to the repository that they belong to.
        let worktrees = git.join("worktrees");
        self.in_place(&worktrees);
        for worktree in folders_in(&worktrees) {
            self.in_place(&worktree);
            self.inside_of_git(&worktree);
        }
    }

    /// A folder on the way to what is covered: exchanged for another, it would lead somewhere else.
    fn in_place(&mut self, folder: &Path) {
        if self.admitted(folder).is_some_and(|metadata| metadata.is_dir()) {
            self.note(folder, protected::REPOSITORY, Some(Cover::InPlace), None);
        }
    }

    /// The repositories of submodules, which are named by their paths: one may lie some folders down.
    fn modules(&mut self, folder: &Path, depth: usize) {
        self.in_place(folder);
        for module in folders_in(folder) {
            self.in_place(&module);
            if module.join("config").symlink_metadata().is_ok() {
                self.inside_of_git(&module);
                self.modules(&module.join("modules"), depth + 1);
            } else if depth < DEEPEST_MODULE {
                self.modules(&module, depth + 1);
            }
        }
    }

    fn inside_of_git(&mut self, git: &Path) {
        for name in ["config", "config.worktree", "commondir"] {
            self.whole(&git.join(name), protected::GIT);
        }
        self.whole(&git.join("hooks"), protected::HOOKS);
    }

    /// A protected file, or a folder with everything in it.
    fn whole(&mut self, path: &Path, why: &'static str) {
        let Some(metadata) = self.admitted(path) else { return };
        if metadata.is_dir() {
            self.note(path, why, Some(Cover::ReadOnly), None);
            self.files(path, why, 2);
        } else {
            self.note(path, why, cover_of(&metadata), Some(stamp(&metadata)));
        }
    }

    /// The files of a protected folder; examples that git never runs are no news.
    fn files(&mut self, folder: &Path, why: &'static str, depth: usize) {
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).take(MOST_FILES) {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            if metadata.is_dir() && depth > 0 {
                self.files(&path, why, depth - 1);
            } else if path.extension().is_none_or(|extension| extension != "sample") {
                self.note(&path, why, None, Some(stamp(&metadata)));
            }
        }
    }

    /// What is there and not free.
    fn admitted(&self, path: &Path) -> Option<Metadata> {
        if self.free.iter().any(|free| path.starts_with(free)) {
            return None;
        }
        path.symlink_metadata().ok()
    }

    fn note(&mut self, path: &Path, why: &'static str, cover: Option<Cover>, stamp: Option<Stamp>) {
        // What holds something free is not read-only as a whole.
        let holds_free = self.free.iter().any(|free| free.starts_with(path));
        let cover = cover.filter(|cover| !holds_free || *cover == Cover::InPlace);
        self.seen.insert(path.to_owned(), Seen { why, cover, stamp });
    }
}

/// Whether a new or changed path is a configuration, or a repository with one, that makes git run nothing.
fn is_plain(path: &Path, seen: &Seen) -> bool {
    if seen.cover == Some(Cover::InPlace) || seen.stamp.is_none() && seen.why == protected::HOOKS {
        return true; // What is in it is told of by itself.
    }
    let is_config = path.ends_with(".git/config") || seen.why == protected::GIT && path.ends_with("config");
    is_config && text_of(path).is_some_and(|text| git_config_is_plain(&text))
}

/// The text of a small plain file; never waits for one that was made to be waited for.
fn text_of(path: &Path) -> Option<String> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path).ok()?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < MOST_CONFIG) {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_CONFIG).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether a configuration has none but keys that neither run a program nor lead git elsewhere.
fn git_config_is_plain(text: &str) -> bool {
    const PLAIN: &[(&str, &[&str])] = &[
        (
            "core",
            &[
                "repositoryformatversion",
                "filemode",
                "bare",
                "logallrefupdates",
                "ignorecase",
                "precomposeunicode",
                "symlinks",
            ],
        ),
        ("user", &["name", "email"]),
        ("remote", &["url", "fetch"]),
        ("branch", &["remote", "merge", "rebase"]),
    ];
    let mut keys: &[&str] = &[];
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).all(|line| {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split([' ', ']', '"']).next().unwrap_or_default().to_ascii_lowercase();
            let known = PLAIN.iter().find(|(section, _)| *section == name);
            keys = known.map_or(&[], |(_, keys)| keys);
            // A key on the line of its section is nothing that git writes.
            return known.is_some() && header.ends_with(']');
        }
        let Some((key, value)) = line.split_once('=') else { return false };
        let key = key.trim().to_ascii_lowercase();
        // `ext::` and its kin name a program; what goes on in the next line could be anything.
        keys.contains(&key.as_str()) && !value.contains("::") && !value.ends_with('\\')
    })
}

/// A link is not covered: what it leads to may be anywhere.
fn cover_of(metadata: &Metadata) -> Option<Cover> {
    metadata.is_file().then_some(Cover::ReadOnly)
}

/// `.git/config` of `/work/.git/config`, as programs name it: from the folder that it is in.
fn path_from_its_folder(path: &Path) -> PathBuf {
    let names: Vec<_> = path.components().collect();
    let git = names.iter().position(|name| name.as_os_str() == ".git");
    names[git.unwrap_or(names.len().saturating_sub(1))..].iter().collect()
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).take(MOST_CHILDREN);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.take(MOST_FOLDERS).map(|entry| entry.path()).collect()
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.ino(), metadata.size(), metadata.mode(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_plain_while_it_runs_nothing() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n# note\n[user]\n\tname = a\n\
                     [remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                     [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
        assert!(git_config_is_plain(fresh) && git_config_is_plain(""));
        for more in [
            "[core]\n\thooksPath = x",
            "[core]\n\tFSMonitor = x",
            "[Core] sshCommand = x",
            "[remote \"o\"]\n\tuploadpack = x",
            "[remote \"o\"]\n\turl = ext::sh -c x",
            "[user]\n\tname = a\\\n\tpager",
            "[filter \"x\"]\n\tclean = x",
            "[include]\n\tpath = x",
            "[user]\n\tname",
            "pager = x",
        ] {
            assert!(!git_config_is_plain(&format!("{fresh}{more}\n")), "{more}");
        }
        assert!(!git_config_is_plain("pager = x\n"), "before any section");
    }
}
