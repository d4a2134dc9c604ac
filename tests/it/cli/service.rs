//! `service`: the unit that it writes, and the commands that the service manager gets. The manager here is a program on
//! PATH that records its arguments.
#![cfg(target_os = "linux")]

use std::process::Stdio;

use punie_host::local::group_limits::RUNNER_SUBGROUP;
use serde_json::Value;
use tokio::process::Command;

use super::{CliUser, CommandOutput, run_with_input};
use crate::harness::program::make_program;

const UNIT: &str = ".config/systemd/user";

/// A service manager that records its arguments, and reports for every unit whether its file exists.
const MANAGER: &str = r#"#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/calls"
case "$*" in
*" show --property=Version") test ! -e "$HOME/no-session" || { echo "Failed to connect to bus" >&2; exit 1; } ;;
*" show "*)
    state=not-found
    test -e "$HOME/.config/systemd/user/$3" && state=loaded
    printf 'LoadState=%s\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled\nMainPID=0\n' "$state" ;;
"show-user "*) test -e "$HOME/lingers" && echo Linger=yes || echo Linger=no ;;
"enable-linger "*) echo "Access denied" >&2; exit 1 ;;
esac
"#;

impl CliUser {
    /// A command that runs the program with that manager first on its PATH.
    pub(super) fn managed(&self, args: &[&str]) -> Command {
        for name in ["systemctl", "loginctl"] {
            let below = format!("bin/{name}");
            if !self.path(&below).exists() {
                make_program(&self.path(&below), MANAGER);
            }
        }
        let mut command = self.command(args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.text("bin")));
        command.env("PIP_CERT", "/company.pem");
        command
    }

    async fn run_service_command(&self, args: &[&str]) -> CommandOutput {
        run_with_input(self.managed(args), "").await
    }

    fn has_backend(&self) {
        let work = self.text("work");
        let text = format!(
            "[backend]\nurl = \"http://127.0.0.1:9\"\n[workspaces]\npaths = [\"{work}\"]\n"
        );
        self.write("home/config.toml", &text);
    }

    /// The name and the text of the only unit in the user's folder of units.
    pub(super) fn unit(&self) -> (String, String) {
        let units = std::fs::read_dir(self.path(UNIT)).expect("the folder");
        let names: Vec<String> = units
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        let [name] = names.as_slice() else {
            panic!("{names:?}");
        };
        (name.clone(), self.read(&format!("{UNIT}/{name}")))
    }
}

#[tokio::test]
async fn a_dry_run_shows_the_unit_and_writes_nothing() {
    let user = CliUser::new();
    user.has_backend();
    let shown = user
        .run_service_command(&["service", "install", "--dry-run"])
        .await
        .done();
    assert_contains!(
        shown.out,
        "Would write",
        &format!("Environment=\"PATH={}:/usr/bin:/bin\"\n", user.text("bin")),
        "Environment=\"PIP_CERT=/company.pem\"\n",
        "Type=notify\n",
        "RestartPreventExitStatus=2 77 78\n",
        "KillMode=process\n",
        &format!("DelegateSubgroup={RUNNER_SUBGROUP}\n"),
        "  systemctl --user daemon-reload\n",
        "  loginctl enable-linger "
    );
    assert!(!user.path(".config").exists() && !user.path("calls").exists());
    let json = user
        .run_service_command(&["--json", "service", "install", "--dry-run"])
        .await
        .done()
        .json();
    assert_eq!(json["commands"][0][1], "--user", "{json}");
}

#[tokio::test]
async fn an_installed_service_is_started_and_an_uninstalled_one_leaves_no_unit() {
    let user = CliUser::new();
    user.has_backend();
    let installed = user
        .run_service_command(&["service", "install"])
        .await
        .done();
    assert_contains!(
        installed.err,
        "Access denied. The service then runs only while"
    );
    let (unit, text) = user.unit();
    assert_contains!(
        text,
        &format!("\"--home\" \"{}\" \"run\"", user.text("home"))
    );
    let status = user
        .run_service_command(&["service", "status"])
        .await
        .ended(3);
    assert_contains!(status.out, "Installed     yes", "Lingers       no");
    let stopped = user.run_service_command(&["service", "stop"]).await.done();
    assert_contains!(stopped.out, "until you log in again, or: ");
    user.run_service_command(&["service", "uninstall"])
        .await
        .done();
    assert!(!user.path(UNIT).join(&unit).exists());
    assert!(user.path("home/config.toml").exists());
    let calls = user.read("calls");
    let wanted = [
        "systemctl --user daemon-reload".to_owned(),
        format!("systemctl --user enable {unit}"),
        format!("systemctl --user restart {unit}"),
        format!("systemctl --user stop {unit}"),
        format!("systemctl --user disable --now {unit}"),
        "systemctl --user daemon-reload".to_owned(),
    ];
    let given: Vec<&str> = calls
        .lines()
        .filter(|call| !call.contains(" show ") && !call.starts_with("loginctl"))
        .collect();
    assert_eq!(given, wanted, "{calls}");
    let gone = user.run_service_command(&["service", "start"]).await;
    gone.refused(1, "is not installed. Type: punie-runner service install");
}

#[tokio::test]
async fn two_homes_are_two_services_and_the_default_home_has_the_plain_name() {
    let user = CliUser::new();
    user.has_backend();
    let name = |json: Value| json["name"].as_str().expect("a name").to_owned();
    let dry_run = ["--json", "service", "stop", "--dry-run"];
    let of_home = name(user.run_service_command(&dry_run).await.done().json());
    let other = user.text("other/home");
    let of_other = name(
        user.run_service_command(&[&dry_run[..], &["--home", other.as_str()]].concat())
            .await
            .done()
            .json(),
    );
    // One home has one service name, in every spelling of its path, and also before the home exists.
    let link = user.path("link");
    std::os::unix::fs::symlink(user.path(""), &link).expect("linked");
    for written in ["../home/", "../work/../home/.", "../link/home"] {
        let args = [&dry_run[..], &["--home", written]].concat();
        assert_eq!(
            name(user.run_service_command(&args).await.done().json()),
            of_home
        );
    }
    let not_yet = [&dry_run[..], &["--home", "../link/other/none/../home"]].concat();
    let not_yet = name(user.run_service_command(&not_yet).await.done().json());
    assert_eq!(not_yet, of_other);
    let default = user.text(".punie");
    let of_default = name(
        user.run_service_command(&[&dry_run[..], &["--home", default.as_str()]].concat())
            .await
            .done()
            .json(),
    );
    assert_starts_with!(of_home, "punie-runner-home-");
    assert_starts_with!(of_other, "punie-runner-home-");
    assert_ne!(of_home, of_other);
    assert_eq!(of_default, "punie-runner");
}

#[tokio::test]
async fn an_installation_is_refused_with_the_remedy() {
    let user = CliUser::new();
    let install = ["service", "install"];
    let no_workspace = user.run_service_command(&install).await;
    no_workspace.refused(78, "no workspace is set");
    let no_backend = user
        .run_service_command(&["--workspace", ".", "service", "install"])
        .await;
    no_backend.refused(78, "has no backend yet");
    user.has_backend();
    user.write("no-session", "");
    let no_session = user.run_service_command(&install).await;
    no_session.refused(1, "export XDG_RUNTIME_DIR=/run/user/");
    assert!(!user.path(".config").exists(), "nothing was written");
    std::fs::remove_file(user.path("no-session")).expect("removed");
    user.run_service_command(&install).await.done();
    let (unit, _) = user.unit();
    let unit = format!("{UNIT}/{unit}");
    user.write(&unit, "[Service]\nExecStart=/bin/true\n");
    for command in ["install", "uninstall"] {
        let foreign = user.run_service_command(&["service", command]).await;
        foreign.refused(1, "was not written by `punie-runner service install`");
    }
    assert_eq!(user.read(&unit), "[Service]\nExecStart=/bin/true\n");
    user.run_service_command(&["service", "install", "--force"])
        .await
        .done();
    assert_contains!(user.read(&unit), "Type=notify");
}

#[tokio::test]
async fn systemd_accepts_a_unit_with_strange_paths() {
    let user = CliUser::new();
    let strange = user.text("a 100% \"$HOME\"\\ b");
    std::fs::create_dir(&strange).expect("made");
    user.has_backend();
    let args = [
        "--workspace",
        strange.as_str(),
        "--log",
        "debug",
        "service",
        "install",
    ];
    user.run_service_command(&args).await.done();
    let (unit, text) = user.unit();
    assert_contains!(
        text,
        "a 100%% \\\"$$HOME\\\"\\\\ b\" \"--log\" \"debug\" \"run\""
    );
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--user", "--man=no"])
        .arg(user.path(UNIT).join(&unit))
        .env("XDG_RUNTIME_DIR", user.path("work"))
        .stdin(Stdio::null());
    // Verified only where systemd is installed.
    if let Ok(verified) = verify.output().await {
        let said = String::from_utf8_lossy(&verified.stderr);
        // systemd before version 254 does not know these three keys. It warns and ignores them.
        let is_known = |line: &&str| {
            !line.contains("RestartSteps")
                && !line.contains("RestartMaxDelay")
                && !line.contains("DelegateSubgroup")
        };
        let about_unit = said.lines().filter(|line| line.contains(&unit));
        let about_unit: Vec<&str> = about_unit.filter(is_known).collect();
        assert!(verified.status.success(), "{said}");
        assert_eq!(about_unit, [""; 0], "{said}");
    }
}

#[tokio::test]
async fn a_stop_of_a_lingering_service_lasts_until_the_machine_starts() {
    let user = CliUser::new();
    user.has_backend();
    user.write("lingers", "");
    let installed = user
        .run_service_command(&["service", "install"])
        .await
        .done();
    assert_contains!(installed.out, "starts when the machine starts again");
    let stopped = user.run_service_command(&["service", "stop"]).await.done();
    assert_contains!(stopped.out, "until the machine starts again");
}

#[tokio::test]
async fn a_home_that_is_no_text_and_a_relative_folder_of_units_are_not_taken() {
    use std::os::unix::ffi::OsStrExt as _;
    let user = CliUser::new();
    user.has_backend();
    let file = user.text("home/config.toml");
    let mut install = user.managed(&["--config", file.as_str(), "service", "install"]);
    let home = user
        .path("home")
        .join(std::ffi::OsStr::from_bytes(b"a\xff"));
    install.env("PUNIE_HOME", home);
    run_with_input(install, "")
        .await
        .refused(1, "is not UTF-8 text");
    assert!(!user.path(".config").exists(), "nothing was written");
    let mut install = user.managed(&["service", "install"]);
    install.env("XDG_CONFIG_HOME", "relative");
    run_with_input(install, "").await.done();
    let (unit, _) = user.unit();
    assert_ends_with!(unit, ".service");
}
