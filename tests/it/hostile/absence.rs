//! Kernels without Landlock, or with an older version: status, results and heartbeats report the level. The runner
//! refuses commands that it cannot confine, with the text below, until the owner allows them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::compile_program;
use crate::harness::process::{PROGRAM, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// The program, run as if under another kernel.
pub(super) struct OtherKernel {
    folder: TempDir,
    launcher: Vec<String>,
}

impl OtherKernel {
    /// Simulates a kernel with neither Landlock nor namespaces, so that nothing confines commands.
    fn new(config: &str) -> Self {
        Self::under("without", &["landlock"], config).also_without_namespaces()
    }

    pub(super) fn also_without_namespaces(mut self) -> Self {
        let program = compile_program("without", self.folder.path())
            .display()
            .to_string();
        self.launcher.extend([program, "namespaces".to_owned()]);
        self
    }

    /// Simulates a kernel with this version of Landlock.
    fn of_version(version: &str, config: &str) -> Self {
        Self::under("older_landlock", &[version], config)
    }

    pub(super) fn under(launcher: &str, words: &[&str], config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for made in ["work", "user"] {
            std::fs::create_dir(folder.path().join(made)).expect("made");
        }
        std::fs::write(folder.path().join("config.toml"), config).expect("written");
        std::fs::write(folder.path().join("work/file"), "there").expect("written");
        let program = compile_program(launcher, folder.path())
            .display()
            .to_string();
        let launcher = std::iter::once(program)
            .chain(words.iter().map(|word| (*word).to_owned()))
            .collect();
        Self { folder, launcher }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command that starts the program with these arguments.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.launcher[0]);
        command
            .args(&self.launcher[1..])
            .arg(PROGRAM)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("PUNIE_HOME", self.path("home"))
            .env("PUNIE_CONFIG", self.path("config.toml"))
            .env("PUNIE_WORKSPACE", self.path("work"));
        command
    }

    /// Runs the program with `--json`, and returns its one line of JSON.
    pub(super) fn run_json(&self, args: &[&str]) -> Value {
        let args = [&["--json"], args].concat();
        let output = self.command(&args).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(text.trim()).unwrap_or_else(|bad| panic!("{bad}: {output:?}"))
    }

    fn level(&self) -> String {
        self.run_json(&["status"])["confinement"]
            .as_str()
            .expect("a level")
            .to_owned()
    }
}

/// Returns the whole refusal at this level, with the setting that would allow the call.
fn refusal_text(level: &str, require: &str) -> String {
    format!(
        "Nothing was run. The owner requires confinement \"full\" for what runs programs, and it is {level} here: what is \
         named there gets through. The owner can allow it as it is: require = \"{require}\" under [sandbox] in config.toml. It \
         takes effect at once. \
         Tools that read or edit files work on."
    )
}

/// The tools that run programs, with one call of each.
const RUNNING: [(&str, &str); 5] = [
    ("Bash", r#"{"command":"echo ran > made"}"#),
    ("run_command", r#"{"command":"touch","args":["made"]}"#),
    ("GitCommit", r#"{"message":"x"}"#),
    ("GitAdd", r#"{"paths":["file"]}"#),
    ("git_add_commit", r#"{"paths":["file"],"message":"x"}"#),
];

#[test]
fn without_landlock_and_namespaces_the_level_drops_and_what_executes_is_refused_in_these_words() {
    let bare = OtherKernel::new("");
    let level = bare.level();
    for open in [
        "write_outside",
        "append_outside",
        "read_hidden",
        "link_hidden",
        "signal_runner",
        "write_protected",
        "reach_daemons",
        "read_home",
        "change_metadata",
    ] {
        assert_starts_with!(level, "partial:["; "{open}");
        assert_contains!(level, open);
    }
    assert_lacks!(level, "tcp", "udp"; "the network must still be confined");
    for (tool, args) in RUNNING {
        let answer = bare.run_json(&["call", tool, args]);
        assert_eq!(answer["error"], refusal_text(&level, "none"), "{tool}");
        assert_eq!(answer["meta"]["code"], "policy_denied", "{tool}");
    }
    assert!(!bare.path("work/made").exists());
    let read = bare.run_json(&["call", "Read", r#"{"file_path":"file"}"#]);
    assert_contains!(read["result"].to_string(), "there"; "Read must still work");
    let edit =
        json!({"file_path": "file", "old_string": "there", "new_string": "here"}).to_string();
    bare.run_json(&["call", "Edit", &edit]);
    assert_eq!(
        std::fs::read_to_string(bare.path("work/file")).expect("there"),
        "here",
        "Edit must still work"
    );
}

#[test]
fn an_older_landlock_names_the_one_thing_that_it_cannot_keep_in() {
    assert_eq!(
        OtherKernel::under("without", &["landlock"], "").level(),
        "partial:[signal_runner]",
        "without Landlock, the view must confine the rest"
    );
    for version in ["1", "3", "5"] {
        let older = OtherKernel::of_version(version, "");
        assert_eq!(
            older.level(),
            "partial:[signal_runner]",
            "version {version}"
        );
        let answer = older.run_json(&["call", "Bash", r#"{"command":"echo ran > made"}"#]);
        assert_eq!(
            answer["error"],
            refusal_text("partial:[signal_runner]", "partial"),
            "version {version}"
        );
        assert!(!older.path("work/made").exists());
    }
    assert_eq!(
        OtherKernel::of_version("6", "").level(),
        "full",
        "Landlock confines signals from version 6 on"
    );
    let oldest = OtherKernel::of_version("1", "[sandbox]\nrequire = \"partial\"\n");
    let oldest = oldest.also_without_namespaces();
    std::fs::write(oldest.path("user/rc"), "as it was").expect("written");
    let cut = r#"{"command":"python3 -c 'import os; os.open(os.path.expanduser(\"~/rc\"), os.O_RDONLY | os.O_TRUNC)'; python3 -c 'import os; os.truncate(os.path.expanduser(\"~/rc\"), 0)'"}"#;
    let answer = oldest.run_json(&["call", "Bash", cut]).to_string();
    assert_eq!(
        answer.matches("Operation not permitted").count(),
        2,
        "{answer}"
    );
    assert_eq!(
        std::fs::read_to_string(oldest.path("user/rc")).expect("there"),
        "as it was"
    );
    let allowed = OtherKernel::of_version("5", "[sandbox]\nrequire = \"partial\"\n");
    let answer = allowed
        .run_json(&["call", "Bash", r#"{"command":"echo ran; echo x >> ~/rc"}"#])
        .to_string();
    assert_contains!(answer, "ran", "Read-only file system");
    assert!(
        !allowed.path("user/rc").exists(),
        "the file outside must not be written"
    );
}

#[test]
fn what_the_owner_allows_runs_and_what_is_off_says_so() {
    let bare = OtherKernel::new("[sandbox]\nrequire = \"partial\"\n");
    let answer = bare.run_json(&["call", "Bash", r#"{"command":"echo ran"}"#]);
    assert_eq!(
        answer["error"]
            .as_str()
            .map(|text| text.contains("\"none\"")),
        Some(true),
        "`partial` must not suffice where nothing confines"
    );
    let bare = OtherKernel::new("[sandbox]\nrequire = \"none\"\n");
    let answer = bare
        .run_json(&["call", "Bash", r#"{"command":"echo ran"}"#])
        .to_string();
    assert_contains!(answer, "ran");
    let off = OtherKernel::new("[sandbox]\nconfine = false\n");
    let answer = off.run_json(&["call", "Bash", r#"{"command":"echo ran"}"#]);
    let text = "Nothing was run. The owner requires confinement \"full\" for what runs programs, and it is none here because \
                confine = false is set. The owner can allow it as it is: require = \"none\" under [sandbox] in config.toml. It takes effect at once. \
                Tools that read or edit files work on.";
    assert_eq!(answer["error"], text);
    let open = OtherKernel::new("[sandbox]\nconfine = false\nrequire = \"none\"\n");
    assert_eq!(open.level(), "none");
    assert_contains!(
        open.run_json(&["call", "Bash", r#"{"command":"echo ran"}"#])
            .to_string(),
        "ran"
    );
}

/// Returns the level in the last heartbeat.
fn network_answer(setup: &RunnerFixture) -> String {
    let health: String = setup
        .database()
        .query_row("select health from presence", [], |row| row.get(0))
        .unwrap_or_default();
    let health: Value = serde_json::from_str(&health).unwrap_or_default();
    health["confinement"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_is_the_same_in_a_result_a_heartbeat_and_the_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = compile_program("without", folder.path());
    let older = compile_program("older_landlock", folder.path());
    let none = none.display().to_string();
    let older = older.display().to_string();
    for (launcher, expected) in [
        (vec![], "full"),
        (vec![older.as_str(), "5"], "partial:[signal_runner]"),
        (vec![none.as_str(), "landlock"], "partial:[signal_runner]"),
    ] {
        let config = "[backend]\nheartbeat_ms = 100\n[sandbox]\nrequire = \"none\"\n";
        let setup = RunnerFixture::with_config(config).await;
        let status = RunningProgram::within(&launcher, &setup.setting, &["--json", "status"], &[])
            .end()
            .await
            .json();
        assert_eq!(status["confinement"], expected);
        let runner = RunningProgram::within(&launcher, &setup.setting, &["run"], &[]);
        let answer = setup.bash("echo ran").await;
        assert_eq!(answer.text(), "ran");
        assert_eq!(answer.payload["meta"]["confinement"], json!(expected));
        wait_until(&format!("{expected} in a heartbeat"), || {
            network_answer(&setup) == expected
        })
        .await;
        runner.stop().await;
    }
}
