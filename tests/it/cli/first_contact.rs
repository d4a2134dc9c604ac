//! The first contact of a new user: no backend, the user's own folder, a first configuration, a wrong code.

use std::io::Write as _;
use std::process::Stdio;
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::{CliUser, within_limit};
use crate::harness::terminal::{open_terminal, read_screen};
use crate::harness::wait::wait_until;

/// Runs the program in this folder, on a terminal with this input. Returns the screen and the exit code.
async fn on_terminal(user: &CliUser, folder: &str, args: &[&str], typed: &str) -> (String, i32) {
    let mut command = user.command(args);
    command.current_dir(user.path(folder));
    let (mut child, screen) = start_on_terminal(command, typed);
    let ended = within_limit(child.wait()).await.expect("waited for");
    (screen.join().expect("read"), ended.code().unwrap_or(-1))
}

/// Starts a command on a terminal with this input. A thread reads the screen until its end.
fn start_on_terminal(mut command: Command, typed: &str) -> (Child, JoinHandle<String>) {
    let (mut ours, theirs) = open_terminal();
    let side = || Stdio::from(theirs.try_clone().expect("a copy"));
    ours.write_all(typed.as_bytes()).expect("typed");
    command.stdin(side()).stdout(side()).stderr(side());
    let child = command.spawn().expect("started");
    (child, read_screen(ours))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_paired_device_is_offered_the_service() {
    let host = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let url = backend.ready["url"].as_str().expect("a text");
    // This test pairs three homes with one code.
    let renew = [
        "--backend-url",
        url,
        "operator",
        "pairing",
        "renew",
        "--uses",
        "3",
    ];
    let renewed = host.run_cli(&renew).await.done();
    let pairing = format!("2\n{url}\n{}\n", renewed.out.trim());

    let user = CliUser::new();
    let (mut child, screen) = start_on_terminal(user.managed(&[]), &format!("{pairing}y\n"));
    let ended = within_limit(child.wait()).await.expect("waited for");
    let shown = screen.join().expect("read");
    assert!(ended.success(), "{shown}");
    assert_contains!(shown, "Install it as a service", "Installed punie-runner");
    let plain = shown.lines().filter(|line| !line.contains('\x1b'));
    let widest = plain.map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{shown}");
    let (_, unit) = user.unit();
    let folder = format!("\"--workspace\" \"{}\" \"run\"", user.text("work"));
    assert_contains!(unit, &folder);

    for (has_manager, typed) in [(true, "\n"), (false, "")] {
        let user = CliUser::new();
        if !has_manager {
            user.write("no-session", "");
        }
        let typed = format!("{pairing}{typed}");
        let (mut child, screen) = start_on_terminal(user.managed(&[]), &typed);
        let runs = user.path("home/state/in-force.json");
        wait_until("the runner", || runs.exists()).await;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::INT).expect("it runs");
        within_limit(child.wait()).await.expect("waited for");
        let shown = screen.join().expect("read");
        assert_eq!(shown.contains("[y/N]"), has_manager, "{shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        let command = format!(
            "punie-runner --workspace {} service install",
            user.text("work")
        );
        let advice = format!("To keep it running in the background: {command}");
        assert_contains!(words.join(" "), &advice; "{shown}");
        assert!(!user.path(".config").exists(), "{shown}");
    }
}

#[tokio::test]
async fn a_runner_without_a_backend_asks_what_to_do() {
    let host = CliUser::new();
    let user = CliUser::new();
    let (shown, code) = on_terminal(&user, "work", &[], "x\nq\n").await;
    assert!(
        shown.contains("1  try it here") && shown.matches("[1/2/q]").count() == 2,
        "{shown}"
    );
    assert_eq!(code, 0, "{shown}");
    let backend = host.serves(&["backend", "--json"]).await;
    let url = backend.ready["url"].as_str().expect("a text");
    let typed = format!("2\n{url}\nWRONG-CODE\n");
    let (shown, code) = on_terminal(&user, "work", &[], &typed).await;
    assert_contains!(shown, "does not accept this pairing code");
    assert_eq!(code, 77, "{shown}");
}

#[tokio::test]
async fn a_pairing_names_the_next_step_and_a_missing_one_too() {
    let host = CliUser::new();
    let user = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let url = &backend.ready["url"];
    let code = &backend.ready["pairingCode"];
    let url = url.as_str().expect("a text");
    let place = ["--backend-url", url, "--workspace", "."];
    let unpaired = user
        .run_cli(&[&place[..], &["run", "--once"]].concat())
        .await;
    let advice = format!(
        "punie-runner: This device is not paired with {url}. Get a code there, then run: punie-runner --backend-url \
         {url} pair CODE\n"
    );
    assert_ends_with!(unpaired.err, &advice);
    assert_eq!(
        unpaired.err.lines().count(),
        2,
        "a warning and the advice: {unpaired:?}"
    );
    let code = code.as_str().expect("a text");
    let paired = user
        .run_cli(&[&place[..], &["pair", code]].concat())
        .await
        .done();
    assert_contains!(paired.out, "is paired (", "Next: punie-runner");
    let again = user
        .run_cli(&[&place[..], &["pair", "WRONG-CODE"]].concat())
        .await
        .done();
    assert_contains!(again.out, "was already paired: the code was not needed");
}

#[tokio::test]
async fn init_takes_the_folder_it_stands_in_and_replaces_a_broken_file() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads = 0\n");
    let said = user.run_cli(&["init", "--force"]).await.done();
    assert_contains!(said.err, "config.toml.old");
    assert_eq!(user.read("home/config.toml.old"), "[limits]\nreads = 0\n");
    let folder = format!("\npaths = [\"{}\"]\n", user.text("work"));
    assert_contains!(user.read("home/config.toml"), &folder; "{said:?}");
    assert_contains!(said.out, "Next: punie-runner --backend-url URL pair CODE");
    let url = ["--backend-url", "https://a.convex.cloud", "init", "--force"];
    let said = user.run_cli(&url).await.done();
    assert_contains!(said.out, "Next: punie-runner pair CODE");
}

#[tokio::test]
async fn init_beside_a_file_offers_to_add_the_folder() {
    let user = CliUser::new();
    let work = user.text("work");
    let other = user.text("other");
    let written = format!("# mine\n[workspaces]\npaths = [\n  \"{work}\", # first\n]\n");
    user.write("home/config.toml", &written);
    for folder in ["work/below", "other"] {
        std::fs::create_dir(user.path(folder)).expect("made");
    }
    let init_in = async |folder: &str, args: &[&str]| {
        let mut command = user.command(&[args, &["init"]].concat());
        command.current_dir(user.path(folder));
        super::run_with_input(command, "").await
    };
    for (folder, args) in [
        ("work", &[][..]),
        ("work/below", &[]),
        ("other", &["--workspace", &work]),
    ] {
        let said = init_in(folder, args).await.done();
        assert_contains!(said.out, "There is nothing to do");
    }
    let line = format!("paths = [\"{work}\", \"{other}\"]");
    for (folder, args) in [("other", &[][..]), ("work", &["--workspace", &other])] {
        init_in(folder, args).await.refused(1, &line);
    }
    init_in("", &[]).await.refused(1, "cannot be a workspace");
    let (shown, code) = on_terminal(&user, "other", &["init"], "n\n").await;
    assert!(
        code == 1 && shown.contains("Nothing was changed"),
        "{shown}"
    );
    assert_eq!(user.read("home/config.toml"), written);
    let (shown, code) = on_terminal(&user, "other", &["init"], "y\n").await;
    assert!(code == 0 && shown.contains("Added "), "{shown}");
    let changed = written.replace("\", #", &format!("\", \"{other}\", #"));
    assert_eq!(user.read("home/config.toml"), changed);
    user.write("home/config.toml", "[limits]\nreads = 0\n");
    init_in("work", &[])
        .await
        .refused(78, "--force replaces it");
}

#[tokio::test]
async fn a_worktree_as_workspace_brings_one_question_about_its_repository() {
    let user = CliUser::new();
    let repository = user.make_worktree();
    let allow = format!("policy allow --folder {repository}");
    let said = user.run_cli(&["init", "--force"]).await.done();
    assert_contains!(said.err, &allow);
    let dev = user.serves(&["dev", "--json"]).await;
    let status = user.run_cli(&["status", "--json"]).await.json();
    let attention = status["attention"].as_array().expect("a list");
    let item = attention
        .iter()
        .find(|item| item["about"] == "repositories");
    let command = item.and_then(|item| item["command"].as_str());
    assert!(
        command.is_some_and(|command| command.contains(&allow)),
        "{status}"
    );
    let found = user.run_cli(&["doctor", "--json"]).await.json();
    let checks = found["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["id"] == "repositories");
    let mend = check.and_then(|check| check["mend"].as_str());
    assert!(mend.is_some_and(|mend| mend.contains(&allow)), "{found}");
    dev.stopped().await;
    for (answer, decision, code_of_call) in [("n\n", "deny", 1), ("y\n", "allow", 0)] {
        let (shown, code) = on_terminal(&user, "work", &["init", "--force"], answer).await;
        assert!(code == 0 && shown.contains("Let git use it?"), "{shown}");
        assert_contains!(shown, "policy revoke");
        let rules = user.read("home/policy.toml");
        let rule = format!("decision = \"{decision}\"");
        assert_contains!(rules, &rule);
        let name = rules.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.expect("a name").trim_matches('"');
        let said = user.run_cli(&["call", "GitStatus", "{}"]).await;
        assert_eq!(said.code, code_of_call, "{said:?}");
        // After either answer, `init` does not ask again.
        let said = user.run_cli(&["init", "--force"]).await.done();
        assert_lacks!(said.err, "policy allow");
        let allow = ["policy", "allow", "--folder", &repository, "--name", "more"];
        let said = user.run_cli(&allow).await.done();
        let told = format!("the rule {name} denies it");
        assert_eq!(said.out.contains(&told), decision == "deny", "{said:?}");
        for name in [name, "more"] {
            user.run_cli(&["policy", "revoke", name]).await.done();
        }
    }
}

#[tokio::test]
async fn the_user_s_own_folder_gives_the_folders_below_it() {
    let user = CliUser::new();
    user.write("private.txt", "mine");
    user.write(".ssh/id", "key");
    user.write("docs/a.md", "text");
    for (path, code) in [
        ("docs/a.md", 0),
        ("private.txt", 1),
        (".ssh/id", 1),
        ("home/device.json", 1),
    ] {
        let args = format!(r#"{{"file_path":{:?}}}"#, user.text(path));
        let mut command = user.command(&["call", "Read", &args]);
        command.current_dir(user.path(""));
        let said = super::run_with_input(command, "").await;
        assert_eq!(said.code, code, "{path}: {said:?}");
    }
    let empty = CliUser::new();
    std::fs::remove_dir(empty.path("work")).expect("removed");
    let mut command = empty.command(&["call", "Read", "{}"]);
    command.current_dir(empty.path(""));
    super::run_with_input(command, "")
        .await
        .refused(78, "mkdir project");
}

/// Makes another runner's home, as `backend` does, with a secret in it.
async fn make_other_home(user: &CliUser, folder: &str) -> String {
    let home = user.text(folder);
    user.run_cli(&["--home", &home, "status"]).await;
    user.write(&format!("{folder}/tokens/127.0.0.1_1/admin"), "the-key");
    home
}

#[tokio::test]
async fn the_home_of_another_runner_is_no_workspace() {
    let user = CliUser::new();
    let home = make_other_home(&user, "be").await;
    let key = format!("file_path={home}/tokens/127.0.0.1_1/admin");
    let mut command = user.command(&["call", "Read", &key]);
    command.current_dir(user.path(""));
    let said = super::run_with_input(command, "").await;
    assert!(!said.out.contains("the-key") && said.code == 1, "{said:?}");
    for folder in [home.clone(), format!("{home}/tokens")] {
        user.run_cli(&["--workspace", &folder, "call", "Read", &key])
            .await
            .refused(78, "a home of punie-runner");
    }
}

#[tokio::test]
async fn the_home_of_another_runner_in_a_workspace_is_hidden() {
    let user = CliUser::new();
    let home = make_other_home(&user, "work/sub/be").await;
    user.write("work/sub/be/agents.txt", "the-key");
    let list = format!("{{\"path\":{:?},\"recursive\":true}}", user.text("work"));
    for (args, code) in cases! {
        (vec!["Read", "file_path=sub/be/tokens/127.0.0.1_1/admin"], 1),
        (vec!["Write", "file_path=sub/be/policy.toml", "content=x"], 1),
        (vec!["Grep", "pattern=the.key"], 0),
        (vec!["Grep", "pattern=the.key", "path=sub/be/agents.txt"], 1),
        (vec!["Glob", "pattern=**/adm*"], 0),
        (vec!["list_files", &list], 0),
        (vec!["Bash", "--", "cat sub/be/tokens/*/a* || true"], 0),
    } {
        let said = user.run_cli(&[&["call"], &args[..]].concat()).await;
        let is_shown = said.out.contains("the-key") || code == 0 && said.out.contains("admin");
        assert!(!is_shown && said.code == code, "{args:?}: {said:?}");
    }
    assert!(!user.path("work/sub/be/policy.toml").exists(), "{home}");
}

#[tokio::test]
async fn the_next_step_after_pairing_names_the_workspaces_of_this_folder() {
    let host = CliUser::new();
    let user = CliUser::new();
    user.write("agent/a.md", "text");
    let backend = host.serves(&["backend", "--json"]).await;
    let url = &backend.ready["url"];
    let code = &backend.ready["pairingCode"];
    let url = url.as_str().expect("a text");
    let code = code.as_str().expect("a text");
    let mut command = user.command(&["--backend-url", url, "pair", code]);
    command.current_dir(user.path(""));
    let said = super::run_with_input(command, "").await.done();
    assert_contains!(
        said.out,
        "it works in ~/agent (commands start here), ~/work."
    );
}
