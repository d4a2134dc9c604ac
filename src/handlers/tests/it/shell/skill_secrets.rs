//! SkillBash with secrets: given to one command, masked, and gone with it however it ends.

use std::path::PathBuf;

use punie_home::SecretStore;
use punie_text::redact::MASK;

use super::*;

const KEY: &str = "mail-key-0123456789";
const TOKEN: &str = "file-token-9876543210";

/// A bench with a skill that mounts two secrets, which the owner keeps.
fn with_secrets() -> Bench {
    let bench = Bench::new();
    skill(
        &bench,
        "mailing",
        "env: {MAIL_KEY: mailer}\n  files: {~/.config/x/token: x_token, TOKEN_FILE: x_token}",
    );
    let secrets = bench.secrets();
    for (name, value) in [("mailer", KEY), ("x_token", TOKEN)] {
        secrets
            .set_secret(name, &Secret::new(value.to_owned()))
            .expect("kept");
    }
    bench
}

fn skill(bench: &Bench, id: &str, mounts: &str) {
    let folder = bench.home.path().join("punie/skills").join(id);
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = format!("---\nsecretMounts:\n  {mounts}\n---\nDo it.\n");
    std::fs::write(folder.join("SKILL.md"), text).expect("a skill");
}

impl Bench {
    fn secrets(&self) -> SecretStore {
        SecretStore::in_home(&Home::open_home(&self.home.path().join("punie")).expect("the home"))
    }

    /// The folders of secrets that are there.
    fn mounts(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.home.path().join("punie/state/mounts")).expect("there");
        all.map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_dir())
            .collect()
    }

    async fn mail(&self, more: Value) -> Result<ToolReply, ToolError> {
        let mut args = json!({"skill_id": "mailing"});
        args.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        self.call("SkillBash", args).await
    }
}

#[tokio::test]
async fn a_command_has_what_its_skill_declares_and_nobody_sees_it() {
    let bench = with_secrets();
    let uses = || {
        let all = bench.secrets().list().expect("listed");
        all.iter()
            .filter(|entry| entry.used_at_ms.is_some())
            .count()
    };
    assert_eq!(uses(), 0);
    let command = "printf '%s|' \"$MAIL_KEY\" \"$(cat \"$TOKEN_FILE\")\" \"$(cat \"$PUNIE_SECRETS/.config/x/token\")\" \
                   > seen; stat -c %a \"$PUNIE_SECRETS\" \"$TOKEN_FILE\"; echo \"$MAIL_KEY\"; cat \"$TOKEN_FILE\"; \
                   printf %s \"$MAIL_KEY\" | base64; printf %s \"$MAIL_KEY\" | od -An -tx1 -v | tr -d ' \\n'";
    let reply = bench
        .mail(json!({"command": command}))
        .await
        .expect("it ran");
    let text = tools::reply_text(&reply);
    let seen = std::fs::read_to_string(bench.home.path().join("punie/skills/mailing/seen"))
        .expect("written");
    assert_eq!(
        seen,
        format!("{KEY}|{TOKEN}|{TOKEN}|"),
        "the command has the values"
    );
    assert_eq!(
        text,
        format!("700\n600\n{MASK}\n{MASK}{MASK}\n{MASK}"),
        "{text}"
    );
    assert_eq!(bench.mounts(), Vec::<PathBuf>::new());
    assert_eq!(
        uses(),
        2,
        "the list of secrets tells when each was used last"
    );
    // Another command has nothing of it, and what it comes upon is masked from then on.
    let (text, _) = bench.bash("echo \"[$MAIL_KEY$PUNIE_SECRETS]\"").await;
    assert_eq!(text.trim(), "[]");
    let (text, _) = bench.bash(&format!("echo {KEY}")).await;
    assert_eq!(text.trim(), MASK);
}

#[tokio::test]
async fn the_files_go_however_the_command_ends() {
    let bench = with_secrets();
    let failed = bench
        .mail(json!({"command": "exit 3"}))
        .await
        .expect("it ran");
    assert_eq!((failed.meta.exit_code, bench.mounts().len()), (Some(3), 0));
    bench
        .mail(json!({"command": "kill -9 $$"}))
        .await
        .expect("it ran");
    assert_eq!(bench.mounts().len(), 0, "killed by itself");
    let late = bench
        .mail(json!({"command": "sleep 60", "timeout": 50}))
        .await
        .expect_err("over its time");
    assert_eq!(late.stable_code(), ErrorCode::Timeout);
    assert_eq!(bench.mounts().len(), 0);
    let nowhere = bench
        .mail(json!({"command": "true", "stdin": "x", "tty": true}))
        .await
        .expect_err("refused");
    assert_eq!(nowhere.stable_code(), ErrorCode::InvalidArgs);
    assert_eq!(bench.mounts().len(), 0);
    let unset = bench
        .mail(json!({"command": "true", "env": {"LD_PRELOAD": "x"}}))
        .await
        .expect_err("refused");
    assert_eq!(unset.stable_code(), ErrorCode::PolicyDenied);
    assert_eq!(bench.mounts().len(), 0);
}

#[tokio::test]
async fn the_files_of_a_cancelled_call_go() {
    let bench = with_secrets();
    let checkpoint = Checkpoint::open().await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let command = format!("{}; echo $$ >&9; exec 9>&-; sleep 60", checkpoint.connect());
    let args = json!({"skill_id": "mailing", "command": command});
    let call = tools::call_with(&bench.registry, "SkillBash", args, cx);
    let (answer, there) = tokio::join!(within(call), async {
        checkpoint.line().await;
        let there = bench.mounts().len();
        cancel.cancel();
        there
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert_eq!((there, bench.mounts().len()), (1, 0));
}

#[tokio::test]
async fn a_shell_in_the_background_keeps_its_files_until_it_ends() {
    let bench = with_secrets();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo begun; {}; echo here >&9; read -u 9 word; cat \"$TOKEN_FILE\"; echo \" $word\"; sleep 60",
        checkpoint.connect()
    );
    let begun = bench
        .mail(json!({"command": command, "run_in_background": true}))
        .await
        .expect("it runs");
    assert_starts_with!(tools::reply_text(&begun), "Shell sh_1");
    let (_, mut stream) = checkpoint.line().await;
    assert_eq!(bench.mounts().len(), 1);
    // Another command of the same skill has a folder of its own, which goes before the first one's.
    bench
        .mail(json!({"command": "true"}))
        .await
        .expect("it ran");
    assert_eq!(bench.mounts().len(), 1);
    let args = json!({"shell_id": "sh_1", "wait_ms": 30_000, "pattern": "word$"});
    let wait = bench.call("ShellStatus", args);
    let (shown, ()) = tokio::join!(wait, async {
        stream.write_all(b"word\n").await.expect("written");
    });
    let shown = tools::reply_text(&shown.expect("shown")).to_owned();
    assert_contains!(shown, &format!("{MASK} word"));
    assert_lacks!(shown, TOKEN);
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
    assert_eq!(bench.mounts().len(), 0);
}

#[tokio::test]
async fn what_a_command_leaves_running_keeps_the_files_until_it_is_ended() {
    let bench = with_secrets();
    let command = format!("sleep 60 & {}; echo hi", once_it_is("sleep"));
    let reply = bench
        .mail(json!({"command": command}))
        .await
        .expect("it ran");
    assert_contains!(tools::reply_text(&reply), "shell sh_1");
    assert_eq!(bench.mounts().len(), 1);
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_eq!(bench.mounts().len(), 0);
}

#[tokio::test]
async fn a_missing_secret_is_refused_in_these_words() {
    let bench = with_secrets();
    skill(
        &bench,
        "wanting",
        "env: {A: mailer, B: absent}\n  files: {f.x: x_token}",
    );
    let args = json!({"skill_id": "wanting", "command": "touch ran"});
    let refused = bench
        .call("SkillBash", args)
        .await
        .expect_err("one is missing");
    assert_eq!(refused.model_text(), "Missing secret for absent.");
    assert_eq!(refused.stable_code(), ErrorCode::PolicyDenied);
    let meta = meta_of(refused);
    assert_contains!(meta.warnings[0], "punie-runner secrets set absent");
    assert_eq!(bench.mounts().len(), 0);
    assert!(!bench.home.path().join("punie/skills/wanting/ran").exists());
}

#[tokio::test]
async fn no_secret_takes_the_place_of_a_variable_that_commands_are_given_or_programs_load_by() {
    let bench = with_secrets();
    for name in [
        "PATH",
        "HOME",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_SSH",
        "PAGER",
        "PUNIE_RUNNER",
        "LC_ALL",
    ] {
        skill(&bench, "taking", &format!("env: {{{name}: mailer}}"));
        let args = json!({"skill_id": "taking", "command": "touch ran"});
        let refused = bench.call("SkillBash", args).await.expect_err(name);
        assert_error!(refused, PolicyDenied: name, "secretMounts");
    }
    assert!(!bench.home.path().join("punie/skills/taking/ran").exists());
}
