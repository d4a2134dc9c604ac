//! Code that a command plants in a workspace to run later as the owner: by the next `git status`, rebase, shell or
//! editor. The owner's part is done by a real git, outside any sandbox.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_home::{Home, OwnerNotice, OwnerSwitches};
use punie_host::Workspace;
use punie_host::local::protected_path_records::{
    FileContent, ProtectedPathChange, ProtectedPathRecords,
};
use punie_sandbox::NetworkAccess;
use punie_sandbox::running_covers::has_lost_cover;
use punie_undo::{BeforeImageStore, Trash, TrashLimits};
use serde_json::{Value, json};

use super::HostileFixture;
use super::absence::OtherKernel;
use super::kept_from_commands::make_repository;
use crate::file::Bench;
use crate::harness::tools;
use crate::harness::wait::{wait_for_some, wait_until};

/// The records of protected paths as in the program: the real trash and notices, without the log and the audit.
struct ProtectedRecords {
    store: BeforeImageStore,
    trash: Trash,
    switches: OwnerSwitches,
}

impl ProtectedPathRecords for ProtectedRecords {
    fn put_back(
        &self,
        path: &Path,
        content: Option<&FileContent>,
        kept: Option<&RequestId>,
    ) -> std::io::Result<Option<RequestId>> {
        self.store.put_back(path, content, kept)
    }

    fn is_undone(&self, request: &RequestId) -> bool {
        self.trash.is_undone(request)
    }

    fn notify_owner(&self, change: &ProtectedPathChange) {
        let notice = OwnerNotice {
            at_ms: 1,
            path: change.path.display().to_string(),
            request: change.request.as_ref().map(ToString::to_string),
            text: change.text.clone(),
        };
        self.switches.add_notice(&notice).expect("written");
    }
}

/// A sandbox whose guard is on: the part of the runner that watches protected paths while commands run, with a trash and
/// the owner's notices.
struct GuardedFixture {
    sandbox: HostileFixture,
    trash: Trash,
    switches: OwnerSwitches,
    workspace: Workspace,
}

impl GuardedFixture {
    fn new() -> Self {
        let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |_| {});
        let home = Home::open_home(&setup.path("punie")).expect("a home");
        let limits = TrashLimits {
            max_bytes: 1 << 30,
            keep: Duration::from_hours(1),
        };
        let trash = Trash::new(&home, limits);
        let workspace = Workspace::open_roots(&[setup.path("work")]).expect("a workspace");
        let switches = OwnerSwitches::in_home(&home);
        setup
            .confinement
            .set_protected_path_records(Arc::new(ProtectedRecords {
                store: BeforeImageStore::new(trash.clone(), workspace.clone()),
                trash: trash.clone(),
                switches: switches.clone(),
            }));
        Self {
            sandbox: setup,
            trash,
            switches,
            workspace,
        }
    }

    /// Waits until the owner is notified about this path.
    async fn wait_for_notice(&self, path: &str) -> OwnerNotice {
        let find = async || {
            let notices = self.switches.list_notices();
            notices
                .into_iter()
                .find(|notice| notice.path.ends_with(path))
        };
        wait_for_some(&format!("a notice about {path}"), find).await
    }

    /// Runs a command as the owner, in a folder of the workspace.
    fn owner(&self, folder: &str, command: &str) -> Output {
        run_as_owner(
            &self.sandbox.path("work").join(folder),
            &self.sandbox.path(""),
            command,
        )
    }

    fn attack_ran(&self) -> bool {
        self.sandbox.path("marker").exists()
    }
}

fn run_as_owner(folder: &Path, out: &Path, command: &str) -> Output {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(folder)
        .env("OUT", out)
        .env("HOME", out.join("user"));
    for (name, value) in [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
        ("GIT_EDITOR", "true"),
    ] {
        shell.env(name, value);
    }
    shell.output().expect("a shell")
}

/// A way to run code as the owner: the script that plants it, the owner's next command, and the path that the notice
/// names.
struct PlantedAttack {
    plant: &'static str,
    owner: &'static str,
    told: &'static str,
}

const ATTACKS: &[PlantedAttack] = &[
    PlantedAttack {
        plant: "mkdir evil; cp -r .git/objects .git/refs .git/HEAD evil/; evil > evil/config; echo ../evil > .git/commondir",
        owner: "git status",
        told: ".git/commondir",
    },
    PlantedAttack {
        plant: "rm -rf .git/hooks; mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch %s/marker\\n' \"$OUT\" > .git/hooks/pre-commit
                chmod +x .git/hooks/pre-commit",
        owner: "git commit --allow-empty -m x",
        told: ".git/hooks/pre-commit",
    },
    PlantedAttack {
        // The copy may be covered by then.
        plant: "mv proj p_; cp -r p_ proj; evil > proj/.git/config || touch refused",
        owner: "cd proj && git status",
        told: "proj/.git/config",
    },
    PlantedAttack {
        plant: "r=.git/rebase-merge; mkdir $r; echo refs/heads/main > $r/head-name; git rev-parse HEAD > $r/onto
                cp $r/onto $r/orig-head; : > $r/interactive; echo 1 > $r/msgnum; echo 1 > $r/end
                echo \"exec touch $OUT/marker\" > $r/git-rebase-todo",
        owner: "git rebase --continue",
        told: "rebase-merge/git-rebase-todo",
    },
    PlantedAttack {
        plant: "echo garbage > .git/HEAD; echo ref: refs/heads/main > HEAD; mkdir objects refs; evil > config
                printf '\\tworktree = .\\n' >> config",
        owner: "git status",
        told: "work/config",
    },
    PlantedAttack {
        plant: "mkdir -p a/b/c/d && cd a/b/c/d && git init -q && git commit -q --allow-empty -m x && evil > .git/config
                h=$(git -c core.fsmonitor=false rev-parse HEAD) && cd ../../../..
                git update-index --add --cacheinfo 160000,$h,a/b/c/d",
        owner: "git status",
        told: "a/b/c/d/.git/config",
    },
    PlantedAttack {
        plant: "echo 'touch $OUT/marker' > .envrc",
        owner: "test ! -e .envrc || . ./.envrc",
        told: "work/.envrc",
    },
    PlantedAttack {
        plant: "mkdir .vscode; echo 'touch $OUT/marker' > .vscode/tasks.json",
        owner: "test ! -e .vscode/tasks.json || . ./.vscode/tasks.json",
        told: ".vscode/tasks.json",
    },
];

/// Creates a repository with a project in it, and the script of an attack.
fn lay_out(work: &Path, out: &Path, attack: &PlantedAttack) {
    let script = format!(
        "export GIT_AUTHOR_NAME=a GIT_COMMITTER_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_EMAIL=a@b
         evil() {{ printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch %s/marker;false\\n' \"$OUT\"; }}
         {}\n",
        attack.plant
    );
    let made = run_as_owner(
        work,
        out,
        "git init -q -b main . && rm -rf .git/hooks && git init -q -b main proj && cd proj && git commit -q --allow-empty -m p && cd ..
         echo plant.sh > .git/info/exclude && echo one > a.txt && git add a.txt && git commit -q -m one",
    );
    assert!(made.status.success(), "{made:?}");
    std::fs::write(work.join("plant.sh"), script).expect("written");
}

#[test]
fn each_attack_runs_code_where_nothing_guards() {
    for attack in ATTACKS {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        let marker = folder.path().join("marker");
        std::fs::create_dir_all(&work).expect("made");
        lay_out(&work, folder.path(), attack);
        run_as_owner(&work, folder.path(), "sh plant.sh");
        assert!(
            !marker.exists(),
            "{}: planting must not run it",
            attack.told
        );
        let ran = run_as_owner(&work, folder.path(), attack.owner);
        assert!(marker.exists(), "{}: {ran:?}", attack.told);
    }
}

async fn planted_code_does_not_run(command: &str) {
    for attack in ATTACKS {
        let guarded = GuardedFixture::new();
        lay_out(
            &guarded.sandbox.path("work"),
            &guarded.sandbox.path(""),
            attack,
        );
        let said = guarded.sandbox.bash(command).await;
        let planted = guarded.sandbox.path("work/planted");
        wait_until("the attack is done", || planted.exists()).await;
        if !guarded.sandbox.path("work/refused").exists() {
            let notice = guarded.wait_for_notice(attack.told).await;
            assert_contains!(notice.text, "while a command ran");
        }
        let ran = guarded.owner("", attack.owner);
        assert!(!guarded.attack_ran(), "{}: {said} {ran:?}", attack.told);
    }
}

#[tokio::test]
async fn what_a_command_plants_does_not_run_and_the_owner_is_told() {
    planted_code_does_not_run("sh plant.sh; touch planted").await;
}

#[tokio::test]
async fn what_a_process_plants_after_its_command_does_not_run_either() {
    let late = "(setsid nohup sh -c 'sleep 1; sh plant.sh; touch planted' >/dev/null 2>&1 &)";
    planted_code_does_not_run(late).await;
}

#[tokio::test]
async fn a_configuration_that_lost_its_cover_is_put_back_as_the_owner_wrote_it() {
    let guarded = GuardedFixture::new();
    let work = guarded.sandbox.path("work");
    make_repository(&work);
    let begun = json!({"command": "touch begun; sleep 600", "run_in_background": true});
    guarded.sandbox.call(begun).await.expect("it starts");
    // The file is covered by a read-only mount once the command runs.
    wait_until("the command runs", || work.join("begun").exists()).await;
    let configured = guarded.owner(
        "",
        "git config branch.main.description mine && git config core.fsmonitor \"touch $OUT/marker;false\"",
    );
    assert!(configured.status.success(), "{configured:?}");
    // While a command runs, a new key that runs a program counts as the command's change.
    let notice = guarded.wait_for_notice(".git/config").await;
    assert_contains!(notice.text, "were taken out");
    wait_until("the key to be taken out", || {
        let text = guarded.sandbox.read("work/.git/config");
        text.contains("description = mine") && !text.contains("fsmonitor")
    })
    .await;
    let ran = guarded.owner("", "git status");
    assert!(ran.status.success() && !guarded.attack_ran(), "{ran:?}");
    // If a folder is read-only to the command as a whole, every change in it is the owner's.
    std::fs::write(work.join(".vscode/settings.json"), "mine").expect("written");
    std::fs::write(work.join(".vscode/new"), "{\"a\": 1}").expect("written");
    std::fs::rename(work.join(".vscode/new"), work.join(".vscode/tasks.json")).expect("renamed");
    // If the change was the owner's, one `undo` restores it, and it stays.
    let request = notice.request.expect("an entry of the trash");
    guarded
        .trash
        .undo_request(&guarded.workspace, &request, false)
        .expect("undone");
    let again = json!({"command": "echo x > .mcp.json"});
    guarded.sandbox.call(again).await.expect("it runs");
    guarded.wait_for_notice("work/.mcp.json").await;
    assert_contains!(guarded.sandbox.read("work/.git/config"), "fsmonitor");
    assert_eq!(guarded.sandbox.read("work/.vscode/settings.json"), "mine");
    assert_eq!(
        guarded.sandbox.read("work/.vscode/tasks.json"),
        "{\"a\": 1}"
    );
    let end = json!({"shell_id": "sh_1"});
    tools::call_tool(&guarded.sandbox.registry, "KillShell", end)
        .await
        .expect("it ends");
}

#[tokio::test]
async fn a_file_that_the_owners_git_replaces_is_covered_again_and_the_command_goes_on() {
    let guarded = GuardedFixture::new();
    let work = guarded.sandbox.path("work");
    make_repository(&work);
    let command = "echo $$ > pid; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo x >> .git/config && echo wrote > result || echo \
                   refused > result; sleep 600";
    let begun = json!({"command": command, "run_in_background": true});
    guarded.sandbox.call(begun).await.expect("it starts");
    wait_until("the command runs", || work.join("begun").exists()).await;
    let process = guarded
        .sandbox
        .read("work/pid")
        .trim()
        .parse()
        .expect("an id");
    for command in [
        "git config branch.main.description mine",
        "git remote add up https://example.com/x.git && git config --unset branch.main.description",
        "git config branch.main.description theirs && git config branch.main.description ours",
    ] {
        let configured = guarded.owner("", command);
        assert!(configured.status.success(), "{configured:?}");
        wait_until("the file to be covered again", || {
            !has_lost_cover(process, &work.join(".git/config")).expect("it runs")
        })
        .await;
    }
    std::fs::write(work.join("go"), "").expect("written");
    wait_until("the command goes on", || work.join("result").exists()).await;
    wait_until("the command's result", || {
        !guarded.sandbox.read("work/result").is_empty()
    })
    .await;
    assert_eq!(guarded.sandbox.read("work/result"), "refused\n");
    let text = guarded.sandbox.read("work/.git/config");
    assert_contains!(text, "description = ours", "example.com");
    assert!(guarded.switches.list_notices().is_empty());
    let end = json!({"shell_id": "sh_1"});
    tools::call_tool(&guarded.sandbox.registry, "KillShell", end)
        .await
        .expect("it ends");
}

/// Between two tries of a background command that appends to the settings: a short sleep, and none.
const PAUSES: &[&str] = &["sleep 0.02", ":"];

#[tokio::test]
async fn a_command_that_keeps_appending_to_the_git_settings_is_reverted() {
    for pause in PAUSES {
        let guarded = GuardedFixture::new();
        let work = guarded.sandbox.path("work");
        make_repository(&work);
        for round in 1..=5 {
            let begun = format!("begun{round}");
            let command = format!(
                "touch {begun}; while :; do printf '[core]\\n\\tfsmonitor = \"touch %s/marker;false\"\\n' \"$OUT\" >> .git/config; \
                 {pause}; done 2>/dev/null"
            );
            let call = json!({"command": command, "run_in_background": true, "env": {"OUT": guarded.sandbox.path("")}});
            guarded.sandbox.call(call).await.expect("it starts");
            wait_until("the command runs", || work.join(&begun).exists()).await;
            let ran = guarded.owner("", &format!("git config branch.main.description d{round}"));
            assert!(ran.status.success(), "{ran:?}");
            // `manual-tests/race_for_git_settings.sh` measures how often git runs the key before that.
            // Most of its writes are refused, and none needs to land.
            wait_until("only the owner's settings in .git/config", || {
                let text = guarded.sandbox.read("work/.git/config");
                text.contains(&format!("description = d{round}")) && !text.contains("fsmonitor")
            })
            .await;
            let end = json!({"shell_id": format!("sh_{round}")});
            let _ = tools::call_tool(&guarded.sandbox.registry, "KillShell", end).await;
            let text = guarded.sandbox.read("work/.git/config");
            assert_lacks!(text, "fsmonitor");
        }
    }
}

#[tokio::test]
async fn what_a_command_writes_later_into_an_open_settings_file_never_reaches_the_owners_git() {
    let guarded = GuardedFixture::new();
    let work = guarded.sandbox.path("work");
    make_repository(&work);
    // The command opens the file as soon as it can, and writes to it only much later.
    let command = "touch begun; while ! { exec 9>>.git/config; } 2>/dev/null; do :; done; touch opened; sleep 2; \
                   printf '[core]\\n\\tfsmonitor = \"touch %s/marker;false\"\\n' \"$OUT\" >&9; touch planted; sleep 600";
    let begun = json!({"command": command, "run_in_background": true, "env": {"OUT": guarded.sandbox.path("")}});
    guarded.sandbox.call(begun).await.expect("it starts");
    wait_until("the command runs", || work.join("begun").exists()).await;
    for round in 0..200 {
        let configured = guarded.owner("", &format!("git config branch.main.description d{round}"));
        assert!(configured.status.success(), "{configured:?}");
        if work.join("opened").exists() {
            break;
        }
    }
    // Often the guard freezes the command before git replaces the file, so the command opens nothing. If git has
    // replaced the opened file once more, the command may write to the old one.
    if work.join("opened").exists() {
        let status = json!({"shell_id": "sh_1"});
        wait_for_some("the write, or the end of the shell", async || {
            let said =
                tools::call_tool(&guarded.sandbox.registry, "ShellStatus", status.clone()).await;
            let is_ended = said.is_ok_and(|said| format!("{said:?}").contains("SIGKILL"));
            (is_ended || work.join("planted").exists()).then_some(())
        })
        .await;
    }
    wait_until("only the owner's settings in .git/config", || {
        !guarded
            .sandbox
            .read("work/.git/config")
            .contains("fsmonitor")
    })
    .await;
    let ran = guarded.owner("", "git status");
    assert!(ran.status.success() && !guarded.attack_ran(), "{ran:?}");
    let end = json!({"shell_id": "sh_1"});
    let _ = tools::call_tool(&guarded.sandbox.registry, "KillShell", end).await;
}

#[tokio::test]
async fn a_process_that_writes_a_protected_file_in_a_loop_is_ended() {
    let guarded = GuardedFixture::new();
    let work = guarded.sandbox.path("work");
    let command = "i=0; while :; do i=$((i+1)); echo \"touch $OUT/marker #$i\" > .envrc; echo $i > alive; sleep 0.02; done";
    let begun = json!({"command": command, "run_in_background": true, "env": {"OUT": guarded.sandbox.path("")}});
    guarded.sandbox.call(begun).await.expect("it starts");
    wait_until("a notice that the commands were ended", || {
        let notices = guarded.switches.list_notices();
        notices.iter().any(|notice| {
            notice.path.ends_with("work/.envrc") && notice.text.contains("ended the commands")
        })
    })
    .await;
    let status = json!({"shell_id": "sh_1"});
    wait_for_some("the end of the shell", async || {
        let said = tools::call_tool(&guarded.sandbox.registry, "ShellStatus", status.clone()).await;
        said.ok()
            .filter(|said| format!("{said:?}").contains("SIGKILL"))
    })
    .await;
    let alive = guarded.sandbox.read("work/alive");
    wait_until("the last file to be put back", || {
        !work.join(".envrc").exists()
    })
    .await;
    // Ten times as long as a living process takes for its next write.
    guarded.owner("", "sleep 0.2");
    let later = guarded.sandbox.read("work/alive");
    assert_eq!(later, alive, "the process still runs");
}

#[tokio::test]
async fn a_submodule_that_a_running_process_adds_is_found_before_the_next_scan() {
    let guarded = GuardedFixture::new();
    make_repository(&guarded.sandbox.path("work"));
    let command = "mkdir -p a/b/deep && git init -q a/b/deep && cd a/b/deep && git -c user.name=x -c user.email=x commit -q \
                   --allow-empty -m x && head=$(git rev-parse HEAD) && cd ../../.. && git update-index --add --cacheinfo \
                   160000,$head,a/b/deep && sleep 1 && printf '[core]\\n\\tfsmonitor = \"touch %s/marker;false\"\\n' \"$OUT\" >> \
                   a/b/deep/.git/config; sleep 600";
    let begun = json!({"command": command, "run_in_background": true, "env": {"OUT": guarded.sandbox.path("")}});
    guarded.sandbox.call(begun).await.expect("it starts");
    // The comparison each minute would find it anyway.
    let told = tokio::time::timeout(
        Duration::from_secs(30),
        guarded.wait_for_notice("a/b/deep/.git/config"),
    );
    told.await.expect("long before the minute is over");
    let ran = guarded.owner("", "git status");
    assert!(ran.status.success() && !guarded.attack_ran(), "{ran:?}");
    let end = json!({"shell_id": "sh_1"});
    tools::call_tool(&guarded.sandbox.registry, "KillShell", end)
        .await
        .expect("it ends");
}

#[tokio::test]
async fn ordinary_work_with_git_causes_no_notice() {
    let guarded = GuardedFixture::new();
    make_repository(&guarded.sandbox.path("work"));
    let identity = "export GIT_AUTHOR_NAME=a GIT_COMMITTER_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_EMAIL=a@b; set -e; ";
    for command in [
        "echo two >> a.txt; git commit -qam two; git checkout -q -b topic; echo three >> a.txt; git stash -q; git stash pop -q
         git commit -qam three; git checkout -q main; git merge -q topic; git gc -q",
        "git rebase -q -x true HEAD~1; git worktree add -q tree -b other; git clone -q . clone",
        "git init -q made; cd made; git commit -q --allow-empty -m x; git remote add up https://example.com/x.git
         git -c protocol.file.allow=always submodule --quiet add \"$PWD/../clone\" sub; git commit -qm sub; git status --porcelain",
        "cd made/sub && git checkout -q -b x && git commit -q --allow-empty -m y; cd ../../tree && git commit -q --allow-empty -m z",
        "mkdir -p deep/a/b && git clone -q --bare . deep/a/b/bare && git clone -q . deep/a/b/c; mv deep other; cp -r sub copy",
        "rm -rf other/a/b/c; git worktree list",
    ] {
        let text = guarded.sandbox.bash(&format!("{identity}{command}; echo done")).await;
        assert_contains!(text, "done"; "{command}");
    }
    // The guard reports this repository only after it has walked through the whole workspace.
    let command =
        format!("{identity} mkdir -p z/z/z && cd z/z/z && git init -q && git config core.pager x");
    guarded.sandbox.bash(&command).await;
    guarded.wait_for_notice("z/z/z/.git/config").await;
    let notices = guarded.switches.list_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
}

#[tokio::test]
async fn a_file_that_is_created_and_not_yet_written_stays_and_what_is_written_then_is_compared() {
    let guarded = GuardedFixture::new();
    make_repository(&guarded.sandbox.path("work"));
    // `git worktree add` begins like this: the guard may look between creating a file and writing it.
    let text = guarded
        .sandbox
        .bash("mkdir -p .git/worktrees/t tree; : > .git/worktrees/t/commondir; : > .git/worktrees/t/HEAD; : > tree/.git; echo made")
        .await;
    assert_eq!(text, "made");
    for path in [
        ".git/worktrees/t/commondir",
        ".git/worktrees/t/HEAD",
        "tree/.git",
    ] {
        assert!(guarded.sandbox.path("work").join(path).exists(), "{path}");
    }
    guarded
        .sandbox
        .bash("mkdir -p .git/worktrees/u; : > .git/worktrees/u/commondir; echo /elsewhere > .git/worktrees/u/commondir")
        .await;
    guarded.wait_for_notice(".git/worktrees/u/commondir").await;
    let notices = guarded.switches.list_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
}

#[tokio::test]
async fn file_tools_cannot_create_a_repository_or_write_protected_git_files() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.root.join(".git/info")).expect("made");
    for path in [
        ".git/HEAD",
        ".git/rebase-merge/git-rebase-todo",
        ".git/info/attributes",
        ".git/x",
    ] {
        let error = bench
            .refused("Write", json!({"file_path": path, "content": "x"}))
            .await;
        assert_contains!(error.model_text(), "protected-path"; "{path}");
    }
    for path in [".git/info/exclude", "HEAD", "objects/x", "config"] {
        bench
            .ok("Write", json!({"file_path": path, "content": "x"}))
            .await;
    }
    let error = bench
        .refused("Write", json!({"file_path": "refs/x", "content": "x"}))
        .await;
    assert_contains!(error.model_text(), "takes a folder with HEAD");
    let patch = "*** Begin Patch\n*** Add File: a/HEAD\n+x\n*** Add File: a/objects/x\n+x\n*** Add File: a/refs/x\n+x\n*** End Patch";
    let error = bench.refused("ApplyPatch", json!({"patch": patch})).await;
    assert_contains!(error.model_text(), "takes a folder with HEAD");
    assert!(!bench.root.join("a/refs/x").exists() && !bench.root.join("refs").exists());
}

#[test]
fn the_owner_is_told_by_the_program_until_it_is_acknowledged() {
    let bare = OtherKernel::under("older_landlock", &["7"], "");
    make_repository(&bare.path("work"));
    let plant = r#"{"command":"echo ../evil > .git/commondir"}"#;
    let answer = bare.run_json(&["call", "Bash", plant]);
    assert!(
        answer["meta"]["warnings"][0]
            .as_str()
            .is_some_and(|text| text.contains("moved to the trash")),
        "{answer}"
    );
    let commondir = bare.path("work/.git/commondir");
    assert!(!commondir.exists());
    let status = bare.run_json(&["status"]);
    let words = |status: &Value| status["degraded"].to_string();
    assert_contains!(words(&status), "protected_paths");
    let request = status["protectedPathChanges"][0]["request"]
        .as_str()
        .expect("an entry")
        .to_owned();
    let row = bare.run_json(&["audit", "list", "--request", &request]);
    assert_eq!(row["event"], "protected_path", "{row}");
    let undone = bare.run_json(&["undo", &request]);
    assert!(undone["undone"] == true && commondir.exists(), "{undone}");
    assert_eq!(bare.run_json(&["ack"])["request"], request.as_str());
    assert_lacks!(words(&bare.run_json(&["status"])), "protected_paths");
}
