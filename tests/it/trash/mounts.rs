//! A workspace and a trash that are two mounts for a command. The kernel does not rename between mounts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::border::folder_state;
use super::commands::{build_tree, read_tree};
use super::{OwnerFixture, run_command};

/// Waits until a command of the runner has written a file.
fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "{}",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a line in the workspace. Each of the two folders is a mount, and the shims are first on the PATH.
fn run_between_mounts(owner: &OwnerFixture, terms: &str, line: &str) {
    let script = "mount --bind \"$1\" \"$1\" && mount --bind \"$2\" \"$2\" && cd \"$1\" || exit 99\n\
                  ! ln file \"$2/linked\" 2>/dev/null || exit 98\n";
    let mut command = Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", &format!("{script}{line}"), "sh"])
        .arg(owner.path("work"))
        .arg(owner.path("home/state/trash/incoming"))
        .env_clear()
        .env("PUNIE_TRASH", terms.trim())
        .env(
            "PATH",
            format!(
                "{}:/usr/sbin:/usr/bin:/sbin:/bin",
                owner.path("home/state/trash/programs").display()
            ),
        );
    let end = run_command(&mut command);
    assert!(end.code == 0 && end.err.is_empty(), "{line}: {end:?}");
}

/// Returns the inodes of the entries in the folders of `incoming`.
fn inodes_in_trash(owner: &OwnerFixture) -> Vec<u64> {
    let folders = fs::read_dir(owner.path("home/state/trash/incoming")).expect("there");
    let items = folders
        .flat_map(|folder| fs::read_dir(folder.expect("an entry").path()).expect("a folder"));
    items
        .map(|item| item.expect("an entry").metadata().expect("there").ino())
        .collect()
}

#[test]
fn what_is_on_another_mount_than_the_trash_is_moved_by_the_runner_or_else_copied() {
    let owner = OwnerFixture::new();
    build_tree(&owner.path("work/folder"));
    build_tree(&owner.path("work/later"));
    owner.write("work/file", "file\n");
    let before = (
        folder_state(&owner.path("work")),
        read_tree(&owner.path("work/folder")),
    );
    let inodes = ["folder", "file", "later"].map(|name| {
        fs::metadata(owner.path("work").join(name))
            .expect(name)
            .ino()
    });
    let line =
        "echo \"$PUNIE_TRASH\" > .new; mv .new terms; until [ -e stop ]; do sleep 0.05; done";
    let args = json!({ "command": line }).to_string();
    let mut runner = owner
        .command(&["call", "Bash", &args])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    wait_for(&owner.path("work/terms"));
    let terms = owner.read("work/terms");
    run_between_mounts(&owner, &terms, "rm -r folder && rm file");
    let moved = inodes_in_trash(&owner);
    assert!(
        moved.contains(&inodes[0]) && moved.contains(&inodes[1]),
        "{moved:?}, {inodes:?}"
    );
    owner.write("work/stop", "");
    assert!(runner.wait().expect("ended").success());
    // The runner has ended and moves nothing any more.
    owner.write("work/file", "");
    run_between_mounts(&owner, &terms, "rm -r later");
    assert!(!owner.path("work/later").exists() && !inodes_in_trash(&owner).contains(&inodes[2]));
    for name in ["file", "stop", "terms"] {
        fs::remove_file(owner.path("work").join(name)).expect(name);
    }
    let terms: Value = serde_json::from_str(&terms).expect("JSON");
    owner.undo_request(terms["request"].as_str().expect("an id"));
    let after = (
        folder_state(&owner.path("work")),
        read_tree(&owner.path("work/folder")),
    );
    assert_eq!(after, before);
}
