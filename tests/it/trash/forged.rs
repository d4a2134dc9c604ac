//! Manifests that commands forge: they may write in the folder for removed files, and name any request.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::OwnerFixture;

/// Shell code that puts the folder of its command's trash in `$d`. [`REQUEST`] puts the request in `$r` and its proof
/// in `$p`.
pub(super) const FOLDER: &str = r#"d=$(echo "$PUNIE_TRASH" | sed 's/.*"into":"\([^"]*\).*/\1/')"#;
pub(super) const REQUEST: &str = r#"r=$(echo "$PUNIE_TRASH" | sed 's/.*"request":"\([^"]*\)".*/\1/'); p=$(echo "$PUNIE_TRASH" | sed 's/.*"proof":"\([^"]*\)".*/\1/')"#;

/// Returns a command that writes a manifest as if another request had made the change in this line.
fn forged_manifest(request: &str, line: &str) -> String {
    let begun = json!({"kind": "begun", "request": request, "tool": "rm", "at_ms": 1});
    let line = line.replace('"', "\\\"");
    format!(
        r#"{FOLDER}; mkdir $d/forged; printf '%s\n' '{begun}' "{line}" > $d/forged/manifest.jsonl"#
    )
}

#[test]
fn a_forged_manifest_leads_nowhere_outside_of_the_workspaces() {
    let owner = OwnerFixture::new();
    owner.write("work/own.txt", "x\n");
    let (request, code, _) = owner.runs(&format!(
        "{FOLDER}; {REQUEST}; f=$d/$r.forged; mkdir \"$f\"; \
         echo evil > \"$f/1\"; printf '{{\"kind\":\"begun\",\"request\":\"%s\",\"tool\":\"rm\",\"at_ms\":1,\"proof\":\"%s\"}}\\n\
         {{\"kind\":\"removed\",\"path\":\"%s\",\"item\":\"1\",\"files\":1,\"bytes\":1}}\\n' \"$r\" \"$p\" \"$PWD/../outside.txt\" \
         > \"$f/manifest.jsonl\"",
    ));
    assert_eq!(code, 0);
    owner.is_refused(&request, "lies in no workspace");
    assert!(!owner.path("outside.txt").exists());
}

#[test]
fn what_a_command_forges_in_the_trash_neither_holds_nor_misleads_the_runner() {
    let owner = OwnerFixture::new();
    owner.write("work/own.txt", "own\n");
    let write = owner.writes("made.txt", "made\n");
    // The manifest claims that this request made the owner's file, with the hash of the file's content.
    let line =
        r#"{"kind":"file","path":"$PWD/own.txt","after":"$(sha256sum own.txt | cut -c1-64)"}"#;
    let (_, code, text) = owner.runs(&format!(
        "{}; mkdir $d/piped; ln -s /tmp $d/linked; mkfifo $d/piped/manifest.jsonl; cat $d/forged/manifest.jsonl",
        forged_manifest(&write, line)
    ));
    assert!(code == 0 && text.contains("own.txt"), "{text}");
    owner.undo_request(&write);
    assert_eq!(owner.read("work/own.txt"), "own\n");
    assert!(!owner.path("work/made.txt").exists());
}

#[test]
fn what_a_command_says_of_another_request_does_not_keep_that_from_being_undone() {
    let owner = OwnerFixture::new();
    owner.write("work/own.txt", "own\n");
    let write = owner.writes("made.txt", "made\n");
    let line = r#"{"kind":"removed","path":"$PWD/own.txt","item":"1","files":1,"bytes":1}"#;
    let (_, code, text) = owner.runs(&format!(
        "{}; echo x > $d/forged/1",
        forged_manifest(&write, line)
    ));
    assert_eq!(code, 0, "{text}");
    owner.undo_request(&write[write.len() - 8..]);
    assert_eq!(owner.read("work/own.txt"), "own\n");
    assert!(!owner.path("work/made.txt").exists());
}

#[test]
fn what_a_command_says_of_another_request_is_not_the_last_to_undo() {
    let owner = OwnerFixture::new();
    owner.writes("made.txt", "made\n");
    let line = r#"{"kind":"removed","path":"$PWD/planted.txt","item":"1","files":1,"bytes":1}"#;
    let later =
        forged_manifest("another-request", line).replace("\"at_ms\":1", "\"at_ms\":9999999999999");
    let (_, code, text) = owner.runs(&format!("{later}; echo x > $d/forged/1"));
    assert_eq!(code, 0, "{text}");
    let listed = owner.types(&["trash", "list"]);
    assert!(listed.out.contains("planted.txt"), "{listed:?}");
    owner.undo_request("@last");
    assert!(!owner.path("work/made.txt").exists());
    assert!(!owner.path("work/planted.txt").exists());
}

#[test]
fn what_a_later_command_says_of_an_earlier_ones_request_is_no_part_of_it() {
    let owner = OwnerFixture::new();
    owner.write("work/own.txt", "own\n");
    let (request, ..) = owner.runs("rm own.txt");
    for line in [
        r#"{"kind":"removed","path":"$PWD/planted.txt","item":"1","files":1,"bytes":1}"#,
        r#"{"kind":"removed","path":"$PWD/own.txt","item":"1","files":1,"bytes":1}"#,
        r#"{"kind":"removed","path":"/etc/x","item":"1","files":1,"bytes":1}"#,
    ] {
        let (_, code, text) = owner.runs(&format!(
            "{}; echo x > $d/forged/1; mv $d/forged $d/0$RANDOM",
            forged_manifest(&request, line)
        ));
        assert_eq!(code, 0, "{text}");
    }
    owner.undo_request(&request);
    assert_eq!(owner.read("work/own.txt"), "own\n");
    assert!(!owner.path("work/planted.txt").exists());
}

#[test]
fn a_restore_follows_no_link_out_of_its_folder_whatever_a_manifest_says() {
    let owner = OwnerFixture::new();
    fs::create_dir(owner.path("outside")).expect("made");
    owner.write("work/b/one", "one\n");
    let (request, ..) = owner.runs("rm b/one; rm -r b");
    let genuine = fs::read_dir(owner.path("home/state/trash/incoming"))
        .expect("there")
        .next()
        .expect("one");
    let genuine = fs::read_to_string(genuine.expect("a folder").path().join("manifest.jsonl"))
        .expect("there");
    let genuine: serde_json::Value = genuine
        .lines()
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .expect("begun");
    // A command can write such manifests: a link at a path, and a file below that path, in either order.
    let (work, outside) = (owner.path("work"), owner.path("outside"));
    for (n, items) in [(1, ["a", "a/rc"]), (2, ["c/rc", "c"])] {
        let folder = owner.path(&format!("home/state/trash/incoming/{request}.000{n}"));
        fs::create_dir(&folder).expect("made");
        let mut lines = vec![genuine.clone()];
        for (item, path) in ["1", "2"].into_iter().zip(items) {
            if path.ends_with("rc") {
                fs::write(folder.join(item), "planted\n").expect("written");
            } else {
                symlink(&outside, folder.join(item)).expect("linked");
            }
            let path = work.join(path);
            lines.push(
                json!({"kind": "removed", "path": path, "item": item, "files": 1, "bytes": 8}),
            );
        }
        let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
        fs::write(folder.join("manifest.jsonl"), text.join("\n") + "\n").expect("written");
    }
    let to = owner.path("back");
    let said = owner.types(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    assert_eq!(
        fs::read_dir(&outside).expect("there").count(),
        0,
        "{said:?}"
    );
    let below = to.join(work.strip_prefix("/").expect("absolute"));
    assert_eq!(
        fs::read_to_string(below.join("b/one")).expect("it came"),
        "one\n",
        "{said:?}"
    );
    assert!(said.code == 0 && said.out.contains("left out"), "{said:?}");
}
