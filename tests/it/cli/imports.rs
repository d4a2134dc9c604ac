//! Importing skills and agents: from folders, archives and repositories, again, after changes, and after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{CliUser, CommandOutput, run_with_input};
use crate::faults::disk::SmallDisk;
use crate::harness::program::make_program;
use crate::harness::wait::wait_until;

const HEAD: &str = "---\nname: NAME\ndescription: It does NAME.\n---\nDo it.\n";

impl CliUser {
    fn write_skill(&self, folder: &str, name: &str) {
        self.write(&format!("{folder}/SKILL.md"), &HEAD.replace("NAME", name));
    }

    /// Imports, and returns the result lines by id.
    async fn import_and_list(&self, args: &[&str]) -> BTreeMap<String, Value> {
        json_lines(&self.run_cli(&[args, &["--json"]].concat()).await)
    }

    /// Runs git with an author, as commits need one.
    fn git(&self, folder: &str, args: &[&str]) {
        let ended = Command::new("git")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com", "-C"])
            .arg(self.path(folder))
            .args(args)
            .env("HOME", self.path(""))
            .output()
            .expect("git");
        assert!(ended.status.success(), "{ended:?}");
    }
}

fn json_lines(said: &CommandOutput) -> BTreeMap<String, Value> {
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said:?}"));
        (value["id"].as_str().expect("an id").to_owned(), value)
    };
    said.out.lines().map(line).collect()
}

/// The results of an import by id.
fn import_results(lines: &BTreeMap<String, Value>) -> Vec<(&str, &str)> {
    lines
        .iter()
        .map(|(id, line)| (id.as_str(), line["result"].as_str().expect("a result")))
        .collect()
}

/// Every file below a folder with its content and mode.
fn read_tree(folder: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("there");
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            let content = match fs::read_link(&path) {
                Ok(target) => format!("-> {}", target.display()),
                Err(_) => fs::read_to_string(&path).unwrap_or_default(),
            };
            let below = path
                .strip_prefix(folder)
                .expect("below")
                .display()
                .to_string();
            found.insert(below, (meta.permissions().mode() & 0o777, content));
        }
    }
    found
}

#[tokio::test]
async fn a_folder_is_imported_with_modes_and_links_and_twice_is_the_same() {
    let user = CliUser::new();
    user.write_skill("from/pdf", "pdf");
    make_program(
        &user.path("from/pdf/scripts/run.sh"),
        "#!/bin/sh\necho ran\n",
    );
    symlink("run.sh", user.path("from/pdf/scripts/latest")).expect("a link");
    user.write_skill("from/deep/er/still/mail", "mail");
    user.write("from/deep/er/README.md", "not a skill");
    let from = user.text("from");
    let dry = user
        .import_and_list(&["skills", "import", &from, "--dry-run"])
        .await;
    assert_eq!(
        import_results(&dry),
        [("mail", "imported"), ("pdf", "imported")]
    );
    assert!(!user.path("home/skills/pdf").exists());

    let first = user.import_and_list(&["skills", "import", &from]).await;
    assert_eq!(import_results(&first), import_results(&dry));
    assert_eq!(
        read_tree(&user.path("home/skills/pdf")),
        read_tree(&user.path("from/pdf"))
    );
    let home = read_tree(&user.path("home/skills"));
    assert!(!home.keys().any(|name| name.contains("import")), "{home:?}");
    let second = user.import_and_list(&["skills", "import", &from]).await;
    assert_eq!(
        import_results(&second),
        [("mail", "unchanged"), ("pdf", "unchanged")]
    );
    assert_eq!(read_tree(&user.path("home/skills")), home);
    let list = user.run_cli(&["skills"]).await.done().out;
    assert_contains!(list, "FROM", "~/from");
    let shown = user.run_cli(&["skills", "--json"]).await.done().out;
    assert_contains!(shown, &format!(r#""from":"{from}""#));
}

#[tokio::test]
async fn an_update_replaces_what_changed_and_keeps_what_the_owner_changed() {
    let user = CliUser::new();
    for id in ["a", "b", "c", "d"] {
        user.write_skill(&format!("from/{id}"), id);
    }
    user.write_skill("home/skills/mine", "mine");
    user.write_skill("from/mine", "mine");
    user.write("from/mine/more.txt", "more");
    let from = user.text("from");
    let first = user.import_and_list(&["skills", "import", &from]).await;
    assert_eq!(first["mine"]["result"], "kept", "{first:?}");
    user.write("from/a/new.txt", "new");
    user.write("from/b/new.txt", "new");
    user.write("home/skills/b/mine.txt", "mine");
    user.write("home/skills/c/mine.txt", "mine");
    fs::remove_dir_all(user.path("from/d")).expect("removed");
    let dry = user
        .import_and_list(&["skills", "update", "--dry-run"])
        .await;
    assert!(!user.path("home/skills/a/new.txt").exists());
    let updated = user.import_and_list(&["skills", "update"]).await;
    assert_eq!(
        import_results(&updated),
        [
            ("a", "updated"),
            ("b", "kept"),
            ("c", "kept"),
            ("d", "gone")
        ]
    );
    assert_eq!(import_results(&dry), import_results(&updated));
    let note = |id: &str| updated[id]["note"].as_str().expect("a note").to_owned();
    assert_contains!(note("b"), "its source changed too; --force");
    assert!(user.path("home/skills/a/new.txt").exists());
    assert!(user.path("home/skills/b/mine.txt").exists());
    assert!(user.path("home/skills/d/SKILL.md").exists());
    let forced = user
        .import_and_list(&["skills", "update", "b", "--force"])
        .await;
    assert_eq!(import_results(&forced), [("b", "updated")]);
    assert!(!user.path("home/skills/b/mine.txt").exists());
    assert!(user.path("home/skills/c/mine.txt").exists());
    fs::remove_dir_all(user.path("from")).expect("removed");
    let gone = user.import_and_list(&["skills", "update"]).await;
    assert!(
        gone.values().all(|line| line["result"] == "gone"),
        "{gone:?}"
    );
}

#[tokio::test]
async fn the_folders_of_other_programs_are_the_default_and_the_first_comes_first() {
    let user = CliUser::new();
    user.run_cli(&["skills", "import"])
        .await
        .refused(2, ".agents/skills");
    user.write_skill(".agents/skills/shared", "shared");
    user.write_skill(".agents/skills/both", "both");
    user.write_skill(".claude/skills/both", "both");
    user.write(".claude/skills/both/other.txt", "other");
    user.write_skill(".claude/skills/own", "own");
    symlink(
        "../../.agents/skills/shared",
        user.path(".claude/skills/shared"),
    )
    .expect("a link");
    let said = user.run_cli(&["skills", "import"]).await.done();
    assert_contains!(said.out, "left out  ~/.claude/skills/both");
    assert_contains!(said.out, "4 skills: 3 imported, 1 left out.");
    assert!(!user.path("home/skills/both/other.txt").exists());

    user.write(
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep\n---\nYou review.\n",
    );
    user.write(".claude/agents/README.md", "No agent.");
    let agents = user.import_and_list(&["agents", "import"]).await;
    assert_eq!(import_results(&agents), [("reviewer", "imported")]);
    let shown = user
        .run_cli(&["agents", "show", "reviewer"])
        .await
        .done()
        .out;
    assert_eq!(shown.trim(), "You review.");
}

#[tokio::test]
async fn bad_skills_are_refused_by_name_and_stop_no_other() {
    let user = CliUser::new();
    user.write_skill("from/good", "good");
    user.write("from/broken/SKILL.md", "---\nname: [\n---\nx");
    user.write(
        "from/outside/SKILL.md",
        "---\nname: ../..\nid: ../../x\n---\nx",
    );
    user.write("from/école/SKILL.md", "---\nname: École\n---\nx");
    user.write_skill("from/كتابة", "writing");
    user.write_skill("from/leak", "leak");
    symlink("/etc/passwd", user.path("from/leak/data")).expect("a link");
    user.write_skill("from/pipe", "pipe");
    let made = Command::new("mkfifo")
        .arg(user.path("from/pipe/p"))
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let said = user
        .run_cli(&["--json", "skills", "import", &user.text("from")])
        .await
        .ended(1);
    let all = json_lines(&said);
    for (id, result, words) in [
        ("broken", "refused", "its head cannot be read"),
        ("good", "imported", ""),
        ("leak", "refused", "data is a link to /etc/passwd"),
        ("outside", "imported", "line 2: the name \"../..\""),
        ("pipe", "refused", "p is neither a file"),
        ("writing", "imported", ""),
        ("", "refused", "neither its folder's name"),
    ] {
        let line = &all[id];
        assert_eq!(line["result"], result, "{line}");
        assert_contains!(line["note"].as_str().unwrap_or_default(), words);
    }
    assert_eq!(all.len(), 7, "{all:?}");
    let own = user.text("home/skills");
    let said = user.run_cli(&["skills", "import", &own]).await.ended(1);
    assert_contains!(said.out, "in the home already");
    assert_eq!(
        fs::read_dir(user.path("home/skills"))
            .expect("there")
            .count(),
        3
    );
    assert!(!user.path("home/x").exists() && !user.path("x").exists());
}

/// A tar archive of entries: the type, the name, and the content or the target.
fn tar_archive(entries: &[(u8, &str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, name, content) in entries {
        let (size, link) = if *kind == b'0' {
            (content.len(), "")
        } else {
            (0, *content)
        };
        let mut header = [0_u8; 512];
        let mut put =
            |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, "0000755\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{size:011o}\0"));
        put(136, "00000000000\0");
        put(148, "        ");
        put(157, link);
        put(257, "ustar\x0000");
        header[156] = *kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        if size > 0 {
            bytes.extend_from_slice(content.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[tokio::test]
async fn archives_are_unpacked_or_refused_as_a_whole() {
    let user = CliUser::new();
    let skill = HEAD.replace("NAME", "packed");
    let good = [
        (b'5', "top/", ""),
        (b'0', "top/packed/SKILL.md", skill.as_str()),
        (b'0', "top/packed/run", "#!/bin/sh\n"),
        (b'2', "top/packed/link", "run"),
    ];
    fs::write(user.path("good.tar"), tar_archive(&good)).expect("written");
    let lines = user
        .import_and_list(&["skills", "import", &user.text("good.tar")])
        .await;
    assert_eq!(import_results(&lines), [("packed", "imported")]);
    let packed = read_tree(&user.path("home/skills/packed"));
    assert_eq!(packed["run"].0, 0o755);
    assert_eq!(packed["link"].1, "-> run");
    for (entry, words) in [
        ((b'0', "../out", "x"), "a name that leads out"),
        ((b'0', "a/../../out", "x"), "a name that leads out"),
        ((b'0', "/tmp/punie-out", "x"), "a name that leads out"),
        ((b'1', "hard", "/etc/passwd"), "a hard link"),
        ((b'3', "device", ""), "neither a file"),
        ((b'6', "pipe", ""), "neither a file"),
        ((b'0', "top/packed/run", "x"), "twice"),
    ] {
        let all = [&good[..], &[entry]].concat();
        fs::write(user.path("bad.tar"), tar_archive(&all)).expect("written");
        let refused = user
            .run_cli(&["--json", "skills", "import", &user.text("bad.tar")])
            .await
            .ended(1);
        assert_contains!(refused.out, words; "{entry:?}");
    }
    assert!(!user.path("out").exists() && !user.path("home/out").exists());
    // A symlink that leads out of the archive, and a file behind it.
    let through = [(b'2', "out", "/tmp"), (b'0', "out/punie-x", "x"), good[1]];
    fs::write(user.path("bad.tar"), tar_archive(&through)).expect("written");
    user.run_cli(&["--json", "skills", "import", &user.text("bad.tar")])
        .await
        .ended(1);
    assert!(!Path::new("/tmp/punie-x").exists());
    let leak = [good[1], (b'2', "top/packed/leak", "../../../secret")];
    fs::write(user.path("leak.tar"), tar_archive(&leak)).expect("written");
    let refused = user
        .run_cli(&["--json", "skills", "import", &user.text("leak.tar")])
        .await
        .ended(1);
    assert_contains!(refused.out, "outside of its folder");
    assert!(!user.path("home/state/imports").exists());

    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("zipped/SKILL.md", options).expect("begun");
    zip.write_all(HEAD.replace("NAME", "zipped").as_bytes())
        .expect("written");
    zip.start_file("zipped/run", options.unix_permissions(0o755))
        .expect("begun");
    let bytes = zip.finish().expect("a complete archive").into_inner();
    fs::write(user.path("good.zip"), &bytes).expect("written");
    let lines = user
        .import_and_list(&["skills", "import", &user.text("good.zip")])
        .await;
    assert_eq!(import_results(&lines), [("zipped", "imported")]);
    assert_eq!(read_tree(&user.path("home/skills/zipped"))["run"].0, 0o755);
    let bad = String::from_utf8_lossy(&bytes).into_owned();
    assert_contains!(bad, "zipped/run");
    let evil: Vec<u8> = replace_bytes(&bytes, b"zipped/run", b"../../evil");
    fs::write(user.path("bad.zip"), evil).expect("written");
    let refused = user
        .run_cli(&["--json", "skills", "import", &user.text("bad.zip")])
        .await
        .ended(1);
    assert_contains!(refused.out, "a name that leads out");
}

fn replace_bytes(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for at in 0..changed.len().saturating_sub(from.len()) {
        if changed[at..].starts_with(from) {
            changed[at..at + from.len()].copy_from_slice(to);
        }
    }
    changed
}

#[tokio::test]
async fn a_repository_is_cloned_without_its_programs_and_updated() {
    let user = CliUser::new();
    user.write_skill("repo/skills/cloned", "cloned");
    user.write("repo/.gitattributes", "* filter=evil\n");
    user.write(
        ".gitconfig",
        &format!(
            "[filter \"evil\"]\n\tsmudge = touch {}\n[core]\n\thooksPath = {}\n",
            user.text("ran"),
            user.text("hooks")
        ),
    );
    make_program(
        &user.path("hooks/post-checkout"),
        &format!("#!/bin/sh\ntouch {}\n", user.text("ran")),
    );
    user.git("repo", &["init", "-q"]);
    let commit = |message: &str| {
        let line = ["-c", "core.hooksPath=/dev/null", "commit", "-qm", message];
        user.git("repo", &["add", "."]);
        user.git("repo", &line);
    };
    commit("one");
    let url = format!("file://{}", user.text("repo"));
    let lines = user.import_and_list(&["skills", "import", &url]).await;
    assert_eq!(import_results(&lines), [("cloned", "imported")]);
    assert!(
        !user.path("ran").exists(),
        "a program of the repository ran"
    );
    user.write("repo/skills/cloned/more.txt", "more");
    commit("two");
    let lines = user.import_and_list(&["skills", "update"]).await;
    assert_eq!(import_results(&lines), [("cloned", "updated")]);
    assert!(user.path("home/skills/cloned/more.txt").exists());
    assert!(!user.path("home/state/imports").exists());
    let refused = user
        .run_cli(&["skills", "import", &format!("{url}-not")])
        .await
        .ended(1);
    assert_contains!(refused.out, "git cannot clone it");
}

#[tokio::test]
async fn a_kill_at_every_step_leaves_the_old_or_the_new_state() {
    for update in [false, true] {
        for point in [
            "import.fetched=kill",
            "import.copied/a=kill",
            "import.copied/b=kill",
            "import.staged=kill",
            "import.placed/a=kill",
            "import.placed/b=kill",
            "import.indexed=kill",
        ] {
            let user = CliUser::new();
            user.write_skill("from/a", "a");
            user.write_skill("from/b", "b");
            let from = user.text("from");
            let mut before = BTreeMap::new();
            if update {
                user.import_and_list(&["skills", "import", &from]).await;
                before = read_tree(&user.path("home/skills"));
                user.write("from/a/new.txt", "new");
                user.write("from/b/new.txt", "new");
            }
            let after = read_tree(&user.path("from"));
            let args = ["skills", "import", &from];
            let mut command = user.command(&args);
            command.env("PUNIE_FAILPOINTS", point);
            assert_eq!(run_with_input(command, "").await.code, -1, "{point}");
            for id in ["a", "b"] {
                let of = |all: &BTreeMap<String, (u32, String)>| {
                    let own = all
                        .iter()
                        .filter(|(name, _)| name.starts_with(&format!("{id}/")));
                    own.map(|(name, file)| (name.clone(), file.clone()))
                        .collect::<Vec<_>>()
                };
                let now = of(&read_tree(&user.path("home/skills")));
                assert!(now == of(&before) || now == of(&after), "{point}: {now:?}");
            }
            user.run_cli(&["skills"]).await.done();
            let again = user.run_cli(&args).await.done();
            assert_lacks!(again.out, "kept"; "{point}");
            let now = read_tree(&user.path("home/skills"));
            let names: Vec<&String> = now.keys().collect();
            assert_eq!(names, after.keys().collect::<Vec<_>>(), "{point}");
            let last = user.import_and_list(&["skills", "update"]).await;
            assert_eq!(
                import_results(&last),
                [("a", "unchanged"), ("b", "unchanged")],
                "{point}"
            );
        }
    }
}

#[tokio::test]
async fn a_full_disk_leaves_the_home_as_it_was() {
    let user = CliUser::new();
    let Some(disk) = SmallDisk::mount(user.path("home"), 4) else {
        return;
    };
    user.write_skill("from/a", "a");
    let from = user.text("from");
    user.import_and_list(&["skills", "import", &from]).await;
    let before = read_tree(&user.path("home/skills"));
    user.write("from/a/big.bin", &"x".repeat(100_000));
    user.write_skill("from/b", "b");
    disk.fill();
    let full = user.run_cli(&["skills", "import", &from]).await;
    assert_ne!(full.code, 0, "{full:?}");
    assert!(format!("{full:?}").contains("No space left"), "{full:?}");
    assert_eq!(
        fs::read_to_string(user.path("home/skills/a/SKILL.md")).expect("there"),
        before["a/SKILL.md"].1
    );
    assert_contains!(user.run_cli(&["skills"]).await.done().out, "\na "; "it is still listed");
    disk.empty();
    let lines = user.import_and_list(&["skills", "import", &from]).await;
    assert_eq!(
        import_results(&lines),
        [("a", "updated"), ("b", "imported")]
    );
}

#[tokio::test]
async fn a_skill_that_changes_while_it_is_read_is_read_again() {
    let user = CliUser::new();
    user.write_skill("home/skills/a", "a");
    let held = user.path("held");
    let mut command = user.command(&["skills", "show", "a"]);
    command.env(
        "PUNIE_FAILPOINTS",
        format!("home.document_opened=hold:{}@1", held.display()),
    );
    let reading = tokio::spawn(async move { run_with_input(command, "").await });
    wait_until("the skill to be opened", || held.exists()).await;
    user.write(
        "home/skills/a/SKILL.md",
        "---\nname: a\n---\nThe new text, which is longer than the one before it.\n",
    );
    fs::remove_file(&held).expect("removed");
    let shown = tokio::time::timeout(Duration::from_mins(1), reading)
        .await
        .expect("ends")
        .expect("ran");
    assert_starts_with!(shown.done().out, "The new text");
}
