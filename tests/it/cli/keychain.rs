//! The key of the secrets in a desktop keychain: gnome-keyring on a private D-Bus session.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{CliUser, CommandOutput, run_with_input};

const VALUE: &str = "hunter2hunter2";

/// A D-Bus session with an unlocked keychain; it ends when this value is dropped.
struct KeychainSession {
    address: String,
    _session: Child,
}

impl KeychainSession {
    /// Starts a session, or returns `None` where its programs are not installed.
    async fn of(user: &CliUser) -> Option<Self> {
        let programs = ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"];
        let absent: Vec<_> = programs
            .into_iter()
            .filter(|name| !Path::new("/usr/bin").join(name).is_file())
            .collect();
        if !absent.is_empty() {
            // Written to stderr directly, because the test harness hides the captured output of a test that passes.
            let note = format!(
                "SKIPPED: the keychain is not tried: {} not installed\n",
                absent.join(", ")
            );
            std::io::stderr()
                .write_all(note.as_bytes())
                .expect("stderr");
            return None;
        }
        let script = "printf owner | gnome-keyring-daemon --unlock --components=secrets > /dev/null && \
                      echo \"$DBUS_SESSION_BUS_ADDRESS\" && read -r _";
        let mut session = Command::new("/usr/bin/dbus-run-session");
        session
            .args(["--", "/bin/bash", "-c", script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        session
            .env("HOME", user.path("desktop"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut session = session
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(session.stdout.take().expect("piped")).lines();
        let address = lines
            .next_line()
            .await
            .expect("readable")
            .expect("the keychain is unlocked");
        Some(Self {
            address,
            _session: session,
        })
    }

    /// The socket of the session's bus. A killed bus does not remove its socket.
    fn socket(&self) -> Option<&str> {
        self.address.strip_prefix("unix:path=")?.split(',').next()
    }

    async fn run_cli(&self, user: &CliUser, args: &[&str]) -> CommandOutput {
        let mut command = user.command(args);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        run_with_input(command, "").await
    }
}

impl Drop for KeychainSession {
    fn drop(&mut self) {
        let _ = self.socket().map(std::fs::remove_file);
    }
}

#[tokio::test]
async fn the_key_goes_into_the_keychain_and_back_and_without_it_nothing_is_read_or_written_over() {
    let user = CliUser::new();
    std::fs::create_dir(user.path("desktop")).expect("made");
    let Some(desktop) = KeychainSession::of(&user).await else {
        return;
    };
    user.types_with(&["secrets", "set", "mailer"], VALUE)
        .await
        .done();
    let key = user.read("home/keys/secrets.key");
    assert_eq!(
        user.run_cli(&["secrets", "key", "--json"])
            .await
            .done()
            .json()["place"],
        "file"
    );

    let moved = desktop
        .run_cli(&user, &["secrets", "key", "--to", "keychain", "--json"])
        .await
        .done()
        .json();
    assert_eq!(moved, json!({"place": "keychain", "moved": true}));
    let entry = user.read("home/keys/secrets.key");
    assert_lacks!(entry, key.trim(); "the key must not stay in the file");
    let name = entry
        .trim()
        .strip_prefix("keychain ")
        .expect(&entry)
        .to_owned();
    let text = desktop
        .run_cli(&user, &["secrets", "list"])
        .await
        .done()
        .out;
    assert_contains!(text, "mailer");
    let status = desktop
        .run_cli(&user, &["status", "--json"])
        .await
        .ended(3)
        .json();
    assert_fields!(status, {"secrets": 1, "secretsKey": "keychain"});

    // Without the session the keychain cannot be reached.
    let sealed = user.read("home/secrets/sealed.json");
    user.run_cli(&["secrets", "list"])
        .await
        .refused(73, "not to be had from the system's keychain");
    user.types_with(&["secrets", "set", "other"], VALUE)
        .await
        .refused(73, "Unlock it");
    user.run_cli(&["secrets", "key", "--to", "file"])
        .await
        .refused(73, "not to be had");
    let status = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert_fields!(status, {"secretsKey": "keychain", "degraded": ["secrets"]});
    assert_eq!(user.read("home/secrets/sealed.json"), sealed);
    assert_eq!(user.read("home/keys/secrets.key"), entry);

    // A confined command cannot reach the keychain.
    let asks = format!(
        "DBUS_SESSION_BUS_ADDRESS='{}' secret-tool lookup service punie-runner name {name} && exit 0; exit 7",
        desktop.address
    );
    let args = json!({"command": asks}).to_string();
    let asked = desktop
        .run_cli(&user, &["call", "Bash", &args, "--json"])
        .await;
    assert_lacks!(asked.out, key.trim());
    assert_contains!(asked.out, "\"exitCode\":7");

    let back = desktop
        .run_cli(&user, &["secrets", "key", "--to", "file"])
        .await
        .done();
    assert_contains!(back.out, "secrets.key");
    assert_eq!(user.read("home/keys/secrets.key"), key);
    assert_contains!(
        user.run_cli(&["secrets", "list"]).await.done().out,
        "mailer"
    );
    let mut looks = Command::new("/usr/bin/secret-tool");
    looks.args(["lookup", "service", "punie-runner", "name", &name]);
    let left = looks
        .env("DBUS_SESSION_BUS_ADDRESS", &desktop.address)
        .output()
        .await
        .expect("it runs");
    assert!(
        left.stdout.is_empty(),
        "the key must not stay in the keychain"
    );
}

#[tokio::test]
async fn without_a_keychain_the_key_stays_in_its_file() {
    let user = CliUser::new();
    user.types_with(&["secrets", "set", "mailer"], VALUE)
        .await
        .done();
    let key = user.read("home/keys/secrets.key");
    user.run_cli(&["secrets", "key", "--to", "keychain"])
        .await
        .refused(73, "not to be had");
    assert_eq!(user.read("home/keys/secrets.key"), key);
    let said = user.run_cli(&["secrets", "key"]).await.done();
    assert_contains!(said.out, "The key is in ");
}
