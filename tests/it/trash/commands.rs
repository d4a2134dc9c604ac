//! Files that commands remove in a workspace come back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::forged::FOLDER;
use super::{OwnerFixture, run_command};

/// Reads everything below a folder: the mode, the time and the content of each entry.
pub(super) fn read_tree(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    fn walk(top: &Path, path: &Path, all: &mut BTreeMap<PathBuf, (u32, i64, Vec<u8>)>) {
        let metadata = fs::symlink_metadata(path).expect("there");
        let holds = if metadata.is_symlink() {
            fs::read_link(path)
                .expect("a link")
                .as_os_str()
                .as_bytes()
                .to_vec()
        } else if metadata.is_file() {
            fs::read(path).expect("readable")
        } else {
            Vec::new()
        };
        let below = path.strip_prefix(top).expect("below").to_owned();
        all.insert(below, (metadata.mode(), metadata.mtime_nsec(), holds));
        if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("readable") {
                walk(top, &entry.expect("an entry").path(), all);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(folder, folder, &mut all);
    all
}

pub(super) fn build_tree(folder: &Path) {
    fs::create_dir_all(folder.join("deep/empty")).expect("made");
    fs::write(folder.join("plain.txt"), "text\n").expect("written");
    fs::write(folder.join("new\nline"), "odd\n").expect("written");
    fs::write(folder.join(OsStr::from_bytes(b"bytes\xff\xfe")), "odder\n").expect("written");
    fs::write(folder.join("deep/run.sh"), "#!/bin/sh\n").expect("written");
    fs::set_permissions(
        folder.join("deep/run.sh"),
        fs::Permissions::from_mode(0o751),
    )
    .expect("set");
    fs::set_permissions(folder.join("deep/empty"), fs::Permissions::from_mode(0o700)).expect("set");
    symlink("../plain.txt", folder.join("deep/link")).expect("linked");
    symlink("nowhere", folder.join("dangling")).expect("linked");
}

impl OwnerFixture {
    /// Runs a command; returns its request, its exit code and its output.
    pub(super) fn runs(&self, command: &str) -> (String, i64, String) {
        let said = self.types(&[
            "call",
            "Bash",
            &json!({"command": command}).to_string(),
            "--json",
        ]);
        let answer: serde_json::Value = serde_json::from_str(&said.out).expect(&said.out);
        let text = answer["result"]
            .as_str()
            .or(answer["error"].as_str())
            .unwrap_or_default()
            .to_owned();
        let code = answer["meta"]["exitCode"].as_i64().unwrap_or(-1);
        (
            answer["requestId"].as_str().expect("an id").to_owned(),
            code,
            text,
        )
    }
}

#[test]
fn w53_a_folder_that_was_removed_comes_back_byte_for_byte() {
    let owner = OwnerFixture::new();
    build_tree(&owner.path("work/folder"));
    let before = read_tree(&owner.path("work"));
    let (request, code, text) = owner.runs("rm -rf folder && ls -A");
    assert_eq!(code, 0, "{text}");
    assert!(!owner.path("work/folder").exists());
    owner.undo_request(&request);
    assert_eq!(
        read_tree(&owner.path("work/folder")),
        tree_below(&before, "folder")
    );
    owner.is_refused(&request, "was undone already");
}

fn tree_below(
    all: &BTreeMap<PathBuf, (u32, i64, Vec<u8>)>,
    name: &str,
) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    all.iter()
        .filter_map(|(path, what)| Some((path.strip_prefix(name).ok()?.to_owned(), what.clone())))
        .collect()
}

#[test]
fn everything_that_one_command_removed_comes_back_and_what_it_had_made_itself_does_not() {
    let owner = OwnerFixture::new();
    build_tree(&owner.path("work/a"));
    owner.write("work/single.txt", "single\n");
    fs::create_dir_all(owner.path("work/empty/inner")).expect("made");
    let before = read_tree(&owner.path("work"));
    let (request, code, text) = owner.runs(
        "rm a/plain.txt && unlink single.txt && rmdir -p empty/inner && rm -r a && mkdir a && touch a/mine && rm -r a",
    );
    assert_eq!(
        (code, read_tree(&owner.path("work")).len()),
        (0, 1),
        "{text}"
    );
    owner.undo_request(&request);
    let paths = |all: &BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| {
        all.iter()
            .map(|(path, (mode, _, holds))| (path.clone(), *mode, holds.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(&read_tree(&owner.path("work"))), paths(&before));
}

#[test]
fn what_was_made_again_in_a_folder_that_then_went_is_not_what_comes_back() {
    let owner = OwnerFixture::new();
    owner.write("work/build/out", "old\n");
    owner.write("work/build/kept", "kept\n");
    owner.write("work/set/sub/f", "f\n");
    owner.write("work/turned/file", "file\n");
    fs::create_dir(owner.path("work/turned/bare")).expect("made");
    let before = read_tree(&owner.path("work"));
    let (request, code, text) = owner.runs(
        "rm build/out && echo new > build/out && rm -r build && \
         rm set/sub/f && rmdir set/sub && mkdir set/sub && touch set/sub/other && rm -r set && \
         rm turned/file && mkdir -p turned/file/deep && rmdir turned/bare && echo x > turned/bare && rm -r turned",
    );
    assert_eq!(
        (code, read_tree(&owner.path("work")).len()),
        (0, 1),
        "{text}"
    );
    let held = |all: &BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| {
        all.iter()
            .map(|(path, (mode, _, holds))| (path.clone(), *mode, holds.clone()))
            .collect::<Vec<_>>()
    };
    let to = owner.path("out");
    let restored = owner.types(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let copy = to.join(owner.path("work").strip_prefix("/").expect("absolute"));
    assert_eq!(
        held(&read_tree(&copy))[1..],
        held(&before)[1..],
        "{restored:?}"
    );
    owner.undo_request(&request);
    assert_eq!(held(&read_tree(&owner.path("work"))), held(&before));
}

#[test]
fn what_is_there_again_is_not_replaced() {
    let owner = OwnerFixture::new();
    owner.write("work/a/b.txt", "old\n");
    let (request, _, _) = owner.runs("rm -rf a");
    let later = owner.writes("a/b.txt", "new\n");
    owner.is_refused(
        &request,
        &format!("is there again, by request {later} (Write): undo that one first"),
    );
    assert_eq!(owner.read("work/a/b.txt"), "new\n");
    let to = owner.path("out");
    let restored = owner.types(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let copy = to.join(
        owner
            .path("work/a/b.txt")
            .strip_prefix("/")
            .expect("absolute"),
    );
    assert_eq!(fs::read_to_string(copy).expect("copied"), "old\n");
    fs::remove_dir_all(owner.path("work/a")).expect("there");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/a/b.txt"), "old\n");
}

#[test]
fn w53_a_removal_that_was_cut_off_before_it_moved_anything_leaves_nothing_to_undo() {
    let owner = OwnerFixture::new();
    owner.write("work/a/b.txt", "old\n");
    // The test cannot add to a command's environment, so it starts the shim itself, with the variables of the command.
    let (request, _, _) = owner.runs("echo \"$PUNIE_TRASH\" > terms; printf '%s' \"$PATH\" > path");
    let shim = owner.path("home/state/trash/programs/rm");
    let mut command = std::process::Command::new(shim);
    command
        .args(["-r", "a"])
        .env_clear()
        .env("PUNIE_TRASH", owner.read("work/terms").trim())
        .env("PUNIE_FAILPOINTS", "shim.announced=kill")
        .current_dir(owner.path("work"));
    assert_eq!(run_command(&mut command).code, -1);
    assert_eq!(owner.read("work/a/b.txt"), "old\n");
    owner.is_refused(&request, "there is nothing to undo");
    assert!(
        owner.read("work/path").starts_with(
            owner
                .path("home/state/trash/programs:")
                .to_str()
                .expect("text")
        )
    );
}

#[test]
fn outside_of_the_workspaces_it_removes_as_rm_does() {
    let owner = OwnerFixture::new();
    owner.write("elsewhere/a.txt", "gone\n");
    // Commands may write in this folder.
    owner.write(
        "home/config.toml",
        format!(
            "{}[sandbox]\nwrite = [{:?}]\n",
            super::WITHOUT_SNAPSHOTS,
            owner.path("elsewhere")
        ),
    );
    owner.set_mode("home", 0o700);
    let (request, code, text) = owner.runs(&format!(
        "rm -r {}/a.txt",
        owner.path("elsewhere").display()
    ));
    assert_eq!(code, 0, "{text}");
    assert!(!owner.path("elsewhere/a.txt").exists());
    owner.is_refused(&request, "nothing is kept of request");
}

#[test]
fn an_undo_that_was_cut_off_anywhere_is_finished_by_the_next_whatever_made_room_for_what() {
    for nth in 1..=8 {
        let owner = OwnerFixture::new();
        owner.write("work/build/out", "first\n");
        owner.write("work/build/sub/deep/old", "first\n");
        owner.write("work/build/rest", "rest\n");
        owner.write("work/build/gone/old", "first\n");
        let before = read_tree(&owner.path("work/build"));
        let (request, code, text) = owner.runs(
            "rm build/out build/sub/deep/old build/gone/old; rmdir build/sub/deep build/gone; echo second > build/out; \
             mkdir build/sub/deep; echo second > build/sub/deep/new; rm -r build",
        );
        assert_eq!(code, 0, "{text}");
        let point = format!("undo.step=kill@{nth}");
        let cut = run_command(
            owner
                .command(&["undo", &request])
                .env("PUNIE_FAILPOINTS", point),
        );
        if cut.code == -1 {
            let finished = owner.types(&["undo", &request]);
            let was_all = finished.err.contains("there is nothing to undo");
            assert!(
                finished.was_undone() && nth < 6 || was_all && nth == 6,
                "{nth}: {finished:?}"
            );
            assert!(
                !finished.out.contains("nothing of it is kept"),
                "{nth}: {finished:?}"
            );
        } else {
            assert!(cut.was_undone() && nth > 6, "{nth}: {cut:?}");
        }
        let times_aside = |mut all: BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| {
            for (_, modified, _) in all.values_mut() {
                *modified = 0;
            }
            all
        };
        assert_eq!(
            times_aside(read_tree(&owner.path("work/build"))),
            times_aside(before),
            "{nth}"
        );
    }
}

#[test]
fn what_was_removed_twice_and_then_with_its_folder_comes_back_as_it_was_first_wherever_an_undo_is_cut_off()
 {
    for nth in 1..=3 {
        let owner = OwnerFixture::new();
        owner.write("work/d/s/f", "first\n");
        let before = read_tree(&owner.path("work/d"))
            .into_keys()
            .collect::<Vec<_>>();
        let (request, code, text) =
            owner.runs("rm -r d/s; mkdir d/s; echo two > d/s/g; rm -r d/s; echo x > d/y; rm -r d");
        assert_eq!(code, 0, "{text}");
        let point = format!("undo.step=kill@{nth}");
        let cut = run_command(
            owner
                .command(&["undo", &request])
                .env("PUNIE_FAILPOINTS", point),
        );
        let copied = owner.path("back");
        let restored = owner.types(&[
            "trash",
            "restore",
            &request,
            "--to",
            copied.to_str().expect("text"),
        ]);
        if cut.code == -1 && nth == 1 {
            let first = copied.join(
                owner
                    .path("work/d/s/f")
                    .strip_prefix("/")
                    .expect("absolute"),
            );
            assert_eq!(
                fs::read_to_string(first).expect("copied"),
                "first\n",
                "{restored:?}"
            );
            owner.undo_request(&request);
        }
        let mut now = read_tree(&owner.path("work/d"))
            .into_keys()
            .collect::<Vec<_>>();
        now.retain(|path| path != Path::new("y"));
        assert_eq!(now, before, "{nth}: {cut:?}");
        assert_eq!(owner.read("work/d/s/f"), "first\n");
    }
}

#[test]
fn what_a_request_removes_after_it_was_undone_can_be_undone_too() {
    let owner = OwnerFixture::new();
    owner.write("work/one", "one\n");
    owner.write("work/two", "two\n");
    let gate = owner.path("work/gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("made");
    let (request, code, text) = std::thread::scope(|scope| {
        let running = scope.spawn(|| owner.runs("rm one; read -r _ < gate; rm two"));
        // The open returns once the command opens the pipe for reading.
        let open = fs::OpenOptions::new()
            .write(true)
            .open(&gate)
            .expect("the command reads from the pipe");
        let listed = owner.types(&["trash", "list", "--json"]);
        let kept: serde_json::Value = serde_json::from_str(&listed.out).expect(&listed.out);
        owner.undo_request(kept["requestId"].as_str().expect("an id"));
        drop(open);
        running.join().expect("no panic")
    });
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        (owner.read("work/one"), owner.path("work/two").exists()),
        ("one\n".into(), false)
    );
    owner.write("work/one", "by hand\n");
    owner.undo_request(&request);
    assert_eq!(
        (owner.read("work/one"), owner.read("work/two")),
        ("by hand\n".into(), "two\n".into())
    );
    owner.is_refused(&request, "was undone already");
}

#[test]
fn undo_of_a_command_says_what_it_does_not_put_back() {
    let owner = OwnerFixture::new();
    owner.write("work/a", "a\n");
    owner.write("work/kept", "old\n");
    let (request, ..) = owner.runs("echo new > kept; rm a");
    let undone = owner.types(&["undo", &request]);
    assert!(undone.out.starts_with("Undone in part: "), "{undone:?}");
    assert!(
        undone
            .out
            .contains("are not tracked: look with `git status`"),
        "{undone:?}"
    );
    assert_eq!(
        (owner.read("work/a"), owner.read("work/kept")),
        ("a\n".to_owned(), "new\n".to_owned())
    );
    let (request, ..) = owner.runs("echo newer > kept; find . -name a -delete");
    owner.is_refused(&request, "removes in other ways than rm, are not tracked");
}

#[test]
fn a_removal_that_was_killed_and_run_again_is_one_removal() {
    let owner = OwnerFixture::new();
    let remove = |owner: &OwnerFixture| {
        owner.write("work/a", "old\n");
        let (request, _, _) = owner.runs("echo \"$PUNIE_TRASH\" > terms");
        for failpoints in ["shim.announced=kill", ""] {
            let mut shim = std::process::Command::new(owner.path("home/state/trash/programs/rm"));
            shim.arg("a")
                .env_clear()
                .env("PUNIE_TRASH", owner.read("work/terms").trim());
            let done = run_command(
                shim.env("PUNIE_FAILPOINTS", failpoints)
                    .current_dir(owner.path("work")),
            );
            assert_eq!(done.code == 0, failpoints.is_empty(), "{done:?}");
        }
        request
    };
    let request = remove(&owner);
    let undone = owner.types(&["undo", &request]);
    assert!(
        undone.was_undone() && !undone.out.contains("nothing of it is kept"),
        "{undone:?}"
    );
    assert_eq!(owner.read("work/a"), "old\n");
    let request = remove(&owner);
    owner.write("work/a", "by hand\n");
    owner.is_refused(&request, "a is there again");
    let to = owner.path("back");
    let restored = owner.types(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    let copy = to.join(owner.path("work/a").strip_prefix("/").expect("absolute"));
    assert_eq!(
        fs::read_to_string(copy).expect("copied"),
        "old\n",
        "{restored:?}"
    );
}

#[test]
fn what_programs_run_is_named_before_it_comes_back_and_no_name_forges_a_line() {
    let owner = OwnerFixture::new();
    owner.write("work/keep/file", "x\n");
    owner.write("work/x\nrequest 42 was undone\n", "x\n");
    let (request, code, text) = owner.runs(&format!(
        "rm -r keep x*; {FOLDER}; d=$(echo $d/*/); for n in 1 2; do [ -d $d/$n ] && mkdir -p $d/$n/.git/hooks && \
         echo evil > $d/$n/.git/hooks/post-commit && echo evil > $d/$n/.envrc; done; true"
    ));
    assert_eq!(code, 0, "{text}");
    let would = owner.types(&["undo", "--dry-run", &request]);
    assert!(
        would
            .out
            .contains("(3 files, 12 bytes; programs run what is in its .envrc, .git/hooks)"),
        "{would:?}"
    );
    assert!(
        would
            .out
            .contains("x\\nrequest 42 was undone\\n comes back (1 file, 2 bytes)"),
        "{would:?}"
    );
    owner.write("work/x\nrequest 42 was undone\n", "again\n");
    let refused = owner.types(&["undo", &request]);
    assert!(
        !refused.err.contains("\nrequest 42") && refused.err.contains("is there again"),
        "{refused:?}"
    );
}

#[test]
fn a_tree_deeper_than_files_may_be_open_goes_and_comes_back() {
    let owner = OwnerFixture::new();
    let deep: PathBuf = std::iter::repeat_n("d", 600).collect();
    owner.write(&format!("work/top/{}/file", deep.display()), "deep\n");
    // A folder with a `.git` cannot be moved in one step, so every folder below it is walked.
    let (request, code, text) =
        owner.runs("ulimit -Sn 256; mkdir -p top/.git && touch top/.git/config; rm -rf top; ls");
    assert_eq!(
        (code, text.contains("Too many open files")),
        (0, false),
        "{text}"
    );
    owner.undo_request(&request);
    assert_eq!(
        owner.read(&format!("work/top/{}/file", deep.display())),
        "deep\n"
    );
}

#[test]
fn a_tree_with_paths_too_long_for_the_system_goes_by_the_systems_rm_which_is_told() {
    let owner = OwnerFixture::new();
    let build = "python3 -c \"import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nopen('file', 'w')\"";
    for (around, rest) in [("top", ""), ("around/top", "; ls around")] {
        let (request, code, text) = owner.runs(&format!(
            "mkdir -p {around} && cd {around} && {build} && cd \"$OLDPWD\" && rm -rf {around}{rest}"
        ));
        let told = format!("rm: '{around}' has more folders in each other than the trash takes");
        assert!(code == 0 && text.contains(&told), "{text}");
        assert!(!owner.path(&format!("work/{around}")).exists(), "{text}");
        let undone = owner.types(&["undo", &request]);
        assert!(undone.err.contains("nothing of it is kept"), "{undone:?}");
    }
}

#[test]
fn a_deep_tree_is_divided_only_at_its_top() {
    let owner = OwnerFixture::with_a_home_far_away();
    let deep: PathBuf = std::iter::repeat_n("d", 900).collect();
    owner.write(&format!("work/top/{}/file", deep.display()), "deep\n");
    owner.write("work/top/beside", "kept\n");
    let (request, code, text) = owner.runs("rm -rf top && ls");
    let told = "rm: 'top/d' has more folders in each other than the trash takes";
    assert!(code == 0 && text.contains(told), "{text}");
    assert!(!owner.path("work/top").exists());
    owner.types(&["undo", &request]);
    assert_eq!(owner.read("work/top/beside"), "kept\n");
}

#[test]
fn ten_thousand_files_go_and_come_back() {
    let owner = OwnerFixture::new();
    for folder in 0..100 {
        let folder = owner.path("work/many").join(folder.to_string());
        fs::create_dir_all(&folder).expect("made");
        for file in 0..100 {
            fs::write(folder.join(file.to_string()), "x").expect("written");
        }
    }
    let (request, code, text) = owner.runs("rm -rf many");
    assert_eq!(code, 0, "{text}");
    let listed = owner.types(&["trash", "list", "--json"]);
    let kept: serde_json::Value = serde_json::from_str(&listed.out).expect(&listed.out);
    assert_eq!(
        (&kept["files"], &kept["bytes"]),
        (&json!(10_000), &json!(10_000)),
        "{kept}"
    );
    owner.undo_request(&request);
    assert_eq!(read_tree(&owner.path("work/many")).len(), 10_101);
}

#[test]
fn the_trash_is_emptied_only_by_a_clear_word() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "old\n");
    let request = owner.writes("a.txt", "new\n");
    let (removed, _, _) = owner.runs("rm a.txt");
    let asked = owner.types(&["trash", "empty"]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    let emptied = owner.types(&["trash", "empty", "--yes"]);
    assert!(
        emptied.code == 0 && emptied.out.contains("2 requests"),
        "{emptied:?}"
    );
    owner.is_refused(&request, "nothing is kept of request");
    owner.is_refused(&removed, "nothing is kept of request");
    assert_eq!(owner.types(&["trash", "list"]).out, "The trash is empty.\n");
    for folder in ["objects", "removed", "incoming", "doomed", "requests"] {
        let left = fs::read_dir(owner.path("home/state/trash").join(folder))
            .expect("there")
            .count();
        assert_eq!(left, 0, "{folder}");
    }
}

#[test]
fn an_undo_to_another_file_system_follows_no_link_that_is_planted_meanwhile() {
    let owner = OwnerFixture::below(Path::new("/dev/shm"));
    let home = tempfile::tempdir().expect("a folder");
    let far = fs::metadata(owner.path("work")).expect("there").dev();
    assert_ne!(
        fs::metadata(home.path()).expect("there").dev(),
        far,
        "the test needs two file systems"
    );
    fs::create_dir(owner.path("outside")).expect("made");
    for n in 0..200 {
        for file in 0..4 {
            owner.write(&format!("work/folder/{n}/{file}"), "text\n");
        }
    }
    let args = json!({"command": "rm -r folder"}).to_string();
    let call = run_command(
        owner
            .command(&["call", "Bash", &args, "--json"])
            .env("PUNIE_HOME", home.path()),
    );
    let answer: serde_json::Value = serde_json::from_str(&call.out).expect(&call.out);
    assert!(!owner.path("work/folder").exists(), "{call:?}");
    // A process at work there replaces each folder with a link as soon as the folder exists.
    let over = std::sync::atomic::AtomicBool::new(false);
    let links = std::thread::scope(|scope| {
        let planting = scope.spawn(|| {
            let mut planted = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                for top in fs::read_dir(owner.path("work"))
                    .into_iter()
                    .flatten()
                    .flatten()
                {
                    for folder in fs::read_dir(top.path()).into_iter().flatten().flatten() {
                        let path = folder.path();
                        if fs::rename(&path, owner.path(&format!("aside.{planted}"))).is_ok() {
                            let _ = symlink(owner.path("outside"), path);
                            planted += 1;
                        }
                    }
                }
            }
            planted
        });
        let request = answer["requestId"].as_str().expect("an id");
        let _ = owner
            .command(&["undo", request])
            .env("PUNIE_HOME", home.path())
            .output()
            .expect("started");
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        planting.join().expect("it plants links")
    });
    assert_ne!(links, 0, "no link was planted while the undo ran");
    assert_eq!(
        fs::read_dir(owner.path("outside")).expect("there").count(),
        0
    );
}
