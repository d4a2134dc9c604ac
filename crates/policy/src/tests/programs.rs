//! Programs that start others by what their words tell: git, and those behind which a shell's text stands.

use super::lines::{NO_PUBLISH, allowed, stopped};
use super::{GrantTarget, NO_PUSH, PolicyDecision, bash, decide, grant, judge_call, rules};

#[test]
fn git_starts_nothing_that_its_options_and_settings_do_not_tell() {
    let lines = [
        "git rebase -ix 'npm publish' HEAD~1",
        "git rebase -ix'npm publish' HEAD~1",
        "git rebase -kx \"$y\" HEAD~1",
        "git -c help.autocorrect=immediate npm",
        "git -c protocol.ext.allow=always pull",
        "git -c submodule.x.update='!npm publish' submodule update",
        "git -c url.x.insteadOf=y pull",
        "git -c \"$x=y\" log",
        "git -c \"core.$x=y\" log",
        "git -c core.$x=y log",
        "git clone --config=core.fsmonitor=./x y",
        "git clone -ccore.fsmonitor=./x y",
        "git config core.hooksPath ./x",
        "git config set core.editor 'npm publish'",
        "exec -a git-x git y",
        "env -a git-x git y",
        "env --argv0=git-x git y",
        "git difftool -x 'npm publish'",
        "git difftool -yx 'npm publish'",
        "git difftool --ext='npm publish'",
        "git filter-branch --tree-filter 'npm publish'",
        "git grep -O'npm publish' x",
        "git grep --open='npm publish' x",
        "git clone -u 'npm publish' x y",
        "git clone --upload-pack='npm publish' x y",
        "git fetch --upload 'npm publish' x",
        "git push --receive-pack='npm publish' x",
        "git push --exec='npm publish' x",
        "git ls-remote --exec='npm publish' x",
        "git clone 'ext::npm publish' x",
        "git --exec-path=. x",
        "git config --comment get core.fsmonitor 'npm publish'",
        "git config --comment --get core.fsmonitor 'npm publish'",
        "git config core.fsmonitor 'npm publish;:' unset",
        "git config core.fsmonitor 'npm publish' --list",
        "git config --rename-section foo alias",
        "git config rename-section foo alias",
        "git clone --conf core.sshCommand='npm publish' x",
        "git clone --conf=core.sshCommand='npm publish' x",
        "git clone -qc core.sshCommand='npm publish' x",
        "git clone --template=x y",
        "git -c interactive.diffFilter='npm publish' add -p",
        "git -c difftool.x.path=npm -c diff.tool=x difftool",
        "git -c imap.tunnel='npm publish' imap-send",
        "git -c sendemail.smtpserver=./x send-email y",
        "git submodule--helper foreach npm publish",
    ];
    assert_eq!(allowed(NO_PUBLISH, &lines), Vec::<&str>::new());
    let free = [
        "git push -u origin x",
        "git -c user.name=\"$x\" -c \"user.email=$y\" commit -m z",
        "git config user.name x",
        "git config --get core.editor",
        "git config core.editor",
        "git config get core.editor x",
        "git config --global --get-all core.editor x",
        "git log --ext-diff --grep x",
        "git rebase -i HEAD~2",
        "git rebase -x 'cargo test' HEAD~2",
        "git fetch --update-shallow",
        "env -u X git status",
    ];
    assert_eq!(stopped(NO_PUBLISH, &free), Vec::<&str>::new());
    // A subcommand that is not known may start another one.
    let lines = [
        "git -c foo.r=. for-each-repo --config=foo.r push",
        "git -C x for-each-repo --config foo.r push",
        "git submodule--helper foreach git push",
        "git subtree push --prefix=x y z",
        "git \"$x\" push",
    ];
    assert_eq!(allowed(NO_PUSH, &lines), Vec::<&str>::new());
    let free = [
        "git log push",
        "git stash push -m push",
        "git -C x status push",
        "git lfs pull push",
    ];
    assert_eq!(stopped(NO_PUSH, &free), Vec::<&str>::new());
}

#[test]
fn an_allow_rule_covers_no_option_that_does_more_than_its_words_say() {
    let rule = |name: &str, command: &str| {
        format!("[[rule]]\nname = \"{name}\"\ndecision = \"allow\"\ncommand = {command}\n")
    };
    let text = [
        "default = \"ask\"\n".to_owned(),
        rule("history", r#"["git", ["log", "diff", "show"]]"#),
        rule("build", r#"["cargo", ["build", "check", "test"]]"#),
        rule("patch", r#"["git", "diff", "--output=x.patch"]"#),
        rule("quick", r#"["git", "--no-pager", "log"]"#),
        rule("find", r#"[["find", "ls"]]"#),
    ]
    .concat();
    let lines = [
        "git log -1 --format=%B --output=Makefile",
        "git log --output Makefile",
        "git diff --outp=Makefile",
        "git show -p HEAD --ext-diff",
        "git log -p --textconv",
        "git diff -O -- --output=x",
        "git log --show-signature",
        "git log \"$x\"",
        "git log HEAD~$x",
        "git diff *",
        "git diff {--output=x,y}",
        "ls | xargs git log",
        "find . -exec git log {} ';'",
        "git -c core.fsmonitor=./x log",
        "git --config-env=core.fsmonitor=X diff",
        "git --exec-path=. log",
        "cargo build --config build.rustc-wrapper='\"./x\"'",
        "cargo test --config=x",
        "cargo check -q $FLAGS",
        "git diff --output=x.patch --output=Makefile",
        "git --no-pager log --output=Makefile",
    ];
    assert_eq!(allowed(&text, &lines), Vec::<&str>::new());
    let free = [
        "git log -Oorder --oneline -c",
        "git diff --output-indicator-new=+ --stat",
        "git show \"HEAD~$x\" src/*.rs @{u}",
        "git log -- '*.rs'",
        "cargo build --release",
        "cargo test -- --config x \"$y\"",
        "git diff --output=x.patch HEAD",
        "git --no-pager log -1",
    ];
    assert_eq!(stopped(&text, &free), Vec::<&str>::new());
    let verdict = decide(&text, &bash("git log --output=Makefile"));
    let why = verdict.reason.expect("a reason");
    assert!(
        why.contains("\"history\" allows it only without options"),
        "{why}"
    );
    let wanted = Some("punie-runner policy allow --once -- git log --output=Makefile");
    assert_eq!(verdict.change.as_deref(), wanted);
    let grants = [grant(
        "a",
        GrantTarget::Command(vec!["git".into(), "log".into()]),
    )];
    let judge = |line: &str| judge_call(&rules("default = \"ask\""), false, &bash(line), &grants);
    assert_eq!(judge("git log -1").decision, PolicyDecision::Allow);
    assert_eq!(judge("git log --output=x").decision, PolicyDecision::Ask);
}

#[test]
fn a_text_for_a_shell_behind_another_program_is_looked_into() {
    let lines = [
        "some-wrapper bash -c \"$x\"",
        "docker run x sh -c \"$x\"",
        "some-wrapper sh -c '((npm publish))'",
        "uv run python -c 'x'",
        "docker run x node -e 'x'",
        "some-wrapper bash -o a -o b -o c -o d -o e -o f -c 'npm publish'",
        "npx -c 'npm publish'",
        "npx -yc 'npm publish'",
        "npm exec -c 'npm publish'",
        "npm x --call 'npm publish'",
        "pnpm exec -c 'npm publish'",
    ];
    assert_eq!(allowed(NO_PUBLISH, &lines), Vec::<&str>::new());
    let free = [
        "npx -c 'eslint .'",
        "npx eslint .",
        "docker run x sh -c 'ls'",
        "apt install bash",
        "uv run python x.py -c y",
        "apt install node -y",
    ];
    assert_eq!(stopped(NO_PUBLISH, &free), Vec::<&str>::new());
}
