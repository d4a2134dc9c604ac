//! Snapshots in difficult cases: other runners, a full trash or disk, odd files, and all kinds of repositories.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punie_core::ids::RequestId;
use punie_tool::{BeforeImages as _, CallIntent};

use super::snapshots::{SnapshotFixture, covered_files, random_bytes};
use super::{OwnerFixture, run_command};
use crate::faults::disk::SmallDisk;
use crate::harness::wait::wait_for_some;

/// The beginning of the git commands in these tests.
const GIT: &str = "set -e; export HOME=/nonexistent GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e@x GIT_COMMITTER_NAME=n \
                   GIT_COMMITTER_EMAIL=e@x;";

impl SnapshotFixture {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).expect(name)
    }

    fn git(&self, line: &str) -> String {
        self.shell(&format!("{GIT} {line}"))
    }

    /// Undoes a request, and runs the commands that move its refs back.
    #[track_caller]
    fn undo_with_refs(&self, request: &RequestId) -> String {
        let lines = self.undo(request).expect("undone");
        for line in &lines {
            if let Some((_, command)) = line.split_once("this moves it back: ") {
                let ran = self.git(&format!("{command} 2>&1 && echo moved"));
                assert_eq!(ran, "moved", "{line}");
            }
        }
        lines.join("\n")
    }
}

#[tokio::test]
async fn runners_of_two_homes_do_not_disturb_each_other() {
    let one = SnapshotFixture::new();
    let other = one.beside("other-home");
    let before = covered_files(&one.work());
    let mut requests = Vec::new();
    for number in 0..5 {
        let (a, b) = tokio::join!(one.begin_command(), other.begin_command());
        let a = a.expect("begun");
        let b = b.expect("begun");
        one.shell(&format!("echo a > a{number}; echo b > b{number}"));
        let ended = tokio::join!(one.ends(&a), other.ends(&b));
        assert_eq!(ended, (Ok(true), Ok(true)));
        requests.push((a, b));
    }
    // Each home recorded all changes, so one undo leaves the other home nothing to undo.
    for (a, b) in requests.iter().rev() {
        one.undo(a).expect("undone");
        let refused = other.undo(b).expect_err("it is undone already");
        assert_contains!(refused, "nothing to undo");
    }
    assert_eq!(covered_files(&one.work()), before);
}

#[tokio::test]
async fn processes_of_one_home_keep_their_own_trees() {
    let one = SnapshotFixture::new();
    let other = one.beside("home");
    let file = one.work().join("file");
    fs::write(&file, "first").expect("written");
    one.run_command("true").await;
    fs::write(&file, "second").expect("written");
    other.run_command("true").await;
    fs::write(&file, "first").expect("written");
    // For the first process, nothing has changed since its own last snapshot.
    let request = one.begin_command().await.expect("begun");
    fs::write(&file, "third").expect("written");
    drop(one);
    // A process that another test starts also holds the lock of the first one, until it executes its program.
    let undo = async || match other.undo(&request) {
        Err(refused) if refused.contains("still runs") => None,
        undone => Some(undone),
    };
    let undone = wait_for_some("the end of the first process", undo).await;
    let lines = undone.expect("undone").join("\n");
    assert_contains!(lines, "did not see the end");
    assert_eq!(other.text("file"), "first");
}

#[tokio::test]
async fn undo_names_who_else_changed_something_meanwhile() {
    let one = SnapshotFixture::new();
    let other = one.beside("home");
    let server = other.begin_command().await.expect("begun");
    one.shell("echo server > log");
    let request = one.begin_command().await.expect("begun");
    one.shell("echo 1 > command; echo server >> log");
    let tool = RequestId::new();
    let intents = [CallIntent::File {
        path: one.work().join("tool").display().to_string(),
        before: None,
        after: Some("0".repeat(64)),
        executable: None,
        temp: one.work().join(".tool").display().to_string(),
    }];
    let remarks = one.images.save_before_images(&tool, "Write", &intents);
    assert!(remarks.await.is_empty());
    fs::write(one.work().join("tool"), "by a tool").expect("written");
    one.ends(&request).await.expect("ended");
    let refused = one.undo(&server).expect_err("the call still runs");
    assert_contains!(refused, "still runs");
    let dry = one
        .trash
        .undo_request(&one.workspace, request.as_str(), true)
        .expect("a plan");
    let lines = dry.lines.join("\n");
    assert_contains!(
        lines,
        &format!("request {server} ran at the same time, and still runs")
    );
    assert_contains!(lines, &format!("request {tool} ran at the same time"));
    // All changes between the start and the end of a call are undone together.
    one.shell("echo late >> log");
    other.ends(&server).await.expect("ended");
    let lines = one.undo(&server).expect("undone").join("\n");
    assert_contains!(lines, &format!("request {request} ran at the same time"));
    assert_eq!(covered_files(&one.work()).len(), 0);
}

#[tokio::test]
async fn snapshots_that_fill_their_half_push_out_the_oldest_and_keep_what_others_need() {
    let this = SnapshotFixture::with_trash_of(1 << 20);
    let mut held = vec![random_bytes(100_000)];
    fs::write(this.work().join("big"), &held[0]).expect("written");
    let mut requests = Vec::new();
    for number in 1..10_usize {
        let mut bytes = held[0].clone();
        bytes.rotate_left(number * 1_000);
        fs::write(this.dir.path().join("next"), &bytes).expect("written");
        requests.push(this.run_command("cp ../next big").await);
        held.push(bytes);
    }
    let refused = this
        .undo(&requests[0])
        .expect_err("its backups were deleted");
    assert_contains!(refused, "its backups were deleted");
    let mut undone = 0;
    for (number, request) in requests.iter().enumerate().rev() {
        match this.undo(request) {
            Ok(_) => assert!(fs::read(this.work().join("big")).expect("there") == held[number]),
            Err(refused) => {
                assert_contains!(refused, "nothing is kept of request");
                break;
            }
        }
        undone += 1;
    }
    assert!((2..8).contains(&undone), "{undone}");
    let stored: u64 = covered_files(&this.dir.path().join("home/state/trash/snapshots/contents"))
        .values()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    assert!(stored <= 1 << 19, "{stored}");
}

#[tokio::test]
async fn what_snapshots_take_counts_for_file_tools_at_once() {
    let this = SnapshotFixture::with_trash_of(1 << 20);
    let path = this.work().join("file");
    let intent = [CallIntent::File {
        path: path.display().to_string(),
        before: None,
        after: None,
        executable: None,
        temp: String::new(),
    }];
    let keep = async |request: &RequestId| {
        this.images
            .save_before_images(request, "Write", &intent)
            .await
    };
    fs::write(&path, "small").expect("written");
    assert!(keep(&RequestId::new()).await.is_empty());
    let big = random_bytes(200_000);
    fs::write(this.work().join("big"), &big).expect("written");
    let oldest = this.run_command("tac big > next; mv next big").await;
    fs::write(&path, random_bytes(700_000)).expect("written");
    assert!(keep(&RequestId::new()).await.is_empty());
    let refused = this.undo(&oldest).expect_err("its backups were deleted");
    assert_contains!(refused, "its backups were deleted");
    let stored: u64 = covered_files(&this.dir.path().join("home/state/trash"))
        .values()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    assert!(stored <= 1 << 20, "{stored}");
}

#[tokio::test]
async fn ignored_text_is_stored_up_to_a_limit_and_never_at_the_cost_of_other_files() {
    const LENGTH: usize = 60_000;
    let write_logs = |this: &SnapshotFixture| {
        fs::write(this.work().join(".gitignore"), "*.log\n").expect("written");
        fs::write(this.work().join("file"), random_bytes(LENGTH)).expect("written");
        let random = random_bytes(LENGTH / 2);
        let mut text: Vec<u8> = random
            .iter()
            .flat_map(|byte| format!("{byte:02x}").into_bytes())
            .collect();
        for number in 0..300 {
            text.rotate_left(100);
            fs::write(this.work().join(format!("{number:03}.log")), &text).expect("written");
        }
    };
    let this = SnapshotFixture::new();
    write_logs(&this);
    let request = this.run_command("rm *.log; echo new > file").await;
    this.undo(&request).expect("undone");
    assert_eq!(
        fs::metadata(this.work().join("file")).expect("there").len(),
        60_000
    );
    let back = this.shell("ls | grep -c log").parse::<usize>();
    assert_eq!(back.expect("a number"), (16 << 20) / LENGTH);
    // Half of this trash has no room for the logs.
    let small = SnapshotFixture::with_trash_of(1 << 20);
    write_logs(&small);
    let request = small.run_command("rm *.log; echo new > file").await;
    small.undo(&request).expect("undone");
    assert_eq!(
        fs::metadata(small.work().join("file"))
            .expect("there")
            .len(),
        60_000
    );
}

#[tokio::test]
async fn an_ignored_file_comes_back_as_it_was_when_the_command_removed_it() {
    let this = SnapshotFixture::new();
    fs::write(this.work().join(".gitignore"), ".env\n").expect("written");
    fs::write(this.work().join(".env"), "old\n").expect("written");
    this.run_command("true").await;
    fs::write(this.work().join(".env"), "newer\n").expect("written");
    let request = this.run_command("rm .env").await;
    this.undo(&request).expect("undone");
    assert_eq!(this.text(".env"), "newer\n");
}

#[tokio::test]
async fn a_full_disk_stops_no_command_and_is_not_filled_by_snapshots() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(dir.path().join("disk"), 8) else {
        return;
    };
    let this = SnapshotFixture::new();
    let home = disk.at.join("home");
    let home = home.to_str().expect("text");
    for number in 0..10 {
        let mut bytes = random_bytes(1 << 20);
        bytes.rotate_left(number);
        fs::write(this.work().join(format!("big{number}")), bytes).expect("written");
    }
    let small = this.beside(home);
    let request = small.run_command("echo x > y").await;
    let refused = small.undo(&request).expect_err("no room");
    assert_contains!(refused, "or on its disk");
    let free = rustix::fs::statvfs(&disk.at).expect("there");
    assert!(
        free.f_bavail * free.f_frsize > 3 << 20,
        "the snapshots leave space on the disk"
    );
    this.shell("rm big*");
    // The runner does this hourly.
    small.trash.apply_limits().expect("applied");
    let request = small.begin_command().await.expect("begun");
    this.shell("echo new > y");
    disk.fill();
    let cause = small.ends(&request).await.expect_err("no room");
    assert_contains!(cause, "No space left");
    let cause = small.begin_command().await.expect_err("no room");
    assert_contains!(cause, "No space left");
    disk.empty();
    let refused = small.undo(&request).expect_err("not recorded");
    assert_contains!(refused, "nothing is kept of request");
    let request = small.run_command("echo newer > y").await;
    small.undo(&request).expect("undone");
    assert_eq!(this.text("y"), "new\n");
}

#[tokio::test]
#[ignore = "slow: `.ci/run` runs it"]
async fn a_repository_of_sixty_thousand_files_is_counted_and_told_once() {
    let this = SnapshotFixture::new();
    this.git(
        "git init -q .; for d in $(seq 600); do mkdir d$d; (cd d$d; seq 100 | xargs touch); done; git add .; \
         git commit -qm all",
    );
    let request = this.run_command("touch z").await;
    let [remark] = &this.images.take_remarks()[..] else {
        panic!("one remark about the number of files");
    };
    assert_contains!(remark, "more than 50000 files");
    let refused = this.undo(&request).expect_err("not covered");
    assert_contains!(refused, "more than 50000 files");
    let stored = "find ../home/state/trash/snapshots/contents -type f | wc -l";
    assert_eq!(this.shell(stored), "0", "nothing was stored");
    this.run_command("touch d600/new; rm d1/1").await;
    assert_eq!(
        this.images.take_remarks(),
        [""; 0],
        "the remark is made once"
    );
    // A command leaves fewer files than the limit.
    this.run_command("rm -rf d1*").await;
    let request = this.run_command("echo new > d600/1; rm d600/2").await;
    this.undo(&request).expect("covered");
    assert_eq!(this.text("d600/1") + &this.text("d600/2"), "");
}

#[tokio::test]
async fn odd_files_that_were_there_before_are_put_back_or_named() {
    let this = SnapshotFixture::new();
    let work = this.work();
    fs::create_dir(this.dir.path().join("outside")).expect("made");
    fs::write(this.dir.path().join("outside/file"), "old").expect("written");
    symlink(this.dir.path().join("outside"), work.join("out")).expect("linked");
    symlink(work.join("loop"), work.join("loop")).expect("linked");
    let odd = work.join(std::ffi::OsStr::from_bytes(b"bytes\xff"));
    fs::write(&odd, "old").expect("written");
    let socket = UnixListener::bind(work.join("socket")).expect("bound");
    this.shell("mkfifo fifo; truncate -s 50G sparse; mkdir -p deep/empty");
    let commands = "printf new > $'bytes\\xff'; echo new > out/file; rm out fifo socket loop; mkdir out; echo x > out/file; \
                    echo x > fifo; echo x >> sparse; mv deep $'deep\\xfe'";
    let request = this.run_command(commands).await;
    let lines = this.undo(&request).expect("undone").join("\n");
    for name in ["fifo", "socket", "sparse"] {
        let words = format!("{name}: what it was before is not kept");
        assert_contains!(lines, &words);
    }
    assert_eq!(fs::read(&odd).expect("there"), b"old");
    let target = fs::read_link(work.join("out")).expect("a link");
    assert_eq!(target, this.dir.path().join("outside"));
    assert!(work.join("loop").is_symlink() && work.join("deep/empty").is_dir());
    assert_eq!(
        this.text("out/file"),
        "new\n",
        "a file outside of the workspaces is not put back"
    );
    drop(socket);
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_keeps_no_snapshot_from_being_taken() {
    let this = SnapshotFixture::new();
    fs::write(this.work().join("calm"), "old").expect("written");
    let busy = this.work().join("busy");
    let is_over = Arc::new(AtomicBool::new(false));
    let path = busy.clone();
    let is_ended = Arc::clone(&is_over);
    let writer = std::thread::spawn(move || {
        let mut byte = 0_u8;
        while !is_ended.load(Ordering::Relaxed) {
            fs::write(&path, vec![byte; 1 << 20]).expect("written");
            byte = byte.wrapping_add(1);
        }
    });
    let request = this.run_command("echo new > calm").await;
    is_over.store(true, Ordering::Relaxed);
    writer.join().expect("ended");
    if let Err(refused) = this.undo(&request) {
        assert_contains!(refused, "busy was changed since");
        fs::remove_file(&busy).expect("removed");
        fs::write(this.work().join("calm"), "old").expect("written");
    }
    assert_eq!(this.text("calm").trim(), "old");
    // Torn content of a file is not taken for the content before the next command.
    fs::write(&busy, "old").expect("written");
    let request = this.run_command("echo new > busy").await;
    this.undo(&request).expect("undone");
    assert_eq!(this.text("busy"), "old");
}

#[test]
fn folders_that_cannot_be_read_are_left_out() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/file", "old\n");
    for (folder, mode) in [("closed", 0o000), ("names", 0o444), ("shut", 0o755)] {
        owner.write(&format!("work/{folder}/file"), "kept\n");
        owner.set_mode(&format!("work/{folder}"), mode);
    }
    // Without these capabilities, file modes apply to root as well.
    let without = ["--bounding-set=-dac_override,-dac_read_search"];
    let runs = |command: &str| {
        let mut setpriv = Command::new("setpriv");
        let args = serde_json::json!({ "command": command }).to_string();
        let said =
            run_command(owner.instead(setpriv.args(without), &["call", "Bash", &args, "--json"]));
        let answer: serde_json::Value = serde_json::from_str(&said.out).expect(&said.err);
        answer["requestId"].as_str().expect("an id").to_owned()
    };
    let request = runs("echo new > file");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/file"), "old\n");
    let request = runs("echo new > file; chmod 000 shut");
    owner.assert_undo_refused(&request, "it cannot be read");
    assert_eq!(
        owner.read("work/file"),
        "new\n",
        "a refused undo changes nothing"
    );
    fs::rename(owner.path("work/shut"), owner.path("moved")).expect("moved");
    owner.undo_request(&request);
    assert_eq!(
        [owner.read("work/file"), owner.read("work/shut/file")],
        ["old\n", "kept\n"]
    );
}

#[tokio::test]
async fn a_first_commit_and_a_stash_are_named_with_the_way_back() {
    let this = SnapshotFixture::new();
    this.git("git init -q -b main; echo old > file");
    let request = this
        .run_command(&format!(
            "{GIT} echo new > file; git add .; git commit -qm first; git branch side"
        ))
        .await;
    let lines = this.undo_with_refs(&request);
    assert_contains!(lines, "refs/heads/side was moved");
    assert_eq!(this.git("git for-each-ref"), "");
    assert_eq!(this.text("file"), "old\n");
    this.git("git add .; git commit -qm again");
    for stashed in 1..3 {
        this.shell(&format!("echo edited {stashed} > file"));
        let before = this.git("git for-each-ref");
        let request = this
            .run_command(&format!("{GIT} git stash -q; git checkout -q --detach"))
            .await;
        assert_eq!(this.text("file"), "old\n");
        let lines = this.undo_with_refs(&request);
        assert_contains!(lines, "refs/stash was moved"; "{stashed}");
        assert_eq!(this.text("file"), format!("edited {stashed}\n"));
        assert_eq!(this.git("git for-each-ref"), before);
        assert_eq!(this.git("git symbolic-ref HEAD"), "refs/heads/main");
        // The next round begins with a stash.
        this.git("git stash -q");
    }
}

#[tokio::test]
async fn what_a_repository_loses_for_good_is_no_loss_to_the_snapshots() {
    let this = SnapshotFixture::new();
    this.git(
        "git init -q -b main; echo old > file; git add .; git commit -qm first; echo older > file",
    );
    let request = this
        .run_command(&format!("{GIT} echo new > file; git commit -qa --amend -m other; git reflog expire --expire=now --all; \
                        git gc -q --prune=now"))
        .await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_contains!(lines, "refs/heads/main was moved");
    assert_eq!(this.text("file"), "older\n");
    // Packing refs moves no ref.
    let request = this
        .run_command(&format!("{GIT} git gc -q --prune=now; echo x > made"))
        .await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_lacks!(lines, "was moved");
    let request = this.run_command("rm -rf .git; echo x > file").await;
    let lines = this.undo(&request).expect("undone").join("\n");
    assert_contains!(lines, ".git: the request removed it");
    assert_lacks!(lines, "was moved");
    assert_eq!(this.text("file"), "older\n");
}

#[tokio::test]
async fn tracked_files_are_covered_in_every_kind_of_repository() {
    const FILL: &str = "echo ignored > .gitignore; echo t > ignored; git add -f ignored";
    for init in [
        "git init -q -b main --object-format=sha256",
        "git init -q -b main; git config index.version 4",
        // The folder is a linked working tree.
        "git init -q -b first ../main; cd ../main; git commit -q --allow-empty -m m; git worktree add -q -b main ../work; cd ../work",
    ] {
        let this = SnapshotFixture::new();
        this.git(&format!("{init}; {FILL}"));
        let request = this
            .run_command(&format!(
                "{GIT} echo new > ignored; echo new > made; git commit -qm new"
            ))
            .await;
        let lines = this.undo_with_refs(&request);
        assert_contains!(lines, "refs/heads/main was moved"; "{init}");
        assert_eq!(this.text("ignored"), "t\n", "{init}: {lines}");
        assert!(!this.work().join("made").exists(), "{init}");
    }
}

#[tokio::test]
async fn a_submodule_is_covered_as_plain_files() {
    let this = SnapshotFixture::new();
    this.git("git init -q -b main ../lib; cd ../lib; echo f > .gitignore; echo old > f; echo old > g; git add -f .; git commit -qm l
              cd ../work; git init -q -b main; git -c protocol.file.allow=always submodule --quiet add ../lib sub 2>/dev/null
              git commit -qm s");
    assert_eq!(this.text("sub/f"), "old\n");
    let head = this.git("git -C sub rev-parse HEAD");
    let request = this
        .run_command(&format!(
            "{GIT} cd sub; echo new > f; rm g; git commit -qam new; cd ..; rm .gitmodules"
        ))
        .await;
    this.undo(&request).expect("undone");
    assert_eq!([this.text("sub/f"), this.text("sub/g")], ["old\n", "old\n"]);
    assert!(Path::new(&this.work().join(".gitmodules")).exists());
    // The submodule's own repository is not put back.
    assert_ne!(this.git("git -C sub rev-parse HEAD"), head);
}
