//! The limits of the trash: its size, and the time for which it stores files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::OwnerFixture;

#[test]
fn w53_the_oldest_goes_when_the_trash_is_full() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    let mut requests = Vec::new();
    for name in ["a", "b", "c"] {
        owner.write(&format!("work/{name}"), name.repeat(400 << 10));
        requests.push(owner.writes(name, "small\n"));
    }
    owner.is_refused(&requests[0], "nothing is kept of request");
    owner.undo_request(&requests[2]);
    owner.undo_request(&requests[1]);
    assert_eq!(owner.read("work/b"), "b".repeat(400 << 10));
}

#[test]
fn what_does_not_fit_is_changed_and_removed_all_the_same_after_saying_so() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    owner.write("work/big", "x".repeat(2 << 20));
    owner.write("work/target/built", "x".repeat(200 << 10));
    owner.write("work/src/written", "x".repeat(200 << 10));
    let (_, answer) = owner.calls("Write", &json!({"file_path": "big", "content": "small\n"}));
    assert!(
        answer.to_string().contains("does not fit into the trash"),
        "{answer}"
    );
    owner.write("work/big", "x".repeat(2 << 20));
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -r big target src"}));
    let text = answer.to_string();
    assert!(
        text.contains("rm: 'big' and what follows is over") && text.contains("removed for good"),
        "{text}"
    );
    assert_eq!(fs::read_dir(owner.path("work")).expect("there").count(), 0);
    owner.undo_request(&request);
    let back: Vec<_> = fs::read_dir(owner.path("work"))
        .expect("there")
        .map(|e| e.expect("one").file_name())
        .collect();
    assert!(
        back.contains(&"src".into()) && !back.contains(&"big".into()),
        "{back:?}"
    );
    assert!(
        !owner.path("work/target/built").exists(),
        "generated files get an eighth of the trash"
    );
}

#[test]
fn of_a_tree_that_is_too_large_what_fits_is_kept_and_what_can_be_made_again_is_not_divided() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    owner.write("work/project/large.bin", "x".repeat(2 << 20));
    for n in 0..40 {
        owner.write(&format!("work/project/src/deep/{n}.rs"), format!("{n}\n"));
        owner.write(
            &format!("work/project/node_modules/{n}/a.js"),
            "x".repeat(8 << 10),
        );
    }
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -rf project"}));
    let text = answer.to_string();
    assert_eq!(text.matches("removed for good").count(), 1, "{text}");
    assert!(!owner.path("work/project").exists());
    let incoming = owner.path("home/state/trash");
    let lines = read_manifests(&incoming)
        .matches("\"kind\":\"removed\"")
        .count();
    assert_eq!(lines, 1, "the sources were moved in one step");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/project/src/deep/39.rs"), "39\n");
    assert!(
        !owner.path("work/project/large.bin").exists()
            && !owner.path("work/project/node_modules").exists()
    );
}

#[test]
fn what_counts_is_what_is_taken_on_the_disk_and_only_of_what_went() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    for folder in ["a", "b", "c", "d"] {
        for n in 0..50 {
            owner.write(&format!("work/many/{folder}/{n}"), "x\n");
        }
    }
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -rf many"}));
    assert!(
        answer.to_string().contains("removed for good"),
        "small files count with their space on the disk: {answer}"
    );
    owner.types(&["call", "Bash", r#"{"command":"true"}"#]);
    owner.undo_request(&request);
    let files = |folder: &str| {
        let entries = fs::read_dir(owner.path(&format!("work/many/{folder}")));
        entries.map_or(0, Iterator::count)
    };
    let back: usize = ["a", "b", "c", "d"].into_iter().map(files).sum();
    assert!(
        (100..200).contains(&back),
        "as much as fits comes back: {back} of 200"
    );
    fs::remove_dir_all(owner.path("work/many")).expect("there");
    // The workspace itself cannot be moved. Its entries are moved instead, and each counts once.
    for name in ["first", "second"] {
        owner.write(&format!("work/{name}"), name.repeat(25 << 10));
    }
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -rf \"$PWD\""}));
    assert!(!answer.to_string().contains("for good"), "{answer}");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/second"), "second".repeat(25 << 10));
}

#[test]
fn what_is_divided_leaves_the_room_of_what_goes_whole_and_names_of_one_file_count_once() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    for n in 0..5 {
        owner.write(&format!("work/a/{n}"), "x".repeat(150 << 10));
    }
    owner.write("work/b/one", "x".repeat(400 << 10));
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -r a b"}));
    assert!(answer.to_string().contains("removed for good"), "{answer}");
    owner.types(&["call", "Bash", r#"{"command":"true"}"#]);
    owner.undo_request(&request);
    assert_eq!(owner.read("work/b/one").len(), 400 << 10);
    for name in ["c", "d"] {
        owner.write(&format!("work/linked/{name}"), name.repeat(300 << 10));
        let other = owner.path(&format!("work/linked/{name}-too"));
        fs::hard_link(owner.path(&format!("work/linked/{name}")), other).expect("linked");
    }
    let (request, answer) = owner.calls("Bash", &json!({"command": "rm -r linked"}));
    assert!(
        answer.to_string().contains("removed for good"),
        "two files of 300 KiB do not fit together: {answer}"
    );
    owner.types(&["call", "Bash", r#"{"command":"true"}"#]);
    owner.undo_request(&request);
    assert_eq!(
        fs::read_dir(owner.path("work/linked"))
            .expect("there")
            .count(),
        1
    );
}

#[test]
fn a_folder_that_went_and_came_again_hides_what_came_with_it() {
    let owner = OwnerFixture::new();
    owner.write("work/keep", "kept\n");
    fs::create_dir(owner.path("work/e")).expect("made");
    let remade = "rm keep; rmdir e; mkdir e; touch e/x; rm -r e; mkdir e";
    let (request, _) = owner.calls("Bash", &json!({"command": remade}));
    owner.undo_request(&request);
    assert_eq!(owner.read("work/keep"), "kept\n");
    assert_eq!(
        fs::read_dir(owner.path("work/e")).expect("there").count(),
        0
    );
}

/// Reads every manifest below a folder.
fn read_manifests(folder: &Path) -> String {
    let below = |entry: fs::DirEntry| {
        let path = entry.path();
        match entry.file_type().expect("known") {
            kind if kind.is_dir() => read_manifests(&path),
            _ if path.ends_with("manifest.jsonl") => fs::read_to_string(&path).expect("text"),
            _ => String::new(),
        }
    };
    fs::read_dir(folder)
        .expect("there")
        .map(|entry| below(entry.expect("one")))
        .collect()
}

#[test]
fn a_trash_that_cannot_be_written_stops_no_write_and_the_answer_says_that_it_cannot_be_undone() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "old\n");
    owner.types(&["call", "Bash", r#"{"command":"true"}"#]);
    // As on a full disk, the lock file cannot be opened for writing.
    std::os::unix::fs::symlink("/dev/full/none", owner.path("home/state/trash/lock"))
        .expect("linked");
    let (_, answer) = owner.calls("Write", &json!({"file_path": "a.txt", "content": "new\n"}));
    assert!(answer.to_string().contains("cannot be undone"), "{answer}");
    assert_eq!(owner.read("work/a.txt"), "new\n");
}

#[test]
fn with_no_room_at_all_nothing_is_kept_and_nothing_is_said() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(0);
    owner.write("work/a.txt", "old\n");
    let (request, answer) =
        owner.calls("Write", &json!({"file_path": "a.txt", "content": "new\n"}));
    assert!(!answer.to_string().contains("undone"), "{answer}");
    let (_, answer) = owner.calls("Bash", &json!({"command": "type -P rm; rm a.txt"}));
    assert!(
        !answer.to_string().contains("state/trash") && !owner.path("work/a.txt").exists(),
        "{answer}"
    );
    owner.is_refused(&request, "nothing is kept of request");
}

#[test]
fn no_command_pushes_out_what_file_tools_changed_by_sparse_files_or_forged_numbers() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    owner.write("work/a.txt", "old\n");
    let request = owner.writes("a.txt", "new\n");
    let forged = format!(
        "d={}/forged.1; mkdir $d; printf '%s\\n' '{}' '{}' > $d/manifest.jsonl; echo x > $d/1",
        owner.path("home/state/trash/incoming").display(),
        json!({"kind": "begun", "request": request, "tool": "rm", "at_ms": 1}),
        json!({"kind": "removed", "path": "/x", "item": "1", "files": 1, "bytes": 1_u64 << 60}),
    );
    for command in [
        "truncate -s 10G sparse; rm sparse",
        forged.as_str(),
        "head -c 400K /dev/zero > f; rm f",
    ] {
        for _ in 0..3 {
            owner.types(&["call", "Bash", &json!({"command": command}).to_string()]);
        }
        owner.types(&["call", "Bash", &json!({"command": "true"}).to_string()]);
    }
    // The next write needs room in the trash, so the trash applies its limits.
    owner.write("work/b.txt", "b".repeat(300 << 10));
    let second = owner.writes("b.txt", "small\n");
    let listed = owner.types(&["trash", "list"]);
    assert!(
        listed.out.contains(&request[..8]) && listed.out.contains(&second[..8]),
        "{listed:?}"
    );
    owner.undo_request(&second);
    let kept = fs::read_dir(owner.path("home/state/trash/objects"))
        .expect("there")
        .count();
    assert_eq!(kept, 2, "both before-images are there");
}

#[test]
fn what_was_made_in_the_place_of_what_went_for_good_does_not_come_back_as_that() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(1);
    owner.write("work/target/theirs", "x".repeat(2 << 20));
    let command = "rm -rf target; mkdir target; echo made > target/ours; rm -rf target; rm kept";
    owner.write("work/kept", "kept\n");
    let (request, answer) = owner.calls("Bash", &json!({"command": command}));
    assert!(answer.to_string().contains("removed for good"), "{answer}");
    let said = owner.types(&["undo", &request]);
    for words in ["target: nothing of it is kept", "left in the trash"] {
        assert!(said.out.contains(words), "{said:?}");
    }
    assert!(!owner.path("work/target").exists());
    assert_eq!(owner.read("work/kept"), "kept\n");
    // Without other removals there is nothing to undo, and the refusal names the lost folder.
    owner.write("work/target/theirs", "x".repeat(2 << 20));
    let (request, _) = owner.calls("Bash", &json!({"command": "rm -rf target"}));
    owner.is_refused(&request, "target: nothing of it is kept");
}

#[test]
fn a_command_looks_at_a_bounded_part_of_what_others_left_and_removes_it() {
    let owner = OwnerFixture::new();
    owner.write("work/a.txt", "old\n");
    owner.runs("true");
    let incoming = owner.path("home/state/trash/incoming");
    let count = || fs::read_dir(&incoming).expect("there").count();
    for n in 0..5_000 {
        fs::create_dir(incoming.join(format!("foreign-{n}"))).expect("made");
    }
    for left in [4_000, 3_000] {
        owner.runs("true");
        assert_eq!(count(), left);
    }
    let (request, ..) = owner.runs("rm a.txt");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/a.txt"), "old\n");
    assert_eq!(count(), 0);
}

#[test]
fn emptying_the_trash_removes_what_no_shim_put_there() {
    let owner = OwnerFixture::new();
    owner.write("work/kept/file", "kept\n");
    owner.runs("true");
    let incoming = owner.path("home/state/trash/incoming");
    for n in 0..5_000 {
        fs::create_dir(incoming.join(format!("foreign-{n}"))).expect("made");
    }
    fs::write(incoming.join("foreign-1/manifest.json"), "x").expect("written");
    fs::write(incoming.join("foreign-2/manifest.jsonl"), "x").expect("written");
    fs::create_dir_all(incoming.join("taken/full")).expect("made");
    fs::write(incoming.join("taken/manifest.jsonl"), "x").expect("written");
    fs::create_dir_all(owner.path("home/state/trash/removed/taken/full")).expect("made");
    fs::write(incoming.join("file"), "x").expect("written");
    symlink(owner.path("work/kept"), incoming.join("link")).expect("linked");
    fs::create_dir(incoming.join(".hidden")).expect("made");
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_mins(2);
    let hidden = fs::File::open(incoming.join(".hidden")).expect("there");
    hidden.set_modified(earlier).expect("set");
    let emptied = owner.types(&["trash", "empty", "--yes"]);
    assert_eq!(emptied.code, 0, "{emptied:?}");
    for folder in ["incoming", "doomed", "removed"] {
        let left = fs::read_dir(owner.path("home/state/trash").join(folder));
        assert_eq!(left.expect("there").count(), 0, "{folder}");
    }
    assert_eq!(owner.read("work/kept/file"), "kept\n");
}
