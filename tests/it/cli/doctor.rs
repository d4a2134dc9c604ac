//! `doctor`: it finds each condition, reports no problem on a healthy machine, and `--fix` makes only safe repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use punie_core::ids::{ConversationId, RequestId};
use punie_home::{
    ApprovalQuestions, Home, OpenQuestion, OwnerNotice, OwnerSwitch, OwnerSwitches, QuestionInput,
    RunnerLock, SupervisionStore, SwitchState,
};
use punie_runner::cli::doctor::describe_checks;
use punie_runner::service::{ServiceManager, service_name};
use serde_json::{Value, json};

use super::{CliUser, CommandOutput, RunningCommand, run_with_input, tokens_of};
use crate::harness::wait::wait_for_some;

/// The findings of one run, by their ids.
struct DoctorFindings {
    all: BTreeMap<String, Value>,
    code: i32,
}

impl DoctorFindings {
    fn from_said(said: &CommandOutput) -> Self {
        let report = said.json();
        let checks = report["checks"].as_array().expect("a list");
        let all: BTreeMap<String, Value> = checks
            .iter()
            .map(|check| {
                (
                    check["id"].as_str().expect("an id").to_owned(),
                    check.clone(),
                )
            })
            .collect();
        assert_eq!(all.len(), checks.len(), "an id appears twice: {report}");
        Self {
            all,
            code: said.code,
        }
    }

    fn text(&self, id: &str) -> &str {
        self.all[id]["found"].as_str().expect("a text")
    }

    fn ids_of(&self, level: &str) -> BTreeSet<&str> {
        let all = self.all.iter();
        all.filter(|(_, check)| check["level"] == level)
            .map(|(id, _)| id.as_str())
            .collect()
    }

    /// Checks that these findings have this level and a remedy.
    #[track_caller]
    fn assert_found(&self, level: &str, ids: &[&str], found: &mut BTreeSet<String>) {
        for id in ids {
            let check = self.all.get(*id).unwrap_or_else(|| panic!("no check {id}"));
            assert_eq!(check["level"], level, "{check}");
            assert!(check["mend"].is_string(), "no remedy: {check}");
            found.insert((*id).to_owned());
        }
        if level == "problem" {
            assert_eq!(self.code, 1);
        }
    }
}

async fn run_doctor(user: &CliUser, args: &[&str]) -> DoctorFindings {
    let args = [&["doctor", "--json"], args].concat();
    DoctorFindings::from_said(&user.run_cli(&args).await)
}

/// Starts `dev` in a home that later steps damage, and waits for its self-test.
async fn start_dev(user: &CliUser) -> RunningCommand {
    user.write("home/config.toml", "[sandbox]\nrequire = \"partial\"\n");
    let dev = user.serves(&["dev", "--json"]).await;
    wait_for_some("the level to be published", async || {
        let status = user.run_cli(&["status", "--json"]).await.json();
        let level = status["inForce"]["confinement"]["level"]
            .as_str()?
            .to_owned();
        (level != "unproven").then_some(())
    })
    .await;
    dev
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
}

/// Answers every connection with these bytes. Returns the port.
fn answer_always(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("accepted");
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn a_healthy_machine_has_no_problem_and_the_list_fits_a_terminal() {
    let user = CliUser::new();
    let dev = start_dev(&user).await;
    let found = run_doctor(&user, &[]).await;
    assert_eq!(found.ids_of("problem"), BTreeSet::new());
    assert_eq!(found.code, 0);
    assert!(found.all.len() >= 25, "{}", found.all.len());
    // The test program is on no PATH, some machines confine only in part, and no process limit applies to root.
    let usual = BTreeSet::from([
        "program",
        "confinement",
        "namespaces",
        "network",
        "processes",
    ]);
    assert!(
        found.ids_of("note").is_subset(&usual),
        "{:?}",
        found.ids_of("note")
    );

    let shown = user.types_on_terminal(&["doctor", "-v"]).await.ended(0).out;
    let widest = shown.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|width| width <= 80), "{shown}");
    let passed = found.ids_of("ok").len();
    assert_contains!(shown, &format!("{passed} checks passed."));
    assert_contains!(shown, "  journal           The journal is sound");
    let short = user.run_cli(&["doctor"]).await.ended(0).out;
    assert_ends_with!(short, &format!("{passed} checks passed (-v lists them).\n"));
    dev.stopped().await;
}

#[tokio::test]
async fn a_home_that_is_missing_is_named_and_not_created() {
    let user = CliUser::new();
    let found = run_doctor(&user, &[]).await;
    assert_contains!(found.text("home"), "There is no home at"; "{:?}", found.all);
    let fixed = user
        .run_cli(&["doctor", "--fix", "--json"])
        .await
        .ended(1)
        .json();
    assert_eq!(fixed["fixed"], json!([]));
    assert!(!user.path("home").exists());
    assert!(!found.all.contains_key("identity"));
}

#[tokio::test]
async fn a_home_without_its_state_is_described_and_not_half_measured() {
    let user = CliUser::new();
    user.write("home/config.toml", "");
    user.write("home/state", "no folder");
    let said = user.run_cli(&["doctor", "--fix", "--json"]).await.ended(1);
    let found = DoctorFindings::from_said(&said);
    let access = &found.all["home-access"];
    assert_eq!(access["level"], "problem");
    assert_lacks!(access["found"].as_str().expect("a text"), "outputs"; "one cause is named once");
    // A check that cannot read its file says so. Advice about the sandbox would be wrong here.
    assert_contains!(found.text("runner"), "could not be checked"; "{:?}", found.all);
    assert_eq!(found.all["confinement"]["level"], "note");
    assert_eq!(user.read("home/state"), "no folder");
}

#[tokio::test]
async fn each_condition_is_found_when_it_is_so() {
    let mut found = BTreeSet::new();
    find_in_the_configuration(&mut found).await;
    find_on_the_way_to_the_backend(&mut found).await;
    let user = CliUser::new();
    let dev = start_dev(&user).await;
    let url = dev.ready["url"].as_str().expect("an address").to_owned();
    user.run_as_caller(&dev.ready, &["send", "Glob", r#"{"pattern": "*"}"#])
        .await
        .ended(0);
    find_in_callers_tokens(&user, &dev, &mut found).await;
    dev.stopped().await;
    find_beside_a_runner(&user, &url, &mut found).await;
    find_after_a_crash_and_in_the_journal(&user, &mut found).await;
    find_in_a_spoilt_home(&user, &mut found).await;

    let all: BTreeSet<String> = describe_checks().map(|(id, _)| id.to_owned()).collect();
    // A test cannot change the kernel's settings, so `namespaces` has a unit test beside its code.
    let missing: Vec<&String> = all
        .difference(&found)
        .filter(|id| *id != "namespaces")
        .collect();
    assert!(missing.is_empty(), "never found: {missing:?}");
}

#[tokio::test]
async fn nothing_is_created_in_a_new_home() {
    let user = CliUser::new();
    user.write("home/config.toml", "");
    for _ in 0..2 {
        let found = run_doctor(&user, &[]).await;
        assert_eq!(found.all["confinement"]["level"], "note");
        let text = found.text("confinement");
        assert_contains!(text, "folders of the home are missing");
        assert_eq!(found.all["home-modes"]["level"], "ok");
    }
    let entries = fs::read_dir(user.path("home")).expect("read");
    let names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["config.toml"]);
}

async fn find_in_the_configuration(found: &mut BTreeSet<String>) {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nleast_fre_mb = 3\n");
    let wrong = run_doctor(&user, &[]).await;
    wrong.assert_found("problem", &["config", "backend-address"], found);
    assert_contains!(wrong.text("config"), "least_free_mb"; "{:?}", wrong.all);

    for (workspace, words) in [
        ("missing", "cannot be used"),
        (".", "contains the runner's home"),
    ] {
        let path = user.text(workspace);
        user.write(
            "home/config.toml",
            &format!("[workspaces]\npaths = [{path:?}]\n"),
        );
        let wrong = run_doctor(&user, &[]).await;
        wrong.assert_found("problem", &["workspaces"], found);
        assert_contains!(wrong.text("workspaces"), words; "{:?}", wrong.all);
        assert_eq!(wrong.all["config"]["level"], "ok");
    }
    let wrong = run_doctor(&user, &["--workspace", &user.text("none")]).await;
    wrong.assert_found("problem", &["workspaces"], found);
    assert_eq!(
        wrong.all.len(),
        1,
        "a wrong flag leaves nothing else to check"
    );

    Home::open_home(&user.path("home")).expect("a home");
    user.write(
        "home/config.toml",
        "[sandbox]\nconfine = false\nrequire = \"full\"\nnetwork = \"full\"\n\
         [mcp.servers.web]\nurl = \"https://example.com/mcp\"\nheaders = { X = \"${secret:none}\" }\n",
    );
    let open = run_doctor(&user, &[]).await;
    open.assert_found("problem", &["confinement", "mcp-servers"], found);
    open.assert_found("note", &["network", "processes"], found);

    let user = CliUser::new();
    user.make_worktree();
    Home::open_home(&user.path("home")).expect("a home");
    let work = user.text("work");
    user.write(
        "home/config.toml",
        &format!("[workspaces]\npaths = [{work:?}]\n"),
    );
    let hidden = run_doctor(&user, &[]).await;
    hidden.assert_found("note", &["repositories"], found);

    let user = CliUser::new();
    user.write("home", "no folder");
    let wrong = run_doctor(&user, &[]).await;
    wrong.assert_found("problem", &["home"], found);
}

async fn find_on_the_way_to_the_backend(found: &mut BTreeSet<String>) {
    let user = CliUser::new();
    user.write("home/config.toml", "");
    let silent = run_doctor(&user, &["--backend-url", "http://127.0.0.1:1"]).await;
    silent.assert_found("problem", &["backend", "paired"], found);
    found.insert("session".to_owned());
    assert_eq!(silent.all["session"]["level"], "note");

    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlogin";
    let url = format!("http://127.0.0.1:{}", answer_always(page));
    let page = run_doctor(&user, &["--backend-url", &url]).await;
    assert_contains!(page.text("backend"), "something else answers"; "{:?}", page.all);

    let dated = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let url = format!("http://127.0.0.1:{}", answer_always(dated));
    let late = run_doctor(&user, &["--backend-url", &url]).await;
    late.assert_found("problem", &["clock"], found);
    assert_eq!(late.all["backend"]["level"], "ok");

    let url = url.replace("http:", "https:");
    let plain = run_doctor(&user, &["--backend-url", &url]).await;
    plain.assert_found("problem", &["tls"], found);
    assert_eq!(
        plain.all["backend"]["level"], "note",
        "one cause, one problem"
    );

    let mut command = user.command(&[
        "doctor",
        "--json",
        "--backend-url",
        "https://backend.invalid",
    ]);
    command.env("HTTPS_PROXY", "http://me:hunter2@127.0.0.1:1");
    let proxied = run_with_input(command, "").await;
    assert_lacks!(proxied.out, "hunter2");
    DoctorFindings::from_said(&proxied).assert_found("problem", &["proxy", "backend"], found);
}

/// Finds the condition of earlier versions, in which agents got the token of the owner's commands.
async fn find_in_callers_tokens(
    user: &CliUser,
    dev: &RunningCommand,
    found: &mut BTreeSet<String>,
) {
    let folder = tokens_of(&dev.ready);
    let usual = run_doctor(user, &[]).await;
    assert_eq!(usual.all["approving-tokens"]["level"], "ok");
    let text = usual.text("approving-tokens");
    assert_contains!(text, &format!("{folder}/approver"));

    let ours = user.read(&format!("{folder}/caller"));
    let both = user.read(&format!("{folder}/approver"));
    user.write(&format!("{folder}/caller"), &both);
    run_doctor(user, &[])
        .await
        .assert_found("note", &["approving-tokens"], found);
    user.write(&format!("{folder}/caller"), &ours);
}

/// Finds the conditions of a running runner: this process holds its lock, and its published files are still there.
async fn find_beside_a_runner(user: &CliUser, url: &str, found: &mut BTreeSet<String>) {
    let home = Home::open_home(&user.path("home")).expect("a home");
    let lock = RunnerLock::try_acquire(&home).expect("free");
    let mut in_force: Value =
        serde_json::from_str(&user.read("home/state/in-force.json")).expect("JSON");
    in_force["pid"] = json!(std::process::id());
    in_force["version"] = json!("99.0.0");
    user.write("home/state/in-force.json", &in_force.to_string());
    user.write(
        "home/config.toml",
        "[sandbox]\nrequire = \"partial\"\n# changed\n",
    );
    let journal = rusqlite::Connection::open(home.journal_file()).expect("the journal");
    journal
        .execute_batch(
            "insert or replace into kv (key, value) values ('degraded', 'audit,other_process,canary'), ('canary', 'exec: no shell');
             insert or replace into backend_fact (backend, key, value)
             select number, 'backend_trouble', 'refused' from backend;",
        )
        .expect("written");
    drop(journal);
    let questions = ApprovalQuestions::in_home(&home);
    let input = QuestionInput::Confirmation;
    for input in [None, Some(input)] {
        questions
            .open_question(&open_question(input))
            .expect("asked");
    }
    let beside = run_doctor(user, &[]).await;
    let problems = [
        "runner-version",
        "config-in-force",
        "other-process",
        "canary",
        "audit",
        "paired",
    ];
    beside.assert_found("problem", &problems, found);
    beside.assert_found("note", &["approvals", "questions"], found);
    assert_contains!(beside.text("backend-address"), url; "{:?}", beside.all);
    assert_contains!(beside.text("audit"), "cannot be written"; "{:?}", beside.all);
    drop(lock);
    fs::remove_file(home.root_dir().join("state/in-force.json")).expect("removed");
}

fn open_question(input: Option<QuestionInput>) -> OpenQuestion {
    let title = "make".to_owned();
    let arguments = "make".to_owned();
    let patience = Duration::from_mins(10);
    OpenQuestion {
        runs_command: true,
        input,
        ..OpenQuestion::new(&RequestId::new(), "Bash", title, arguments, patience)
    }
}

async fn find_after_a_crash_and_in_the_journal(user: &CliUser, found: &mut BTreeSet<String>) {
    let file = user.path("home/state/journal.sqlite3");
    let journal = rusqlite::Connection::open(&file).expect("the journal");
    let changed = journal
        .execute("update request set state = 'undeliverable'", [])
        .expect("changed");
    assert_eq!(changed, 1, "the request that was sent");
    journal
        .pragma_update(None, "journal_mode", "delete")
        .expect("all in one file");
    drop(journal);
    run_doctor(user, &[])
        .await
        .assert_found("note", &["undelivered"], found);

    // Damages all pages of the file from the fourth one on.
    let mut bytes = fs::read(&file).expect("read");
    bytes[4096 * 3..].fill(0xff);
    fs::write(&file, bytes).expect("written");
    let damaged = run_doctor(user, &[]).await;
    damaged.assert_found("problem", &["journal"], found);
    let dev = start_dev(user).await;
    dev.stopped().await;
    let repaired = run_doctor(user, &[]).await;
    repaired.assert_found("problem", &["journal-repair"], found);
    user.run_cli(&["ack"]).await.ended(0);
    let acknowledged = run_doctor(user, &[]).await;
    assert_eq!(acknowledged.all["journal-repair"]["level"], "note");
    assert_eq!(repaired.all["journal"]["level"], "ok");
}

/// Finds the conditions in files of the home and in the environment, all in one run.
async fn find_in_a_spoilt_home(user: &CliUser, found: &mut BTreeSet<String>) {
    let home = Home::open_home(&user.path("home")).expect("a home");
    spoil_files(user, &home);
    let bin = user.path("bin");
    let time = SystemTime::now() - Duration::from_hours(1);
    let left = fs::File::options()
        .write(true)
        .open(user.path("home/.device.json.0123456789abcdef.tmp"))
        .expect("made");
    left.set_modified(time).expect("an hour ago");
    let mut command = user.command(&["doctor", "--json"]);
    command
        .env("PATH", format!(".:{}", bin.display()))
        .env("SHELL", "/nonexistent/shell")
        .env("USER", "nobody-of-this-name")
        .env("PUNIE_NONSENSE", "1");
    let spoilt = DoctorFindings::from_said(&run_with_input(command, "").await);
    let problems = [
        "home-access",
        "home-modes",
        "identity",
        "secrets",
        "policy",
        "skills",
        "agents",
        "plugins",
        "git",
        "service",
        "paused",
        "safe-mode",
        "protected-files",
        "audit",
    ];
    spoilt.assert_found("problem", &problems, found);
    let notes = [
        "home-folders",
        "secret-mounts",
        "temporary-files",
        "trash",
        "logs",
        "variables",
        "workspaces",
        "program",
        "command-path",
        "shell",
        "linger",
        "runner",
        "stopped",
    ];
    spoilt.assert_found("note", &notes, found);
    let free = rustix::fs::statvfs(home.root_dir()).expect("a disk");
    if free.f_bavail * free.f_frsize < 1_000_000 << 20 {
        spoilt.assert_found("problem", &["disk"], found);
    } else {
        found.insert("disk".to_owned());
    }
    assert_contains!(spoilt.text("service"), "(failed)"; "{:?}", spoilt.all);
}

fn spoil_files(user: &CliUser, home: &Home) {
    user.write(
        "home/config.toml",
        "[trash]\nmax_mb = 0\n[limits]\nleast_free_mb = 1000000\n",
    );
    for (file, text) in cases! {
        ("home/policy.toml", "nonsense ="),
        ("home/skills/bad/SKILL.md", "---\nname: [\n---\n"),
        ("home/agents/bad/AGENT.md", "---\nname: [\n---\n"),
        ("home/plugins/bad/plugin.toml", "nonsense ="),
        ("home/state/mounts/left/key", "secret"),
        ("home/.device.json.0123456789abcdef.tmp", "half"),
        ("home/secrets/sealed.json", "not sealed"),
        ("bin/systemctl", "#!/bin/sh\ntest $2 = show || { echo failed; exit 3; }\n"),
    } {
        user.write(file, text);
    }
    let service = service_name(ServiceManager::Systemd, home.root_dir(), false);
    let unit = format!(".config/systemd/user/{service}.service");
    user.write(&unit, "[Service]\n");
    set_mode(&user.path("home/secrets/sealed.json"), 0o600);
    set_mode(&user.path("bin/systemctl"), 0o755);
    set_mode(&home.tokens_dir(), 0o755);
    fs::remove_dir_all(home.threads_dir()).expect("removed");
    fs::remove_dir_all(home.outputs_dir()).expect("removed");
    fs::write(home.outputs_dir(), "no folder").expect("written");
    fs::remove_file(home.key_file()).expect("removed");
    let audit = fs::File::options()
        .append(true)
        .open(home.audit_dir().join("audit.jsonl"));
    audit
        .and_then(|mut file| file.write_all(b"no row\n"))
        .expect("appended");
    let log = fs::File::create(home.logs_dir().join("big")).expect("made");
    log.set_len(100 << 20).expect("a sparse file");
    let switches = OwnerSwitches::in_home(home);
    let on = SwitchState {
        since_ms: 0,
        reason: None,
    };
    for switch in [OwnerSwitch::Paused, OwnerSwitch::SafeMode] {
        switches.switch_on(switch, &on).expect("the switch is on");
    }
    let notice = OwnerNotice {
        at_ms: 0,
        path: "/work/.envrc".to_owned(),
        request: None,
        text: "/work/.envrc was put back".to_owned(),
    };
    switches.add_notice(&notice).expect("the notice is stored");
    let conversation = ConversationId::parse("talk").expect("an id");
    SupervisionStore::in_home(home)
        .stop_conversation(&conversation, "enough")
        .expect("stopped");
}

#[tokio::test]
async fn a_service_manager_that_is_not_reached_is_no_problem() {
    let user = CliUser::new();
    let home = Home::open_home(&user.path("home")).expect("a home");
    let service = service_name(ServiceManager::Systemd, home.root_dir(), false);
    let unit = format!(".config/systemd/user/{service}.service");
    user.write(&unit, "[Service]\n");
    user.write(
        "bin/systemctl",
        "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n",
    );
    set_mode(&user.path("bin/systemctl"), 0o755);
    let mut command = user.command(&["doctor", "--json"]);
    command.env("PATH", user.path("bin"));
    let found = DoctorFindings::from_said(&run_with_input(command, "").await);
    assert_eq!(found.all["service"]["level"], "note");
    let text = found.text("service");
    assert_contains!(text, "could not be asked");
}

#[tokio::test]
async fn fix_mends_what_is_safe_and_leaves_the_owner_s_files() {
    let user = CliUser::new();
    user.write("home/config.toml", "[sandbox]\nrequire = \"partial\"\n");
    let home = Home::open_home(&user.path("home")).expect("a home");
    for (file, text) in [
        ("home/state/mounts/left/key", "secret"),
        ("home/.config.toml.0123456789abcdef.tmp", "half"),
        ("home/.mine.tmp", "mine"),
        ("home/skills/one/notes.txt", "mine"),
        ("home/tokens/a_backend/caller", "token"),
    ] {
        user.write(file, text);
    }
    let old = SystemTime::now() - Duration::from_hours(1);
    for file in ["home/.config.toml.0123456789abcdef.tmp", "home/.mine.tmp"] {
        let file = fs::File::options().write(true).open(user.path(file));
        file.and_then(|file| file.set_modified(old))
            .expect("an old file");
    }
    set_mode(&home.keys_dir(), 0o755);
    set_mode(&user.path("home/tokens/a_backend"), 0o750);
    set_mode(&user.path("home/tokens/a_backend/caller"), 0o644);
    fs::remove_dir(home.threads_dir()).expect("removed");
    let ids = [
        "home-modes",
        "home-folders",
        "secret-mounts",
        "temporary-files",
    ];
    let before = run_doctor(&user, &[]).await;
    for id in ids {
        assert_ne!(before.all[id]["level"], "ok", "{id}");
    }
    let said = user.run_cli(&["doctor", "--fix", "--json"]).await;
    let report = said.json();
    let fixed = report["fixed"].as_array().expect("a list");
    assert_eq!(
        fixed.len(),
        6,
        "three modes, a folder, a mount, a file: {report}"
    );
    let after = DoctorFindings::from_said(&said);
    for id in ids {
        assert_eq!(after.all[id]["level"], "ok", "{:?}", after.all[id]);
    }
    for (file, text) in [
        ("home/.mine.tmp", "mine"),
        ("home/skills/one/notes.txt", "mine"),
        ("home/tokens/a_backend/caller", "token"),
    ] {
        assert_eq!(user.read(file), text);
    }
    let again = user.run_cli(&["doctor", "--fix", "--json"]).await.json();
    assert_eq!(again["fixed"], json!([]), "nothing is left to do");
}
