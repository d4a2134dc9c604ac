//! A kernel without Landlock: the level says so, and what would run in the open is refused until the owner allows it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::compiled;
use crate::harness::process::PROGRAM;

/// The program, as it is where there is no Landlock.
struct Bare {
    folder: TempDir,
    launcher: PathBuf,
}

impl Bare {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for made in ["work", "user"] {
            std::fs::create_dir(folder.path().join(made)).expect("made");
        }
        std::fs::write(folder.path().join("config.toml"), config).expect("written");
        std::fs::write(folder.path().join("work/file"), "there").expect("written");
        let launcher = compiled("no_landlock", folder.path());
        Self { folder, launcher }
    }

    /// Its one line of JSON.
    fn says(&self, args: &[&str]) -> Value {
        let place = |name: &str| self.folder.path().join(name);
        let output = Command::new(&self.launcher)
            .arg(PROGRAM)
            .arg("--json")
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place("user"))
            .env("PUNIE_HOME", place("home"))
            .env("PUNIE_CONFIG", place("config.toml"))
            .env("PUNIE_WORKSPACE", place("work"))
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(text.trim()).unwrap_or_else(|bad| panic!("{bad}: {output:?}"))
    }
}

#[test]
fn without_landlock_the_level_drops_and_what_executes_is_refused() {
    let bare = Bare::new("");
    let level = bare.says(&["status"])["confinement"].as_str().expect("a level").to_owned();
    assert!(level.starts_with("partial:[") && level.contains("write_outside"), "{level}");
    assert!(!level.contains("tcp"), "the filter of system calls still holds: {level}");
    for (tool, args) in [
        ("Bash", r#"{"command":"echo ran > made"}"#),
        ("run_command", r#"{"command":"touch","args":["made"]}"#),
        ("GitCommit", r#"{"message":"x"}"#),
        ("GitAdd", r#"{"paths":["file"]}"#),
    ] {
        let answer = bare.says(&["call", tool, args]).to_string();
        assert!(answer.contains("policy_denied"), "{tool}: {answer}");
        assert!(
            answer.contains("require = \\\"partial\\\" under [sandbox]") || answer.contains("partial"),
            "{tool}: {answer}"
        );
    }
    assert!(!bare.folder.path().join("work/made").exists());
    let read = bare.says(&["call", "Read", r#"{"file_path":"file"}"#]).to_string();
    assert!(read.contains("there"), "reading goes on: {read}");
}

#[test]
fn what_the_owner_allows_runs_and_its_result_names_the_level() {
    let bare = Bare::new("[sandbox]\nrequire = \"partial\"\n");
    let answer = bare.says(&["call", "Bash", r#"{"command":"echo ran"}"#]).to_string();
    assert!(answer.contains("ran"), "{answer}");
    let off = Bare::new("[sandbox]\nconfine = false\n");
    let answer = off.says(&["call", "Bash", r#"{"command":"echo ran"}"#]).to_string();
    assert!(answer.contains("policy_denied") && answer.contains("confine = false"), "{answer}");
    let open = Bare::new("[sandbox]\nconfine = false\nrequire = \"none\"\n");
    assert_eq!(open.says(&["status"])["confinement"], "none");
    assert!(open.says(&["call", "Bash", r#"{"command":"echo ran"}"#]).to_string().contains("ran"));
}
