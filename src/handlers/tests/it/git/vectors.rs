//! Thirty-three ways to have git run a program or write a file, each tried with plain git first: what does not work
//! there shows nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::bench::Bench;
use crate::harness::program::make_program;

/// One way. `PAYLOAD` stands for the program and `MARK` for the file that says that it ran.
struct Vector {
    /// Of the hostile input that it belongs to.
    number: u8,
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// The attributes of `*.txt`.
    attributes: &'static str,
    /// What else it takes.
    more: fn(&Trap),
    /// What plain git is told, for the payload to run, and in which folder.
    plain: &'static [&'static str],
    at: &'static str,
}

/// A repository with a payload that waits.
struct Trap {
    bench: Bench,
    program: String,
    mark: PathBuf,
}

const fn vector(number: u8, name: &'static str, plain: &'static [&'static str]) -> Vector {
    Vector {
        number,
        name,
        settings: &[],
        attributes: "",
        more: |_| {},
        plain,
        at: "",
    }
}

type Settings = &'static [(&'static str, &'static str)];

impl Vector {
    const fn set(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    const fn of_files(self, attributes: &'static str) -> Self {
        Self { attributes, ..self }
    }

    const fn and(self, more: fn(&Trap)) -> Self {
        Self { more, ..self }
    }

    const fn at(self, at: &'static str) -> Self {
        Self { at, ..self }
    }
}

const FSMONITOR: Settings = &[("core.fsmonitor", "PAYLOAD")];
const CLEAN: Settings = &[("filter.evil.clean", "PAYLOAD")];
const TEXTCONV: Settings = &[("diff.evil.textconv", "PAYLOAD")];

const VECTORS: [Vector; 33] = [
    vector(63, "fsmonitor", &["status"]).set(FSMONITOR),
    vector(63, "fsmonitor in an included file", &["status"])
        .set(&[("include.path", "../evil.config")])
        .and(|trap| trap.monitored_by("evil.config")),
    vector(63, "fsmonitor in a worktree's file", &["status"])
        .set(&[("extensions.worktreeConfig", "true")])
        .and(|trap| trap.monitored_by(".git/config.worktree")),
    vector(64, "clean filter, by status", &["status"])
        .set(CLEAN)
        .of_files("filter=evil"),
    vector(64, "clean filter, by add", &["add", "a.txt"])
        .set(CLEAN)
        .of_files("filter=evil")
        .and(changed),
    vector(64, "smudge filter", &["checkout", "--", "a.txt"])
        .set(&[("filter.evil.smudge", "PAYLOAD")])
        .of_files("filter=evil")
        .and(changed),
    vector(64, "process filter", &["status"])
        .set(&[("filter.evil.process", "PAYLOAD")])
        .of_files("filter=evil"),
    vector(65, "textconv, by diff", &["diff"])
        .set(TEXTCONV)
        .of_files("diff=evil")
        .and(changed),
    vector(65, "textconv, by log", &["log", "-p"])
        .set(TEXTCONV)
        .of_files("diff=evil"),
    vector(65, "textconv, by show", &["show"])
        .set(TEXTCONV)
        .of_files("diff=evil"),
    vector(65, "textconv, by blame", &["blame", "a.txt"])
        .set(TEXTCONV)
        .of_files("diff=evil"),
    vector(66, "external diff", &["diff"])
        .set(&[("diff.external", "PAYLOAD")])
        .and(changed),
    vector(66, "driver of a diff", &["diff"])
        .set(&[("diff.evil.command", "PAYLOAD")])
        .of_files("diff=evil")
        .and(changed),
    vector(67, "gpg, by showSignature", &["log", "-1"])
        .set(&[("gpg.program", "PAYLOAD"), ("log.showSignature", "true")])
        .and(signed),
    vector(67, "gpg, by %G?", &["log", "-1"])
        .set(&[("gpg.program", "PAYLOAD"), ("format.pretty", "%G?")])
        .and(signed),
    vector(67, "gpg, by a commit", COMMIT)
        .set(&[("gpg.program", "PAYLOAD"), ("commit.gpgSign", "true")]),
    vector(67, "x509, by a commit", COMMIT).set(&[
        ("gpg.format", "x509"),
        ("gpg.x509.program", "PAYLOAD"),
        ("commit.gpgSign", "true"),
    ]),
    vector(68, "post-index-change", &["status"])
        .and(|trap| trap.hook(".git/hooks", "post-index-change")),
    vector(68, "pre-commit", COMMIT).and(|trap| trap.hook(".git/hooks", "pre-commit")),
    vector(68, "reference-transaction", COMMIT)
        .and(|trap| trap.hook(".git/hooks", "reference-transaction")),
    vector(68, "hooks elsewhere", &["status"])
        .set(&[("core.hooksPath", "theirs")])
        .and(|trap| trap.hook("theirs", "post-index-change")),
    vector(69, "embedded bare repository", &["status"])
        .at("vendor")
        .and(embedded),
    vector(70, "fsmonitor of a submodule", &["status"])
        .set(&[
            ("submodule.module.ignore", "none"),
            ("diff.submodule", "diff"),
        ])
        .and(submodule),
    vector(71, "ext::", &["show"])
        .set(&[
            ("protocol.ext.allow", "always"),
            ("remote.origin.url", "ext::PAYLOAD "),
        ])
        .and(lost),
    vector(71, "ext:: by insteadOf", &["show"])
        .set(&[
            ("protocol.ext.allow", "always"),
            ("remote.origin.url", "https://nowhere.invalid/x"),
            ("url.ext::PAYLOAD .insteadOf", "https://nowhere.invalid/"),
        ])
        .and(lost),
    vector(71, "ssh command", &["show"])
        .set(&[
            ("core.sshCommand", "PAYLOAD"),
            ("remote.origin.url", "ssh://nowhere.invalid/x"),
        ])
        .and(lost),
    vector(71, "upload-pack of a remote", &["show"])
        .set(&[
            ("remote.origin.uploadpack", "PAYLOAD"),
            ("remote.origin.url", "."),
        ])
        .and(lost),
    vector(71, "proxy of git://", &["show"])
        .set(&[
            ("core.gitProxy", "PAYLOAD"),
            ("remote.origin.url", "git://nowhere.invalid/x"),
        ])
        .and(lost),
    vector(72, "merge driver", &["merge", "other", "-m", "merged"])
        .set(&[
            ("merge.evil.driver", "PAYLOAD %A %O %B"),
            ("log.diffMerges", "remerge"),
        ])
        .of_files("merge=evil")
        .and(forked),
    vector(73, "tar command", &["archive", "--format=evil", "HEAD"])
        .set(&[("tar.evil.command", "PAYLOAD")]),
    vector(
        74,
        "option for a ref: upload-pack",
        &["ls-remote", "--upload-pack=PAYLOAD", "."],
    )
    .and(curt),
    vector(
        74,
        "option for a ref: a pager of matches",
        &["grep", "-OPAYLOAD", "one"],
    ),
    vector(
        74,
        "option for a ref: a file to write",
        &["log", "--output=MARK"],
    ),
];

const COMMIT: &[&str] = &["commit", "-q", "--allow-empty", "-m", "x"];

fn changed(trap: &Trap) {
    trap.bench.write("a.txt", "one\nzwei\n");
}

/// A commit with something that looks like a signature.
fn signed(trap: &Trap) {
    let signer = trap.bench.outside.path().join("signer.sh");
    let script = "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n\
                  printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n";
    make_program(&signer, script);
    let program = format!("gpg.program={}", signer.display());
    trap.bench.git(&[
        "-c",
        &program,
        "commit",
        "-q",
        "-S",
        "--allow-empty",
        "-m",
        "signed",
    ]);
}

fn embedded(trap: &Trap) {
    let bare = trap.bench.repo().join("vendor");
    fs::create_dir(&bare).expect("a folder");
    assert!(trap.bench.git_in(&bare, &["init", "-q", "--bare", "."]));
    for (key, value) in [
        ("core.bare", "false"),
        ("core.worktree", "."),
        ("core.fsmonitor", trap.program.as_str()),
    ] {
        assert!(trap.bench.git_in(&bare, &["config", key, value]));
    }
}

fn submodule(trap: &Trap) {
    let module = trap.bench.outside.path().join("module");
    fs::create_dir(&module).expect("a folder");
    assert!(trap.bench.git_in(&module, &["init", "-q"]));
    assert!(
        trap.bench
            .git_in(&module, &["commit", "-q", "--allow-empty", "-m", "x"])
    );
    let url = module.display().to_string();
    trap.bench.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &url,
        "module",
    ]);
    let inside = trap.bench.repo().join("module");
    assert!(
        trap.bench
            .git_in(&inside, &["config", "core.fsmonitor", &trap.program])
    );
}

/// A payload that keeps no git waiting for its answer.
fn curt(trap: &Trap) {
    make_program(
        Path::new(&trap.program),
        &format!("#!/bin/sh\ntouch '{}'\nexit 1\n", trap.mark.display()),
    );
}

/// A repository that lacks an object, which it gets from a remote.
fn lost(trap: &Trap) {
    curt(trap);
    for setting in [
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=origin",
        "remote.origin.promisor=true",
    ] {
        let (key, value) = setting.split_once('=').expect("two parts");
        trap.bench.git(&["config", key, value]);
    }
    let blob = trap.bench.told(&["rev-parse", "HEAD:a.txt"]);
    let objects = trap.bench.repo().join(".git/objects");
    fs::remove_file(objects.join(&blob[..2]).join(&blob[2..])).expect("an object");
}

/// Two branches that change one line.
fn forked(trap: &Trap) {
    let bench = &trap.bench;
    bench.git(&["checkout", "-q", "-b", "other"]);
    bench.write("a.txt", "one\nother\n");
    bench.commit_all("other");
    bench.git(&["checkout", "-q", "main"]);
    bench.write("a.txt", "one\nours\n");
    bench.commit_all("ours");
}

impl Trap {
    fn new(vector: &Vector) -> Self {
        let bench = Bench::new();
        let (program, mark) = bench.payload();
        let trap = Self {
            bench,
            program,
            mark,
        };
        if !vector.attributes.is_empty() {
            trap.bench.write(
                ".git/info/attributes",
                &format!("*.txt {}\n", vector.attributes),
            );
        }
        // What it takes is made while nothing is set that would run.
        (vector.more)(&trap);
        for (key, value) in vector.settings {
            trap.bench
                .git(&["config", &trap.filled(key), &trap.filled(value)]);
        }
        trap
    }

    fn filled(&self, text: &str) -> String {
        text.replace("PAYLOAD", &self.program)
            .replace("MARK", &self.mark.display().to_string())
    }

    /// A file of settings with the payload as fsmonitor.
    fn monitored_by(&self, file: &str) {
        self.bench
            .write(file, &format!("[core]\n\tfsmonitor = {}\n", self.program));
    }

    fn hook(&self, folder: &str, name: &str) {
        let hook = self.bench.repo().join(folder).join(name);
        make_program(
            &hook,
            &fs::read_to_string(&self.program).expect("the payload"),
        );
    }

    /// Whether the payload has run, which it forgets.
    fn has_run(&self) -> bool {
        fs::remove_file(&self.mark).is_ok()
    }

    /// The calls by which a tool could run it, beside those of [`Bench::no_tool_runs`].
    async fn asked_for_it(&self, vector: &Vector) -> Vec<String> {
        let mut ran = Vec::new();
        let options: Vec<String> = vector
            .plain
            .iter()
            .filter(|_| vector.number == 74)
            .map(|word| self.filled(word))
            .collect();
        for option in options.iter().filter(|word| word.starts_with('-')) {
            for (tool, args) in cases! {
                ("GitLog", json!({"path": "repo", "ref": option})),
                ("GitShow", json!({"path": "repo", "ref": option})),
                ("GitDiff", json!({"path": "repo", "from": option})),
                ("GitBlame", json!({"path": "repo/a.txt", "ref": option})),
                ("GitLog", json!({"path": format!("repo/{option}")})),
                ("GitAdd", json!({"paths": [format!("repo/{option}")]})),
                ("GitCommit", json!({"path": "repo", "all": true, "message": option})),
            } {
                // Most are refused, and what they answer is the matter of other tests.
                let _ = self.bench.ask(tool, args.clone()).await;
                if self.has_run() {
                    ran.push(format!("{tool} {args}"));
                }
            }
        }
        // The hooks of a commit are run by one, confined: what they are for.
        if vector.number != 68 {
            self.bench.touch();
            let _ = self
                .bench
                .ask(
                    "GitCommit",
                    json!({"path": "repo", "all": true, "message": "x"}),
                )
                .await;
            if self.has_run() {
                ran.push("GitCommit".to_owned());
            }
        }
        for tool in [
            "GitStatus",
            "GitDiff",
            "GitLog",
            "GitShow",
            "git_status",
            "git_diff",
        ] {
            let _ = self
                .bench
                .ask(tool, json!({"path": format!("repo/{}", vector.at)}))
                .await;
            if self.has_run() {
                ran.push(format!("{tool} in {}", vector.at));
            }
        }
        ran
    }
}

/// What plain git said if it did not run with that, and the calls of tools that ran it.
async fn tried(vector: &Vector) -> (Result<(), String>, Vec<String>) {
    let trap = Trap::new(vector);
    if vector.at.is_empty() {
        trap.bench.touch();
    }
    let words: Vec<String> = vector.plain.iter().map(|word| trap.filled(word)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = trap.bench.plain(&trap.bench.repo().join(vector.at), &words);
    let is_armed = if trap.has_run() {
        Ok(())
    } else {
        Err(format!("{said:?}"))
    };
    trap.bench.no_tool_runs(&trap.mark).await;
    (is_armed, trap.asked_for_it(vector).await)
}

async fn none_runs(number: u8) {
    let of_number: Vec<&Vector> = VECTORS
        .iter()
        .filter(|vector| vector.number == number)
        .collect();
    assert!(!of_number.is_empty());
    for vector in of_number {
        let (is_armed, ran) = tried(vector).await;
        assert_eq!(
            is_armed,
            Ok(()),
            "{}: it must work with plain git, or this shows nothing",
            vector.name
        );
        assert!(ran.is_empty(), "{}: {ran:?}", vector.name);
    }
}

#[tokio::test]
async fn h63_no_fsmonitor_runs_wherever_it_is_set() {
    none_runs(63).await;
}

#[tokio::test]
async fn h64_no_filter_runs() {
    none_runs(64).await;
}

#[tokio::test]
async fn h65_no_textconv_runs() {
    none_runs(65).await;
}

#[tokio::test]
async fn h66_no_external_diff_runs() {
    none_runs(66).await;
}

#[tokio::test]
async fn h67_no_signer_runs() {
    none_runs(67).await;
}

#[tokio::test]
async fn h68_no_hook_runs() {
    none_runs(68).await;
}

#[tokio::test]
async fn h69_nothing_of_an_embedded_repository_runs() {
    none_runs(69).await;
}

#[tokio::test]
async fn h70_nothing_of_a_submodule_runs() {
    none_runs(70).await;
}

#[tokio::test]
async fn h71_nothing_of_a_remote_runs() {
    none_runs(71).await;
}

#[tokio::test]
async fn h72_no_merge_driver_runs() {
    none_runs(72).await;
}

#[tokio::test]
async fn h73_no_tar_command_runs() {
    none_runs(73).await;
}

#[tokio::test]
async fn h74_no_option_in_the_place_of_a_ref_runs_anything() {
    none_runs(74).await;
}

#[tokio::test]
#[ignore = "what the numbered tests do, in one count: by name, with --nocapture"]
#[expect(clippy::print_stdout, reason = "its figures are what it is run for")]
async fn only_by_name_every_vector_in_one_count() {
    let mut armed = 0;
    let mut run = 0;
    for vector in &VECTORS {
        let (is_armed, ran) = tried(vector).await;
        println!(
            "H{} {:<40} plain git: {:<5} tools: {ran:?}",
            vector.number,
            vector.name,
            is_armed.is_ok()
        );
        armed += u32::from(is_armed.is_ok());
        run += u32::from(!ran.is_empty());
    }
    println!(
        "{} vectors, {run} payloads run, control: {armed} ran",
        VECTORS.len()
    );
    assert_eq!((armed, run), (33, 0));
}
