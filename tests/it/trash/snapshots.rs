//! Undo of the changes of commands, with the snapshots before and after them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_home::Home;
use punie_host::Workspace;
use punie_tool::{BeforeImages as _, DeclaredAccess, RequestedCommand};
use punie_undo::{BeforeImageStore, Trash, TrashLimits};

use super::OwnerFixture;

/// A workspace with its trash, without a runner.
pub(super) struct SnapshotFixture {
    pub dir: Arc<tempfile::TempDir>,
    pub trash: Trash,
    pub workspace: Workspace,
    pub images: BeforeImageStore,
}

impl SnapshotFixture {
    pub fn new() -> Self {
        Self::with_trash_of(1 << 30)
    }

    pub fn with_trash_of(max_bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("work")).expect("made");
        Self::with_home(Arc::new(dir), "home", max_bytes)
    }

    /// Sets up another process with the same workspace, and with this home.
    pub fn beside(&self, home: &str) -> Self {
        Self::with_home(Arc::clone(&self.dir), home, 1 << 30)
    }

    fn with_home(dir: Arc<tempfile::TempDir>, home: &str, max_bytes: u64) -> Self {
        let work = fs::canonicalize(dir.path().join("work")).expect("there");
        let home = Home::open_home(&dir.path().join(home)).expect("a home");
        let limits = TrashLimits {
            max_bytes,
            keep: Duration::from_hours(24),
        };
        let trash = Trash::new(&home, limits);
        let workspace = Workspace::open_roots(&[work]).expect("open");
        let images = BeforeImageStore::new(trash.clone(), workspace.clone()).with_snapshots(true);
        Self {
            dir,
            trash,
            workspace,
            images,
        }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Runs a command as a call does, between two snapshots.
    pub async fn run_command(&self, command: &str) -> RequestId {
        let request = self.begin_command().await.expect("begun");
        self.shell(command);
        self.ends(&request).await.expect("ended");
        request
    }

    /// Takes the snapshot before a call.
    pub async fn begin_command(&self) -> Result<RequestId, String> {
        let request = RequestId::new();
        let line = RequestedCommand::Line("make".to_owned());
        let access = DeclaredAccess::running_command(line, None);
        let begun = self
            .images
            .begin_snapshot(&request, "Bash", &access)
            .await?;
        assert!(begun);
        Ok(request)
    }

    /// Takes the snapshot after a call.
    pub async fn ends(&self, request: &RequestId) -> Result<bool, String> {
        self.images.end_snapshot(request).await
    }

    /// Runs a command in the workspace; returns its output.
    pub fn shell(&self, command: &str) -> String {
        let mut bash = Command::new("bash");
        bash.args(["-c", command]).current_dir(self.work());
        let ran = bash.stdin(Stdio::null()).stderr(Stdio::null()).output();
        String::from_utf8_lossy(&ran.expect("bash ran").stdout)
            .trim()
            .to_owned()
    }

    pub fn undo(&self, request: &RequestId) -> Result<Vec<String>, String> {
        let undone = self
            .trash
            .undo_request(&self.workspace, request.as_str(), false);
        undone
            .map(|report| report.lines)
            .map_err(|unready| unready.to_string())
    }
}

/// Reads everything below a folder: the mode and the content of each entry.
pub(super) fn covered_files(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn walk(top: &Path, folder: &Path, all: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("there");
            let holds = if metadata.is_symlink() {
                fs::read_link(&path)
                    .expect("a link")
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            } else if metadata.is_file() {
                fs::read(&path).expect("readable")
            } else {
                Vec::new()
            };
            let below = path.strip_prefix(top).expect("below").to_owned();
            all.insert(below, (metadata.mode(), holds));
            if metadata.is_dir() {
                walk(top, &path, all);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(folder, folder, &mut all);
    all
}

/// Pseudo-random numbers that are the same in each run.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("small") % most
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Returns a path of few names, so that paths collide.
    fn path(&mut self) -> String {
        let names = ["a", "b", "c", "dir", "ümlaut", "new line", ".hidden"];
        let depth = 1 + self.below(3);
        let parts: Vec<&str> = (0..depth).map(|_| self.pick(&names)).collect();
        format!("'{}'", parts.join("/"))
    }

    fn command(&mut self) -> String {
        let one = self.path();
        let other = self.path();
        let number = self.below(1_000);
        let mode = self.pick(&["600", "644", "755", "500", "700", "000", "4711"]);
        match self.below(14) {
            0 => format!("echo {number} > {one}"),
            1 => format!("echo {number} >> {one}"),
            2 => format!("rm -rf {one}"),
            3 => format!("mv {one} {other}"),
            4 => format!("mkdir -p {one}"),
            5 => format!("ln -sfn {other} {one}"),
            6 => format!("chmod {mode} {one}"),
            7 => format!("cp -r {one} {other}"),
            8 => format!("rmdir {one}"),
            9 => format!("rm -rf {one}; mkdir -p {one}; echo {number} > {one}/inner"),
            10 => format!("rm -rf {one}; echo {number} > {one}"),
            11 => format!("mkdir -p {one}/deep/deeper; cp -r . {one}/deep 2>/dev/null"),
            12 => format!("chmod -R {mode} {one}"),
            _ => format!("find {one} -type f -delete"),
        }
    }

    fn commands(&mut self) -> String {
        let count = 1 + self.below(5);
        let all: Vec<String> = (0..count).map(|_| self.command()).collect();
        all.join("; ")
    }
}

#[tokio::test]
#[ignore = "slow: `.ci/run` runs it"]
async fn two_hundred_random_commands_are_undone_to_the_byte() {
    let this = SnapshotFixture::new();
    let mut dice = SeededNumbers(4_711);
    for round in 0..200 {
        // Every tenth round begins with a tree that commands made.
        if round % 10 == 0 {
            for entry in fs::read_dir(this.work()).expect("readable") {
                let path = entry.expect("an entry").path();
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
            let grown = (0..8)
                .map(|_| dice.commands())
                .collect::<Vec<_>>()
                .join("; ");
            this.run_command(&grown).await;
        }
        let before = covered_files(&this.work());
        let commands = dice.commands();
        let request = this.run_command(&commands).await;
        let after = covered_files(&this.work());
        let undone = this.undo(&request);
        let now = covered_files(&this.work());
        assert_eq!(now, before, "round {round}: {commands}\n{undone:?}");
        let is_unchanged = before == after;
        assert_eq!(
            undone.is_err(),
            is_unchanged,
            "round {round}: {commands}\n{undone:?}"
        );
        // The next round begins with other files.
        this.run_command(&commands).await;
    }
}

#[tokio::test]
async fn what_changed_since_is_kept_and_nothing_is_done_half() {
    let this = SnapshotFixture::new();
    let work = this.work();
    fs::write(work.join("one"), "old\n").expect("written");
    fs::write(work.join("two"), "old\n").expect("written");
    let request = this
        .run_command("echo new > one; echo new > two; echo made > three")
        .await;
    fs::write(work.join("two"), "by hand\n").expect("written");
    let refused = this.undo(&request).expect_err("a file was changed since");
    assert_contains!(refused, "two was changed since");
    let read = |name: &str| fs::read_to_string(work.join(name)).expect(name);
    assert_eq!(
        [read("one"), read("two"), read("three")],
        ["new\n", "by hand\n", "made\n"]
    );
    // The refusal names the later request.
    fs::write(work.join("two"), "new\n").expect("written");
    let later = this.run_command("echo later > two").await;
    let refused = this
        .undo(&request)
        .expect_err("a later request changed a file");
    assert_contains!(refused, later.as_str());
    this.undo(&later).expect("undone");
    this.undo(&request).expect("undone");
    assert_eq!(covered_files(&work).len(), 2);
    assert_eq!([read("one"), read("two")], ["old\n", "old\n"]);
    // The file that the request had made is in the trash.
    let made = this.trash.list_entries().expect("listed");
    let made = made
        .iter()
        .find(|entry| entry.tool.contains(request.as_str()));
    this.undo(&made.expect("kept").request.clone())
        .expect("undone");
    assert_eq!(read("three"), "made\n");
}

#[tokio::test]
async fn a_repository_is_covered_without_its_own_folder_and_without_what_it_ignores() {
    let this = SnapshotFixture::new();
    let work = this.work();
    let git = |line: &str| {
        let script = format!("export HOME=/nonexistent; {line}");
        let ran = Command::new("bash")
            .args(["-ec", &script])
            .current_dir(&work)
            .output()
            .expect("ran");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    };
    git("git init -q -b main; git config user.name n; git config user.email e@x
         printf 'ignored/\n*.log\n' > .gitignore; mkdir ignored kept; echo t > ignored/tracked; echo u > ignored/untracked
         echo a > kept/a; echo l > tracked.log; echo x > other.log
         git add .; git add -f ignored/tracked tracked.log; git commit -qm first");
    let first = git("git rev-parse HEAD");
    let before = covered_files(&work.join("kept"));
    let request = this
        .run_command("rm -rf .git kept; echo 2 > ignored/tracked; echo 2 > ignored/untracked; echo 2 > tracked.log; echo 2 > other.log")
        .await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_eq!(covered_files(&work.join("kept")), before);
    let read = |name: &str| fs::read_to_string(work.join(name)).expect(name);
    assert_eq!(
        [read("ignored/tracked"), read("tracked.log")],
        ["t\n", "l\n"]
    );
    assert_eq!(
        [read("ignored/untracked"), read("other.log")],
        ["2\n", "2\n"]
    );
    assert!(!work.join(".git").exists(), "{lines}");
    // A commit stays, and the undo names the command that moves the branch back to it.
    git(
        "git init -q -b main; git config user.name n; git config user.email e@x; git add .; git commit -qm again",
    );
    let again = git("git rev-parse HEAD");
    assert_ne!(first, again);
    let request = this
        .run_command("export HOME=/nonexistent; echo 3 > kept/a; git commit -qam third")
        .await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_contains!(
        lines,
        &format!("update-ref --no-deref refs/heads/main {again}")
    );
    assert_eq!(read("kept/a"), "a\n");
    // A hostile git configuration runs no program.
    let ran = this.dir.path().join("fsmonitor-ran");
    let monitor = format!("git config core.fsmonitor 'touch {}; false'", ran.display());
    git(&monitor);
    git("echo '* filter=evil' > .gitattributes
         git config filter.evil.clean 'touch clean-ran; cat'");
    let request = this.run_command("echo 4 > kept/a").await;
    this.undo(&request).expect("undone");
    assert!(!work.join("clean-ran").exists() && !ran.exists());
}

#[tokio::test]
async fn odd_files_are_left_alone_and_named() {
    let this = SnapshotFixture::new();
    let work = this.work();
    fs::write(work.join("plain"), "old").expect("written");
    symlink("plain", work.join("link")).expect("linked");
    let commands = "mkfifo fifo; truncate -s 50G sparse; printf x > $'bytes\\xff'; rm link; ln -s nowhere link; \
                    chmod 2755 . ; echo new > plain";
    let request = this.run_command(commands).await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_contains!(lines, "fifo: stays", "sparse: stays");
    assert_eq!(
        fs::read_link(work.join("link")).expect("a link"),
        Path::new("plain")
    );
    assert_eq!(
        fs::read_to_string(work.join("plain")).expect("there"),
        "old"
    );
    assert_eq!(fs::read_dir(&work).expect("there").count(), 4);
    // With too many files the call goes on, and `undo` gives the reason for its refusal.
    let request = this
        .run_command("mkdir many; cd many; seq 20001 | xargs touch")
        .await;
    let refused = this.undo(&request).expect_err("too many");
    assert_contains!(refused, "more than 20000 files");
    fs::remove_dir_all(work.join("many")).expect("removed");
    let request = this.run_command("echo again > plain").await;
    this.undo(&request).expect("covered again");
}

#[tokio::test]
async fn a_trash_without_room_makes_no_snapshot_and_a_call_that_was_cut_off_is_finished() {
    let this = SnapshotFixture::with_trash_of(1 << 20);
    let big: String = (0..400_000_u32)
        .map(|n| {
            char::from(b'!' + u8::try_from(n.wrapping_mul(2_654_435_761) >> 26).expect("small"))
        })
        .collect();
    fs::write(this.work().join("big"), big.repeat(4)).expect("written");
    fs::write(this.work().join("noise"), random_bytes(800_000)).expect("written");
    let request = this.run_command("echo x > y").await;
    let refused = this.undo(&request).expect_err("no room");
    assert_contains!(refused, "max_mb");

    let this = SnapshotFixture::new();
    fs::write(this.work().join("file"), "old").expect("written");
    let request = this.begin_command().await.expect("begun");
    fs::write(this.work().join("file"), "new").expect("written");
    let refused = this.undo(&request).expect_err("the call still runs");
    assert_contains!(refused, "still runs");
    let next = this.beside("home");
    drop(this);
    let this = next;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_contains!(lines, "did not see the end");
    assert_eq!(
        fs::read_to_string(this.work().join("file")).expect("there"),
        "old"
    );
}

pub(super) fn random_bytes(count: usize) -> Vec<u8> {
    let mut dice = SeededNumbers(1);
    (0..count)
        .map(|_| u8::try_from(dice.below(256)).expect("a byte"))
        .collect()
}

#[test]
fn one_undo_takes_back_what_a_command_wrote_and_what_it_removed() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/.gitignore", "build/\n");
    owner.write("work/kept/file", "old\n");
    owner.write("work/kept/build/out", "made\n");
    owner.write("work/edited", "old\n");
    let (request, code, text) = owner
        .run_bash("rm -rf kept; echo new > edited; mkdir -p made/deep; echo x > made/deep/file");
    assert_eq!(code, 0, "{text}");
    let diff = owner.run_cli(&["diff", &request]);
    assert_contains!(diff.out, "-old\n+new\n");
    let diff = owner.run_cli(&["undo", &request, "--diff"]);
    assert_contains!(diff.out, "-new\n+old\n");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/kept/file"), "old\n");
    assert!(!owner.path("work/kept/build").exists(), "git ignores it");
    assert_eq!(owner.read("work/edited"), "old\n");
    assert!(!owner.path("work/made").exists());
    // Without snapshots, `undo` says that nothing is stored.
    owner.write("home/config.toml", super::WITHOUT_SNAPSHOTS);
    let (request, _, _) = owner.run_bash("echo new > edited");
    owner.assert_undo_refused(&request, "nothing is kept");
}

#[test]
fn a_kill_at_any_step_leaves_it_before_or_after_and_the_next_undo_finishes_it() {
    let command =
        "echo new > file; rm -rf gone; mkdir -p made/deep; echo x > made/deep/file; chmod 700 kept";
    let prepare = || {
        let owner = OwnerFixture::with_snapshots();
        owner.write("work/file", "old\n");
        owner.write("work/gone/deep/file", "gone\n");
        owner.write("work/kept/file", "kept\n");
        let before = covered_files(&owner.path("work"));
        (owner, before)
    };
    for point in ["snapshot.begun", "snapshot.compared", "snapshot.written"] {
        let (owner, before) = prepare();
        let call = [
            "call",
            "Bash",
            &serde_json::json!({ "command": command }).to_string(),
        ];
        let mut killed = owner.command(&call);
        killed.env("PUNIE_FAILPOINTS", format!("{point}=kill"));
        assert_ne!(super::run_command(&mut killed).code, 0, "{point}");
        let id = pending_request(&owner);
        if covered_files(&owner.path("work")) == before {
            owner.assert_undo_refused(&id, "nothing to undo");
        } else {
            owner.undo_request(&id);
        }
        assert_eq!(covered_files(&owner.path("work")), before, "{point}");
    }
    for step in 1..20 {
        let (owner, before) = prepare();
        let (request, _, _) = owner.run_bash(command);
        let mut killed = owner.command(&["undo", &request]);
        killed.env("PUNIE_FAILPOINTS", format!("undo.step=kill@{step}"));
        let is_killed = super::run_command(&mut killed).code != 0;
        if is_killed {
            let said = owner.run_cli(&["undo", &request]);
            let is_done = said.code == 0 || said.err.contains("nothing to undo");
            assert!(is_done, "{step}: {said:?}");
        }
        assert_eq!(covered_files(&owner.path("work")), before, "{step}");
        if !is_killed {
            assert!(step > 3);
            return;
        }
    }
    panic!("an undo has fewer than 20 steps");
}

/// Returns the request of a call that was cut off.
fn pending_request(owner: &OwnerFixture) -> String {
    let trash = owner.path("home/state/trash");
    let folders = fs::read_dir(trash.join("snapshots/calls")).expect("there");
    let below = folders
        .flat_map(|folder| fs::read_dir(folder.expect("an entry").path()).expect("a folder"));
    let paths = below.chain(fs::read_dir(trash.join("requests")).expect("there"));
    let names = paths.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("text")
    });
    let mut ids = names.filter_map(|name| {
        let id = name.strip_suffix(".json").or(name.strip_suffix(".jsonl"))?;
        Some(id.to_owned())
    });
    ids.next().expect("a record")
}

#[test]
fn what_a_background_command_changed_is_undone_too() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/file", "old\n");
    let line = "echo new > file; touch began; sleep 600";
    let args = serde_json::json!({ "command": line, "run_in_background": true }).to_string();
    // The end of `punie-runner call` ends its background commands.
    let said = owner.run_cli(&["call", "Bash", &args, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said.out).expect(&said.out);
    owner.undo_request(answer["requestId"].as_str().expect("an id"));
    assert!(!owner.path("work/began").exists());
    assert_eq!(owner.read("work/file"), "old\n");
}

#[test]
fn a_command_that_only_reads_has_no_snapshot() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/a", "a\n");
    let (request, code, _) = owner.run_bash("cat a | wc -l");
    assert_eq!(code, 0);
    owner.assert_undo_refused(&request, "nothing is kept");
    let trees = owner.path("home/state/trash/snapshots/trees");
    assert_eq!(fs::read_dir(trees).expect("there").count(), 0);
    let mode = fs::metadata(owner.path("home/state/trash/snapshots")).expect("there");
    assert_eq!(mode.permissions().mode() & 0o077, 0);
}
