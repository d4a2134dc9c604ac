//! Unusual spellings of a denied command: the policy allows none of them. Where bash and a few programs suffice, a real
//! bash confirms that it runs the command.

use punie_policy::command_line::read_command_line;
use punie_policy::{PolicyCall, PolicyDecision, PolicyRules, judge_call};
use punie_tool::request::ToolEffect;

use super::lines::{LineFixture, line_verdict};

/// Lines for which a real bash runs `git push`; @GIT is the path of the fake git.
const RUN: &[&str] = &[
    // Arithmetic, in which quotes do not quote.
    "echo $(( '$(git push)' ))",
    "(( x = '$(git push)' ))",
    // Text in an index or an offset is code.
    "x=abc; echo ${x:'b[$(git push)]'}",
    "a=(1); echo ${a['b[$(git push)]']}",
    "x=abc; echo ${x:$'b[\\x24(git push)]'}",
    "x=$'a[\\x24(git push)]'; ((x))",
    "read x <<< 'a[$(git push)]'; ((x))",
    "read x <<'E'\na[$(git push)]\nE\n((x))",
    "echo 'a[$(git push)]' | while read x; do ((x)); done",
    // Wrappers whose command comes from elsewhere, and their options.
    "echo git push | xargs env",
    "echo git push | xargs nohup",
    "echo git push | xargs nice",
    "echo git push | xargs timeout 5",
    "echo 5 git push | xargs timeout",
    "printf 'push\\0' | xargs -0I{} git {}",
    "echo push | xargs -rI X git X",
    "echo push | xargs --repl=X git X",
    "echo x | xargs -l git push",
    "env --s='git push'",
    "env --split='git push'",
    "env - PATH=\"$PATH\" git push",
    // Words that expand to options, or to several words.
    "o=-v; timeout $o 5 git push",
    "n='5 git'; nice -n $n push",
    "x='1 git'; env A=$x push",
    "x='posix -c'; bash -o $x 'git push'",
    "x=-exec; find . -maxdepth 0 $x git push \\;",
    "x=-exec; find . -maxdepth 0 \"$x\" git push \\;",
    "x='-exec git'; find . -maxdepth 0 $x push \\;",
    "set -- git push; env A=\"$@\"; env A=1 \"$@\"",
    // Keywords and builtins.
    "time -p\tgit push",
    "time -p</dev/null git push",
    "[[ a && # ]] ; echo \"\nb ]] ; git push # \"",
    "trap -- '-x; git push' EXIT",
    "hash -rp @GIT foo; foo push",
    "hash -p@GIT foo; foo push",
    "mapfile -tC 'git push;:' -c1 <<<x",
    "BASH_CMDS[foo]=@GIT; foo push",
    "declare -n r=BASH_CMDS; r[foo]=@GIT; foo push",
    "shopt -s expand_aliases\nBASH_ALIASES[foo]='git push'\nfoo",
    "shopt -s expand_aliases\n: ${BASH_ALIASES[foo]:=git push}\nfoo",
    "env 'BASH_FUNC_foo%%=() { git push; }' bash -c foo",
    "env 'BASH_ENV=$(git push)' bash -c :",
    "BASH_ENV=/proc/self/fd/9 bash -c : 9<<< 'git push'",
    "set -o history; history -s 'git push'\nfc -s",
    "jobs -x git push",
    // Line breaks, here-documents and arrays that end elsewhere.
    "[[ a ]\\\n] && git push && [[ b ]]",
    "echo $(cat <<'E'\nE git push )\nE\n)",
    "a=(1)echo git push",
    // Text that becomes code in arithmetic.
    "for x in 'a[$(git push)]'; do ((x)); done",
    "set -- 'a[$(git push)]'; (( $1 ))",
    "f() { echo $(( $1 )); }; f 'a[$(git push)]'",
    "bash -c '(( $1 ))' _ 'a[$(git push)]'",
    ": 'a[$(git push)]'; (( $_ ))",
    "[ -v \"$(echo 'a[$(git push)]')\" ]",
    "x=$(echo 'a[$(git push)]'); ((x))",
    "x=$(printf 'a[\\44\\50git push\\51]'); ((x))",
    "printf -v y 'a[\\44\\50git push\\51]'; ((y))",
    "env 'x=a[$(git push)]' bash -c 'echo $((x))'",
    "x='a[$'; y='(git push)]'; (( $x$y ))",
    "x='a[$'; x+='(git push)]'; ((x))",
];

/// Lines that may run `git push`, with programs or settings that some machines lack.
const MAY_RUN: &[&str] = &[
    "x=abc; echo ${x:\"b[\\$(git push)]\"}",
    "x=abc; echo ${x:b[\\$(git push)]}",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x",
    "export GIT_CONFIG_COUNT=1; git x",
    "PROMPT_COMMAND='git push' bash -i",
    "LD_PRELOAD=./x.so ls",
    "LD_AUDIT=./x.so ls",
    "ENV=./x sh -i",
    "PAGER='git push' git log",
    "setpriv git push",
    "setpriv --no-new-privs sh -c 'git push'",
    "echo git push | xargs setpriv",
    "setpriv $x",
    "taskset 1 git push",
    "unshare -r git push",
    "fakeroot git push",
    "dbus-run-session -- git push",
    "dbus-run-session python3 -c 'import os'",
    "some-wrapper --with words env git push",
    "git submodule foreach git push",
    "git submodule foreach --recursive 'git push || true'",
    "git bisect run git push",
    "git bisect run sh -c 'git push'",
    "git rebase --exec 'git push' HEAD~1",
    "git rebase --exec='git push' HEAD~1",
    "git rebase -x 'git push' HEAD~1",
    "git -c core.pager='git push' log",
    "/usr/lib/git-core/git-push origin main",
    "git-push origin main",
    "chroot . <<< 'git push'",
    "strace -o '|git push' true",
    "jobs -x $x",
    "fc -s",
    "zsh -c '=git push'",
    "sh -c \"\\$'\\\\'; git push #'\"",
    "awk 'BEGIN { system(\"git push\") }'",
];

/// Everyday lines that stay allowed beside a rule that denies `git push`.
const FREE: &[&str] = &[
    "echo git push",
    "grep -rn git push",
    "git log --grep push",
    "git commit -m 'git push'",
    "git submodule foreach git status",
    "git rebase --exec 'cargo test' HEAD~1",
    "GIT_PAGER=cat git log",
    "GIT_AUTHOR_NAME=me GIT_EDITOR=true git commit --amend",
    "timeout 5 env A=1 nice -n 5 cargo test",
    "env A=\"$x\" cargo test",
    "timeout --signal=KILL 5 cargo test",
    "find . -name '*.rs' -newer \"$x\"",
    "find \"$d\" -type f | xargs -0 wc -l",
    "echo $((1 + (2 * x)))",
    "echo $( (cd x && ls) | wc -l)",
    "((cd x; ls) | wc)",
    "x=abc; echo \"${x%%b*}\" ${x:1:2} ${x%$'\\n'}",
    "time -p cargo test",
    "trap 'rm -f x' EXIT; trap - INT",
    "while read -r l; do echo \"$l\"; done < list",
    "read x <<< '1 2'; export A=$x",
    "setpriv --no-new-privs cargo test",
    "awk '{print $1}' x",
    "npm ci && docker run x ls",
];

#[test]
fn no_spelling_of_a_denied_command_is_allowed() {
    let setup = LineFixture::new();
    let git = setup.git();
    let mut allowed = Vec::new();
    let mut idle = Vec::new();
    for line in RUN {
        let line = line.replace("@GIT", &git);
        if !setup.runs(&line, ":/usr/bin:/bin") {
            idle.push(line.clone());
        }
        if line_verdict(&line).decision == PolicyDecision::Allow {
            allowed.push(line);
        }
    }
    allowed.extend(
        MAY_RUN
            .iter()
            .filter(|line| line_verdict(line).decision == PolicyDecision::Allow)
            .map(|line| (*line).to_owned()),
    );
    assert_eq!(
        allowed,
        Vec::<String>::new(),
        "lines that the policy allows"
    );
    assert_eq!(
        idle,
        Vec::<String>::new(),
        "lines for which bash does not run git push"
    );
}

#[test]
fn everyday_lines_beside_a_rule_stay_free() {
    let stopped: Vec<_> = FREE
        .iter()
        .map(|line| (line, line_verdict(line)))
        .filter(|(_, said)| said.decision > PolicyDecision::Allow)
        .collect();
    assert!(stopped.is_empty(), "{stopped:#?}");
}

#[test]
fn a_program_with_a_known_name_elsewhere_is_not_taken_for_the_known_one() {
    let text = "default = \"deny\"\n[[rule]]\nname = \"tests\"\ndecision = \"allow\"\ncommand = [\"cargo\", \"test\"]\n";
    let rules = PolicyRules::parse(text, &|_| true).expect("good rules");
    let decide = |line: &str| {
        let script = Some(read_command_line(line));
        judge_call(
            &rules,
            false,
            &PolicyCall {
                tool: "Bash".to_owned(),
                effect: ToolEffect::Executes,
                script,
                ..PolicyCall::default()
            },
            &[],
        )
    };
    for line in [
        "./env cargo test",
        "/tmp/nohup cargo test",
        "./bash -c 'cargo test'",
        "bash --rcfile ./evil -ic 'cargo test'",
        "bash --init-file ./evil -c 'cargo test'",
        "bash -ic 'cargo test'",
        "bash -o history -c 'cargo test'",
        "setpriv cargo test",
        "BASH_ENV=./evil bash -c 'cargo test'",
    ] {
        assert_eq!(decide(line).decision, PolicyDecision::Deny, "{line}");
    }
    for line in [
        "env cargo test",
        "bash -c 'cargo test'",
        "nohup nice -n 5 cargo test",
        "bash -lc 'cargo test'",
    ] {
        assert_eq!(decide(line).decision, PolicyDecision::Allow, "{line}");
    }
}

#[test]
fn the_rule_s_own_program_is_known_behind_others_too() {
    let text = "[[rule]]\nname = \"t\"\ndecision = \"deny\"\ncommand = [\"touch\"]\nno_match = [\"git rm touch\", \"cargo touch\"]\n";
    let rules = PolicyRules::parse(text, &|_| true).expect("good rules");
    for line in [
        "setpriv touch p",
        "some-wrapper -- touch p",
        "git bisect run touch p",
    ] {
        let script = Some(read_command_line(line));
        let call = PolicyCall {
            tool: "Bash".to_owned(),
            effect: ToolEffect::Executes,
            script,
            ..PolicyCall::default()
        };
        assert_eq!(
            judge_call(&rules, false, &call, &[]).decision,
            PolicyDecision::Ask,
            "{line}"
        );
    }
}

#[test]
fn what_is_kept_of_a_text_is_bounded() {
    let intricate = format!(
        "echo {}{}{}",
        "$(( ".repeat(25),
        "$(a) ".repeat(20_000),
        " ; ))".repeat(25)
    );
    let many = "a;".repeat(200_000);
    let shells = format!("x {}", "sh -c 'git push' ".repeat(20_000));
    let names = format!("x {}", "git -a ".repeat(20_000));
    for text in [intricate, many, shells, names] {
        let script = read_command_line(&text);
        assert!(
            script.commands.len() <= 100_000,
            "{}",
            script.commands.len()
        );
        assert!(
            line_verdict(&text).decision > PolicyDecision::Allow,
            "{}",
            &text[..40]
        );
    }
}
