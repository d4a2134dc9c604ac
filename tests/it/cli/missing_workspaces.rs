//! A missing workspace, as on an unplugged disk: the runner works in the others, reports it, and uses it again once it
//! is back.

use std::fs;

use serde_json::{Value, json};

use super::{CliUser, CommandOutput, RunningCommand};

const GIT_INIT: &str =
    "git init -q disk && cd disk && git config user.name n && git config user.email e@x";

/// A device with the workspace `work`, and with the workspace `disk`, which is missing.
struct MissingDiskDevice {
    user: CliUser,
}

impl MissingDiskDevice {
    fn new() -> Self {
        let user = CliUser::new();
        let paths = [user.text("work"), user.text("disk")];
        user.write(
            "home/config.toml",
            &format!("[workspaces]\npaths = {paths:?}\n[sandbox]\nrequire = \"partial\"\n"),
        );
        Self { user }
    }

    async fn dev(&self) -> RunningCommand {
        self.user.serves(&["dev", "--json"]).await
    }

    async fn send(&self, tool: &str, arguments: Value) -> CommandOutput {
        let arguments = arguments.to_string();
        self.user.run_cli(&["send", tool, &arguments]).await
    }

    async fn bash(&self, line: &str) -> CommandOutput {
        self.send("Bash", json!({"command": line})).await
    }

    /// Checks that `status` reports `disk` as missing, or does not.
    async fn expect_missing(&self, is_missing: bool) {
        let said = self.user.run_cli(&["status", "--json"]).await;
        let status = said.json();
        let missing = status["missingWorkspaces"].get(self.user.text("disk"));
        assert_eq!(missing.is_some(), is_missing, "{status}");
        let text = self.user.run_cli(&["status"]).await.out;
        assert_eq!(text.contains("~/disk (missing)"), is_missing, "{text}");
        let attention = format!("The workspace {} is missing", self.user.text("disk"));
        let is_told = status["attention"].to_string().contains(&attention);
        assert_eq!(is_told, is_missing, "{status}");
    }

    fn make_disk(&self) {
        let mut shell = std::process::Command::new("bash");
        let made = shell
            .args(["-ec", GIT_INIT])
            .current_dir(self.user.path(""));
        assert!(made.status().expect("a shell").success());
    }
}

#[tokio::test]
async fn the_runner_starts_without_it_and_uses_it_once_it_is_back() {
    let device = MissingDiskDevice::new();
    let (disk, file) = (device.user.text("disk"), device.user.text("disk/file"));
    let dev = device.dev().await;
    device.expect_missing(true).await;
    device.bash("echo fine").await.ended(0);
    for (tool, arguments) in [
        ("Write", json!({"file_path": file, "content": "x"})),
        ("Bash", json!({"command": "pwd", "working_directory": disk})),
        ("GitStatus", json!({"path": disk})),
        ("Glob", json!({"pattern": "*", "path": disk})),
    ] {
        let said = device.send(tool, arguments).await;
        let text = format!("{}{}", said.out, said.err);
        assert_ne!(said.code, 0, "{tool}: {text}");
        assert_contains!(text, "disk is missing"; "{tool}");
        assert_lacks!(text, "outside"; "{tool}");
    }
    let all = device.send("Glob", json!({"pattern": "*"})).await.out;
    assert_contains!(all, "disk, a workspace that is missing");

    for round in ["first", "second"] {
        device.make_disk();
        device
            .send("Write", json!({"file_path": file, "content": round}))
            .await
            .ended(0);
        let said = device
            .bash(&format!("cat {file} && echo x >> {file}"))
            .await;
        assert_contains!(said.out, round);
        // Git runs hooks later, so they are protected here as in every workspace.
        let hook = device.user.text("disk/.git/hooks/pre-commit");
        let said = device
            .bash(&format!("echo x > {hook} || echo refused"))
            .await;
        assert_contains!(said.out, "refused");
        assert!(!device.user.path("disk/.git/hooks/pre-commit").exists());
        device.expect_missing(false).await;
        fs::remove_dir_all(device.user.path("disk")).expect("removed");
        device.expect_missing(true).await;
        let said = device.send("Read", json!({"file_path": file})).await;
        assert!(format!("{said:?}").contains("disk is missing"), "{said:?}");
    }
    dev.stopped().await;
}

#[tokio::test]
async fn what_comes_back_in_its_place_opens_nothing() {
    let device = MissingDiskDevice::new();
    let secret = device.user.path("private");
    device.user.write("private/key", "secret-of-the-owner");
    let dev = device.dev().await;
    device.bash("true").await.ended(0);
    std::os::unix::fs::symlink(&secret, device.user.path("disk")).expect("linked");
    let key = device.user.text("disk/key");
    for said in [
        device.send("Read", json!({"file_path": key})).await,
        device.bash(&format!("cat {key}; echo x > {key}")).await,
        device
            .bash(&format!("cat {}", secret.join("key").display()))
            .await,
    ] {
        let text = format!("{}{}", said.out, said.err);
        assert_lacks!(text, "secret-of-the-owner");
    }
    assert_eq!(device.user.read("private/key"), "secret-of-the-owner");
    device.expect_missing(true).await;
    // The home of another runner below it is hidden from commands, as in every workspace.
    fs::remove_file(device.user.path("disk")).expect("removed");
    for name in ["tokens", "secrets", "keys", "state/switches"] {
        let folder = device.user.path("disk/other-home").join(name);
        fs::create_dir_all(folder).expect("made");
    }
    device
        .user
        .write("disk/other-home/keys/key", "secret-of-a-home");
    let key = device.user.text("disk/other-home/keys/key");
    let said = device
        .bash(&format!("ls {}; cat {key}", device.user.text("disk")))
        .await;
    assert_lacks!(said.out, "secret-of-a-home");
    dev.stopped().await;
}

#[tokio::test]
async fn commands_without_a_runner_work_in_the_others_or_name_all_that_are_missing() {
    let device = MissingDiskDevice::new();
    device
        .user
        .run_cli(&["call", "Bash", "--", "true"])
        .await
        .ended(0);
    device.user.run_cli(&["tools"]).await.ended(0);
    let said = device.user.run_cli(&["doctor"]).await;
    assert_contains!(said.out, "disk cannot be used: it is missing");
    device
        .user
        .run_cli(&["--workspace", ".", "--workspace", "gone", "init", "--force"])
        .await
        .refused(78, "gone is missing");
    fs::remove_dir(device.user.path("work")).expect("removed");
    fs::create_dir(device.user.path("elsewhere")).expect("made");
    for args in [
        &["run"][..],
        &["run", "--once"],
        &["call", "Bash", "--", "true"],
    ] {
        let mut command = device.user.command(args);
        command.current_dir(device.user.path("elsewhere"));
        let said = super::run_with_input(command, "").await;
        said.refused(78, "work cannot be used");
        said.refused(78, "disk cannot be used");
    }
    let mut status = device.user.command(&["status", "--json"]);
    status.current_dir(device.user.path("elsewhere"));
    let said = super::run_with_input(status, "").await.json();
    assert_eq!(
        said["missingWorkspaces"]
            .as_object()
            .expect("an object")
            .len(),
        2
    );
}
