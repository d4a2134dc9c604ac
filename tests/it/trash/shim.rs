//! The shims compared with the system's own programs: the same options give the same messages, exit codes and files.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{CommandEnd, OwnerFixture, run_command};

/// Returns the names of all files below a folder.
fn file_names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("there") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().expect("known").is_dir() {
            names.extend(names_below(&name, &entry.path()));
        }
        names.push(name);
    }
    names.sort();
    names
}

fn names_below(above: &str, folder: &Path) -> Vec<String> {
    file_names(folder)
        .into_iter()
        .map(|name| format!("{above}/{name}"))
        .collect()
}

/// Fills a workspace with files, folders and a link.
fn make_files(work: &Path) {
    for folder in ["full/inner", "empty", "other"] {
        fs::create_dir_all(work.join(folder)).expect("made");
    }
    for file in ["a", "b", "c", "it's", "-dash", "full/x", "full/inner/y"] {
        fs::write(work.join(file), "x").expect("written");
    }
    std::os::unix::fs::symlink("full", work.join("link")).expect("linked");
}

/// Stores the variable that the runner sets for the shims of its commands, for shims that the test starts.
fn learn_terms(owner: &OwnerFixture) {
    owner.calls(
        "Bash",
        &serde_json::json!({"command": "echo \"$PUNIE_TRASH\" > terms"}),
    );
    fs::rename(owner.path("work/terms"), owner.path("terms")).expect("the variable of the shims");
}

fn run_line(owner: &OwnerFixture, line: &str, shimmed: bool) -> (CommandEnd, Vec<String>) {
    let work = owner.path("work");
    fs::remove_dir_all(&work).expect("there");
    fs::create_dir(&work).expect("made");
    make_files(&work);
    let programs = owner.path("home/state/trash/programs");
    let path = if shimmed {
        format!("{}:/usr/bin:/bin", programs.display())
    } else {
        "/usr/bin:/bin".to_owned()
    };
    let terms = owner.read("terms");
    let mut command = Command::new("/bin/bash");
    command
        .args(["--norc", "-c", line])
        .env_clear()
        .env("PATH", path)
        .env("PUNIE_TRASH", terms.trim());
    (run_command(command.current_dir(&work)), file_names(&work))
}

/// The lines that both programs run.
const LINES: &[&str] = &[
    "rm a",
    "rm -f a missing",
    "rm missing a",
    "rm",
    "rm -f",
    "rm full",
    "rm -d empty",
    "rm -d full",
    "rm -r full",
    "rm -rf full missing a",
    "rm -v a b",
    "rm -rv empty",
    "rm -rv full/inner",
    "rm --recursive full",
    "rm --ver",
    "rm -- -dash",
    "rm -dash",
    "rm ./-dash",
    "rm a/",
    "rm -r .",
    "rm -rf ..",
    "rm -r full/.",
    "rm -rf /",
    "rm \"it's\"",
    "rm link",
    "rm -r link",
    "rm -r link/",
    "rm link/",
    "rm -rf a b c full empty",
    "rm a/b",
    "rm -f a/b",
    "rm ''",
    "rm -f ''",
    "rm -rf full/inner full",
    "rm full/x a full",
    "rm -r full -v",
    "rmdir empty",
    "rmdir full",
    "rmdir -v empty other",
    "rmdir --ignore-fail-on-non-empty full",
    "rmdir",
    "rmdir missing",
    "rmdir a",
    "rmdir -z",
    "mkdir -p p/q/r; rmdir -p p/q/r",
    "mkdir -p p/q/r; touch p/f; rmdir -p p/q/r",
    "unlink a",
    "unlink full",
    "unlink missing",
    "unlink",
    "unlink a b",
    "unlink link",
    "rm --help | head -1",
    "rmdir --version | head -1",
    "touch $'n\\nl'; rm -v $'n\\nl'",
    "touch $'b\\377'; rm -v $'b\\377'",
    "command rm a; echo $?",
];

/// The lines that the shim leaves to the system's program.
const HANDED_OVER: &[&str] = &[
    "rm -x a",
    "rm --forse a",
    "rm --force=1 a",
    "rm --no-preserve a",
    "rm -i a </dev/null",
    "echo y | rm -i a",
    "printf 'y\\nn\\n' | rm -i a b",
    "yes | rm -ri full",
    "printf 'n\\n' | rm -ri full",
    "echo y | rm -rI full a",
    "echo n | rm -I a b c it*",
    "rm -I a b",
    "rm --interactive=never a",
    "rm --interactive=what a",
    "rm --preserve-root=some a",
    "rm --one-file-system -r full",
    "rm *",
    "rm -r *",
];

#[test]
fn what_the_trash_does_not_handle_the_systems_program_does_and_its_loss_is_announced() {
    let owner = OwnerFixture::new();
    learn_terms(&owner);
    for line in HANDED_OVER {
        let (theirs, left) = run_line(&owner, line, false);
        let (ours, here) = run_line(&owner, line, true);
        let (announced, err) = ours.err.split_once('\n').expect("a line about the trash");
        assert!(
            announced.starts_with("rm: the trash does not handle -"),
            "{line}: {ours:?}"
        );
        assert!(announced.ends_with("gone for good"), "{line}: {ours:?}");
        assert_eq!(
            (ours.code, &ours.out, err, &here),
            (theirs.code, &theirs.out, &*theirs.err, &left),
            "{line}"
        );
    }
}

#[test]
fn an_undo_names_what_the_trash_did_not_handle_and_brings_back_the_rest() {
    let owner = OwnerFixture::new();
    owner.write("work/asked", "x");
    let (request, _, text) = owner.runs("yes | rm -i asked");
    assert!(
        text.contains("the trash does not handle -i") && !owner.path("work/asked").exists(),
        "{text}"
    );
    owner.is_refused(
        &request,
        "rm -i: the system's own program did this; what it removed is not kept",
    );
    let listed = owner.types(&["trash", "list"]);
    assert!(listed.out.contains("rm -i (not kept)"), "{listed:?}");
    owner.write("work/asked", "x");
    owner.write("work/kept", "kept\n");
    let (request, _, _) = owner.runs("yes | rm -i asked; rm kept");
    let undone = owner.types(&["undo", &request]);
    assert!(
        undone.was_undone() && undone.out.contains("rm -i: the system's own program"),
        "{undone:?}"
    );
    assert_eq!(
        (owner.read("work/kept"), owner.path("work/asked").exists()),
        ("kept\n".to_owned(), false)
    );
}

#[test]
fn w51_options_messages_and_exit_codes_are_the_systems() {
    let owner = OwnerFixture::new();
    learn_terms(&owner);
    let mut differences = Vec::new();
    for line in LINES {
        let (theirs, left) = run_line(&owner, line, false);
        let (ours, here) = run_line(&owner, line, true);
        if (ours.code, &ours.out, &ours.err, &here)
            != (theirs.code, &theirs.out, &theirs.err, &left)
        {
            differences.push(format!(
                "{line}\n  theirs: {theirs:?} {left:?}\n  ours:   {ours:?} {here:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn without_a_place_for_it_the_shim_removes_as_rm_does_and_says_so() {
    let owner = OwnerFixture::new();
    learn_terms(&owner);
    fs::remove_dir(owner.path("home/state/trash/incoming")).expect("an empty folder");
    fs::write(owner.path("home/state/trash/incoming"), "no folder").expect("written");
    let (ours, left) = run_line(&owner, "rm -r full a", true);
    assert_eq!(
        (
            ours.code,
            left.contains(&"full".to_owned()),
            left.contains(&"a".to_owned())
        ),
        (0, false, false),
        "{ours:?}"
    );
    assert!(
        ours.err.contains("the trash cannot be used") && ours.err.contains("gone for good"),
        "{ours:?}"
    );
}

#[test]
fn a_shim_that_nobody_sent_is_the_systems_program() {
    let owner = OwnerFixture::new();
    owner.types(&["call", "Bash", r#"{"command":"true"}"#]);
    owner.write("work/a", "x");
    let shim = owner.path("home/state/trash/programs/rm");
    let mut command = Command::new(shim);
    command.args(["-v", "a"]).env_clear().env(
        "PATH",
        owner.path("home/state/trash/programs:/usr/bin:/bin"),
    );
    let ours = run_command(command.current_dir(owner.path("work")));
    assert_eq!(
        (ours.code, ours.out.as_str()),
        (0, "removed 'a'\n"),
        "{ours:?}"
    );
}
