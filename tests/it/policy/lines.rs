//! Nesting and spelling do not hide a denied command. The tests use generated scripts, and random text that a real bash
//! runs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use punie_policy::command_line::{quote_word, read_command_line};
use punie_policy::{PolicyCall, PolicyDecision, PolicyRules, PolicyVerdict, judge_call};
use punie_tool::request::ToolEffect;
use tempfile::TempDir;

use crate::harness::program::make_program;

const NO_PUSH: &str = "[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\nmatch = [\"git push origin\"]\n";

pub(super) fn line_verdict(line: &str) -> PolicyVerdict {
    let rules = PolicyRules::parse(NO_PUSH, &|_| true).expect("good rules");
    let call = PolicyCall {
        tool: "Bash".to_owned(),
        effect: ToolEffect::Executes,
        script: Some(read_command_line(line)),
        ..PolicyCall::default()
    };
    judge_call(&rules, false, &call, &[])
}

/// A folder with a fake `git` that only records calls with `push`.
pub(super) struct LineFixture {
    dir: TempDir,
}

impl LineFixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let bin = dir.path().join("bin");
        std::fs::create_dir_all(&bin).expect("made");
        std::fs::create_dir(dir.path().join("in")).expect("made");
        let git = bin.join("git");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = push ] && echo ran >> {}\nexit 1\n",
            dir.path().join("ran").display()
        );
        make_program(&git, &text);
        for shell in ["bash", "sh"] {
            std::os::unix::fs::symlink(format!("/bin/{shell}"), bin.join(shell)).expect("linked");
        }
        Self { dir }
    }

    /// The path of the fake git.
    pub(super) fn git(&self) -> String {
        self.dir.path().join("bin/git").display().to_string()
    }

    fn mark(&self) -> PathBuf {
        self.dir.path().join("ran")
    }

    /// Returns true if a real bash runs `git push` for this line.
    pub(super) fn runs(&self, line: &str, path: &str) -> bool {
        let _ = std::fs::remove_file(self.mark());
        let ended = Command::new("/usr/bin/timeout")
            .args([
                "-s",
                "KILL",
                "5",
                "/bin/bash",
                "--noprofile",
                "--norc",
                "-c",
                line,
            ])
            .env_clear()
            .env(
                "PATH",
                format!("{}{path}", self.dir.path().join("bin").display()),
            )
            .current_dir(self.dir.path().join("in"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ended.expect("bash starts");
        Path::exists(&self.mark())
    }
}

/// Spellings that a shell runs as `git push`.
fn any_word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "git push",
        "git  push origin main",
        "'git' \"push\"",
        "g\\it pu\\sh",
        "gi\\\nt pu\\\nsh",
        "git -c x.y=z push",
        "git --no-pager push",
        "\"gi\"'t' pu\"s\"h",
        ">/dev/null git push 2>&1",
        "X=1 git push",
        "git push # and a comment",
        "$'git' push",
        "g=git; $g push",
        "IFS=,; x=git,push; $x",
        "{git,push}",
        "git ${x:-push}",
        "git pus[h]",
        "time -p\tgit push",
        "time -p</dev/null git push",
        "env - PATH=\"$PATH\" git push",
        "o=-v; timeout $o 5 git push",
        "n='5 git'; nice -n $n push",
        "x='1 git'; env A=$x push",
        "x=-exec; find . -maxdepth 0 $x git push \\;",
        "echo git push | xargs env",
        "printf 'push\\0' | xargs -0I{} git {}",
        "echo x | xargs -l git push",
        "echo $(( '$(git push)' ))",
        "(( x = '$(git push)' ))",
        "x=abc; echo ${x:'b[$(git push)]'}",
        "read x <<< 'a[$(git push)]'; ((x))",
        "mapfile -tC 'git push;:' -c1 <<<x",
        "$'g\\x69t' push",
        "shopt -s expand_aliases\nBASH_ALIASES[foo]='git push'\nfoo",
        "env 'BASH_FUNC_foo%%=() { git push; }' bash -c foo",
    ])
    .prop_map(str::to_owned)
}

/// Wraps a script in one more layer of shell syntax.
fn wrap_line(layer: usize, inner: &str) -> String {
    let line = inner.to_owned();
    match layer {
        0 => format!("({line}\n)"),
        1 => format!("{{ {line}\n}}"),
        2 => format!("echo $({line}\n)"),
        3 => format!("echo \"a $({line}\n) b\""),
        4 => format!("cat <({line}\n)"),
        5 => format!("if true; then {line}\nfi"),
        6 => format!("for x in 1; do {line}\ndone"),
        7 => format!("case a in b) true;; a) {line}\n;; esac"),
        8 => format!("f() {{ {line}\n}}; f"),
        9 => format!("true && {line}"),
        10 => format!("false || {line}"),
        11 => format!("true | {line}"),
        12 => format!("bash -c {}", quote_word(inner)),
        13 => format!("eval {}", quote_word(inner)),
        14 => format!("env X=1 bash -c {}", quote_word(inner)),
        15 => format!("x=$({line}\n)"),
        16 => format!("true; {line}\ntrue"),
        17 => format!("cat <<E\n$({line}\n)\nE"),
        18 => format!("echo ${{x:-$({line}\n)}}"),
        19 => format!("[[ -n $({line}\n) ]]"),
        20 => format!("nohup timeout 5 sh -c {}", quote_word(inner)),
        21 => format!("{}{line}", "true; ".repeat(51)),
        22 => format!("trap {} EXIT", quote_word(inner)),
        23 => format!("echo $((1 + $({line}\n)0))"),
        24 => format!("! {line}"),
        25 => format!("while true; do {line}\nbreak; done"),
        26 => format!("find . -maxdepth 0 -exec sh -c {} \\;", quote_word(inner)),
        27 => format!("echo x | xargs sh -c {}", quote_word(inner)),
        28 => format!("a=([0]=$({line}\n))"),
        29 => format!("trap -- {} EXIT", quote_word(&format!("-x; {inner}"))),
        30 => format!("time -p\t{{ {line}\n}}"),
        31 => format!("echo $(({line}\n) | cat)"),
        _ => format!("# a comment\n{line}"),
    }
}

#[test]
fn a_denied_command_is_never_missed_wherever_it_is_nested() {
    let setup = LineFixture::new();
    let ran = Cell::new(0_usize);
    let scripts = (any_word(), prop::collection::vec(0_usize..33, 0..6));
    let mut runner = TestRunner::new(Config {
        cases: 250,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&scripts, |(leaf, layers)| {
            let script = layers
                .iter()
                .fold(leaf, |inner, layer| wrap_line(*layer, &inner));
            let said = line_verdict(&script);
            prop_assert!(said.decision > PolicyDecision::Allow, "{script}\n{said:?}");
            ran.set(ran.get() + usize::from(setup.runs(&script, ":/usr/bin:/bin")));
            Ok(())
        })
        .expect("none is missed");
    // The scripts must be valid: most of them run `git push`.
    assert!(ran.get() > 120, "{ran:?}");
}

/// Pieces of shell syntax that are joined at random.
const PIECES: &[&str] = &[
    "git",
    "push",
    "git push",
    "\"",
    "'",
    "$(",
    ")",
    "`",
    "{ ",
    "}",
    "(",
    ";",
    "\n",
    "<<E",
    "<<'E'",
    "\nE\n",
    "case x in",
    " x)",
    ";;",
    "esac",
    "#",
    "\\",
    " ",
    "\\\n",
    "$((",
    "))",
    "${x:-",
    "}",
    "<(",
    ">f ",
    "<<<",
    "&&",
    "|",
    "&",
    "if ",
    "then ",
    "fi",
    "for x in 1",
    "do ",
    "done",
    "[[ ",
    " ]]",
    "f()",
    "function g ",
    "g",
    "x=",
    "a=(",
    "eval ",
    "bash -c ",
    "sh -c ",
    "$'",
    "$\"",
    "\t",
    "2>&1",
    "\r",
    "!",
    "time ",
    "time -p ",
    "coproc ",
    "~",
    "*",
    "[",
    "]",
    "exec ",
    "command ",
    "E",
    "<<-E",
    "{x}",
    "select ",
    "a[",
    "]=1",
    ":",
    "echo ",
    "trap ",
    " EXIT",
    "builtin ",
    "env ",
    "@P}",
    "${ ",
    "((",
    "((x=1))",
    "-",
    "--",
    "$x",
    "$IFS",
    "elif ",
    "(( ",
    "time -p\t",
    "[[ a && ",
    "# ",
    "nice -n ",
    "timeout ",
    "xargs ",
    "${x:",
    "$(( ",
    "trap -- ",
    "-x",
    "read x ",
];

#[test]
fn what_bash_runs_of_texts_that_make_no_sense_is_seen_too() {
    let setup = LineFixture::new();
    let known = Cell::new(0_usize);
    let free = Cell::new(0_usize);
    let piece = || prop::collection::vec(prop::sample::select(PIECES), 0..6);
    let mut runner = TestRunner::new(Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&(piece(), piece()), |(before, after)| {
            let text = format!("{}git push{}", before.concat(), after.concat());
            let said = line_verdict(&text);
            match said.decision {
                PolicyDecision::Allow => {
                    prop_assert!(!setup.runs(&text, ""), "bash runs it: {text:?}");
                    free.set(free.get() + 1);
                }
                PolicyDecision::Deny => known.set(known.get() + 1),
                // A person is asked about these lines, so there is nothing to check.
                PolicyDecision::Ask => {}
            }
            Ok(())
        })
        .expect("none is missed");
    // Enough of the texts got each decision.
    assert!(known.get() > 100 && free.get() > 100, "{known:?} {free:?}");
}

#[test]
fn h56_whatever_its_shape_a_denied_command_does_not_fall_through() {
    let many = format!("{}git push", "true; ".repeat(50));
    let piped = vec!["git push"; 51].join(" | ");
    for line in [
        many.as_str(),
        piped.as_str(),
        "cat <<E\n$(git push)\nE",
        "sh <<E\ngit push\nE",
        "echo $(git push)",
        "diff <(git push) /dev/null",
        "true\ngit push",
        "true # a comment \\\ngit push",
        "true #'\ngit push #'",
        "'git' \"push\"",
        "g''it pu\"\"sh",
        "git$IFS$9push",
        "git${IFS}push",
        "echo Z2l0IHB1c2gK | base64 -d | sh",
        "gi\\\nt push",
        "git \\\npush",
        "python3 -c 'import os; os.system(\"git push\")'",
        "eval \"$(echo git push)\"",
        "find . -maxdepth 0 -exec git push \\;",
        "xargs git push < /dev/null",
        "alias p='git push'\np",
    ] {
        let said = line_verdict(line);
        assert!(said.decision > PolicyDecision::Allow, "{line}: {said:?}");
        assert!(
            !said.explain_cause().is_empty() && said.change.is_some(),
            "{line}: {said:?}"
        );
    }
}
