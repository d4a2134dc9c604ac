//! What is asked, and how its effects are counted afterwards. Not here: who disturbs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::dice::Dice;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bash,
    Write,
    Edit,
    Patch,
    Sqlite,
    Commit,
    Read,
    Grep,
}

const KINDS: [Kind; 12] = [
    Kind::Bash,
    Kind::Bash,
    Kind::Write,
    Kind::Write,
    Kind::Edit,
    Kind::Edit,
    Kind::Patch,
    Kind::Patch,
    Kind::Sqlite,
    Kind::Commit,
    Kind::Read,
    Kind::Grep,
];

/// Backends of a round.
pub const BACKENDS: usize = 2;
/// Conversations at one backend. Each has files of its own, so that they do not get in each other's way.
const CONVERSATIONS: u64 = 3;

/// One request.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: String,
    pub kind: Kind,
    /// The backend that it is asked through, and whose result it is.
    pub backend: usize,
    pub conversation: u64,
    /// For a command: how long it takes before and after its effect, in hundredths of a second.
    pauses: (u64, u64),
}

impl Job {
    pub fn new(seed: u64, number: usize, dice: &mut Dice) -> Self {
        let kind = KINDS[dice.index(KINDS.len())];
        let backend = dice.index(BACKENDS);
        let conversation = dice.below(CONVERSATIONS) + CONVERSATIONS * backend as u64;
        Self {
            id: format!("job-{seed}-{number}-x"),
            kind,
            backend,
            conversation,
            pauses: (dice.below(12), dice.below(12)),
        }
    }

    pub fn has_effect(&self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::Grep)
    }

    pub fn tool(&self) -> &'static str {
        match self.kind {
            Kind::Bash => "Bash",
            Kind::Write => "Write",
            Kind::Edit => "Edit",
            Kind::Patch => "ApplyPatch",
            Kind::Sqlite => "SqliteQuery",
            Kind::Commit => "git_add_commit",
            Kind::Read => "Read",
            Kind::Grep => "Grep",
        }
    }

    pub fn args(&self) -> Value {
        let (id, talk) = (&self.id, self.conversation);
        match self.kind {
            Kind::Bash => {
                let (before, after) = self.pauses;
                json!({"command": format!("sleep 0.{before:02}; echo {id} >> bash.log; sleep 0.{after:02}; echo done")})
            }
            Kind::Write => {
                json!({"file_path": format!("write-{id}.txt"), "content": format!("{id}\n")})
            }
            Kind::Edit => json!({
                "file_path": format!("edit-{talk}.txt"), "old_string": "END\n", "new_string": format!("{id}\nEND\n"),
            }),
            Kind::Patch => json!({"patch": format!(
                "*** Begin Patch\n*** Update File: patch-{talk}.txt\n@@\n-END\n+{id}\n+END\n\
                 *** Add File: patch-{id}.txt\n+{id}\n*** Update File: patch-{talk}b.txt\n@@\n-END\n+{id}\n+END\n\
                 *** End Patch\n"
            )}),
            Kind::Sqlite => json!({
                "database_path": "rows.sqlite3", "mode": "rw", "query": "insert into row (id) values (?)",
                "params": [id],
            }),
            Kind::Commit => json!({"paths": [format!("repo/{id}.txt")], "message": id}),
            Kind::Read => json!({"file_path": format!("edit-{talk}.txt")}),
            Kind::Grep => json!({"pattern": "END"}),
        }
    }

    /// How often its effect was made. One that is there in part counts as made, and is told.
    pub fn effects(&self, work: &Path) -> anyhow::Result<Effects> {
        let (id, talk) = (self.id.as_str(), self.conversation);
        let whole = |count| {
            Ok(Effects {
                count,
                partial: false,
            })
        };
        match self.kind {
            Kind::Bash => whole(lines(&work.join("bash.log"), id)),
            Kind::Write => whole(lines(&work.join(format!("write-{id}.txt")), id)),
            Kind::Edit => whole(lines(&work.join(format!("edit-{talk}.txt")), id)),
            Kind::Patch => {
                let files = [
                    format!("patch-{talk}.txt"),
                    format!("patch-{id}.txt"),
                    format!("patch-{talk}b.txt"),
                ];
                let counts = files.map(|file| lines(&work.join(file), id));
                let most = counts.into_iter().max().unwrap_or_default();
                Ok(Effects {
                    count: most,
                    partial: counts.iter().any(|count| *count != most),
                })
            }
            Kind::Sqlite => {
                let db = rusqlite::Connection::open(work.join("rows.sqlite3"))?;
                let count: u32 =
                    db.query_row("select count(*) from row where id = ?", [id], |row| {
                        row.get(0)
                    })?;
                whole(usize::try_from(count)?)
            }
            Kind::Commit => {
                let log = git(&work.join("repo"), &["log", "--all", "--format=%s"])?;
                whole(log.lines().filter(|line| *line == id).count())
            }
            Kind::Read | Kind::Grep => whole(0),
        }
    }
}

/// How often an effect was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effects {
    pub count: usize,
    /// Some of its files have it and some have not.
    pub partial: bool,
}

fn lines(file: &Path, id: &str) -> usize {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| *line == id).count()
}

/// What the requests find.
pub fn prepare(work: &Path, jobs: &[Job]) -> anyhow::Result<()> {
    for talk in 0..CONVERSATIONS * BACKENDS as u64 {
        for name in [
            format!("edit-{talk}.txt"),
            format!("patch-{talk}.txt"),
            format!("patch-{talk}b.txt"),
        ] {
            fs::write(work.join(name), "BEGIN\nEND\n")?;
        }
    }
    rusqlite::Connection::open(work.join("rows.sqlite3"))?
        .execute_batch("create table row (id text)")?;
    let repo = work.join("repo");
    fs::create_dir(&repo)?;
    git(&repo, &["init", "--quiet", "--initial-branch=main"])?;
    git(&repo, &["config", "user.name", "chaos"])?;
    git(&repo, &["config", "user.email", "chaos@localhost"])?;
    git(
        &repo,
        &["commit", "--quiet", "--allow-empty", "--message=begin"],
    )?;
    for job in jobs.iter().filter(|job| job.kind == Kind::Commit) {
        fs::write(repo.join(format!("{}.txt", job.id)), &job.id)?;
    }
    Ok(())
}

/// Files that nobody asked for.
pub fn litter(work: &Path) -> anyhow::Result<Vec<String>> {
    let known = |name: &str| {
        // A database's rollback journal is what undoes a killed change when it is next opened.
        ["bash.log", "repo", "rows.sqlite3", "rows.sqlite3-journal"].contains(&name)
            || (["write-", "edit-", "patch-"]
                .iter()
                .any(|start| name.starts_with(start))
                && !name.contains(".tmp"))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(work)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !known(&name) {
            found.push(name);
        }
    }
    if work.join("repo/.git/index.lock").exists() {
        found.push("repo/.git/index.lock".to_owned());
    }
    Ok(found)
}

fn git(folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let ran = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .output()?;
    ensure!(
        ran.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
