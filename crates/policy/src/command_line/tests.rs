//! Tests of the command-line parser.

use super::{CommandLine, SimpleCommand, read_command_line};

fn commands(text: &str) -> Vec<String> {
    let script = read_command_line(text);
    let shown = |simple: &SimpleCommand| {
        simple
            .words
            .iter()
            .map(|word| {
                if word.is_literal {
                    word.text.as_str()
                } else {
                    "?"
                }
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    script.commands.iter().map(shown).collect()
}

/// Returns whether `git push` is among the commands, or an unknown part may be one.
fn tells(script: &CommandLine) -> bool {
    let pushes = script.commands.iter().any(|simple| {
        let words: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
        let open = simple.is_open_ended && simple.words.get(1).is_none_or(|word| !word.is_literal);
        simple.opaque.is_some() || open || words.starts_with(&["git", "push"])
    });
    pushes || !script.unanalysed.is_empty()
}

#[test]
fn plain_commands_are_found_word_by_word() {
    for (text, expect) in [
        ("git push", vec!["git push"]),
        ("  git   'pu'\"sh\" or\\igin ", vec!["git push origin"]),
        ("gi\\\nt pu\\\nsh", vec!["git push"]),
        (
            "a && b || c; d & e | f |& g",
            vec!["a", "b", "c", "d", "e", "f", "g"],
        ),
        ("a # git push\nb", vec!["a", "b"]),
        ("a # x \\\nb", vec!["a", "b"]),
        ("a#b c", vec!["a#b c"]),
        ("2>&1 a >/dev/null 2>/tmp/x", vec!["a"]),
        ("X=1 Y='2 3' a b", vec!["a b"]),
        ("f() { a; }; g() (b); g", vec!["a", "b", "g"]),
        ("for x in a b; do c $x; done", vec!["c ?"]),
        ("for ((i=0;i<3;i++)); do c; done", vec!["c"]),
        ("while a; do b; done < f", vec!["a", "b", ""]),
        (
            "if a; then b; elif c; then d; else e; fi",
            vec!["a", "b", "c", "d", "e"],
        ),
        ("[[ -f a && ! b =~ ^(x|y)$ ]] && c", vec!["c"]),
        ("(( x + 1 > 2 )) && c", vec!["c"]),
        ("((a); b)", vec!["a", "b"]),
        ("echo $((1 + (2*3)))", vec!["echo ?"]),
        ("echo $( (a); b)", vec!["a", "b", "echo ?"]),
        (
            "cat <<E\na $(b) `c` \\$(d)\nE\ne",
            vec!["cat", "b", "c", "e"],
        ),
        ("cat <<'E'\n$(b)\nE\ne", vec!["cat", "e"]),
        ("cat <<-E | a\n\tb\n\tE\nc", vec!["cat", "a", "c"]),
        ("a \"$(b \"$(c)\")\"", vec!["c", "b ?", "a ?"]),
        ("! a; time -p b", vec!["a", "b"]),
        (
            "nohup nice -n 5 timeout 3 git push",
            vec![
                "nohup nice -n 5 timeout 3 git push",
                "nice -n 5 timeout 3 git push",
                "timeout 3 git push",
                "git push",
            ],
        ),
        ("bash -lc 'a; b'", vec!["bash -lc a; b", "a", "b"]),
        (
            "find . -name x -exec rm {} \\; -exec a +",
            vec!["find . -name x -exec rm {} ; -exec a +", "rm ?", "a"],
        ),
    ] {
        assert_eq!(
            commands(text),
            expect,
            "{text}: {:?}",
            read_command_line(text).unanalysed
        );
        assert_eq!(
            read_command_line(text).unanalysed,
            Vec::<String>::new(),
            "{text}"
        );
    }
}

#[test]
fn whatever_may_run_a_command_is_found_or_said_to_be_hidden() {
    for text in [
        "$(git push)",
        "echo `git push`",
        "cat <(git push)",
        "tee >(git push)",
        "a=$(git push)",
        "arr=([$(git push)]=1)",
        "a[$(git push)]=1",
        "a[1 + 2]=3 git push",
        "echo ${x:-$(git push)}",
        "echo \"${x:-`git push`}\"",
        "echo $((1+$(git push)))",
        "(( a[$(git push)] ))",
        "[[ $(git push) ]]",
        "cat <<< $(git push)",
        "env -i X=1 git push",
        "env -S 'git push'",
        "sudo -u me X=1 git push",
        "echo push | xargs git",
        "echo push | xargs -I% git %",
        "eval git push",
        "eval 'git' \"push\"",
        "trap 'git push' EXIT",
        "sh -c \"git push\"",
        "bash <<< 'git push'",
        "echo Z2l0IHB1c2g= | base64 -d | sh",
        "bash -c '\"$@\"' _ git push",
        "python3 -c 'import os; os.system(\"git push\")'",
        "g=git; $g push",
        "g${IFS}push",
        "{git,push}",
        "/usr/bin/gi? push",
        "~/git push",
        "coproc X { git push; }",
        "alias g='git push'; g",
        "git -c alias.p=push p",
        "x='a[$(git push)]'; ((x))",
        "[ -v 'a[$(git push)]' ]",
        "PS4='$(git push)'; set -x; :",
        "$'g\\x69t' push",
        "${ git push; }",
        "echo ${x@P}",
        ". /dev/stdin",
        "select x in a; do git push; done",
        "! git push",
        "a &&\n\n git push",
        "if (git push) then a; fi",
        "a &> /dev/null git push; >x git push",
        "$[$(git push)]",
        "git push )",
        "( git push",
        "'git push",
        "echo \"$(git push)",
        "cat <<E\n$(git push)",
        "exec -a x git push",
        "f ( ) git push",
        "a;git push;b",
        "echo $\\\n(git push)",
        "a &\\\n& git push",
        "cat <<A; (echo\nA\ngit push)",
    ] {
        assert!(
            tells(&read_command_line(text)),
            "{text}: {:?}",
            read_command_line(text)
        );
    }
}

#[test]
fn nothing_is_hidden_in_everyday_lines() {
    for text in [
        "cargo test --workspace -- --nocapture 2>&1 | tail -n 50",
        "cd web && npm ci && npm run build",
        "grep -rn \"foo\\|bar\" src | sort | uniq -c",
        "for f in *.rs; do wc -l \"$f\"; done",
        "test -f Cargo.toml && echo yes || echo no",
        "git commit -m \"Fix the thing (again)\" && git log -1 --format='%h %s'",
        "python3 scripts/list.py --year 2026 -c x",
        "X=1 make -j$(nproc) all > build.log 2>&1",
        "sed -n '1,20p' file; awk '{print $1}' file",
        "find . -type f -name '*.md' | xargs wc -l",
        "while read -r line; do echo \"$line\"; done < list.txt",
        "cat > file.txt <<'EOF'\n$(not run) `nor this`\nEOF",
        "node build.js && node --version",
    ] {
        let script = read_command_line(text);
        assert_eq!(script.unanalysed, Vec::<String>::new(), "{text}");
        assert!(
            script.commands.iter().all(|simple| simple.opaque.is_none()),
            "{text}"
        );
    }
}

#[test]
fn hostile_depth_and_size_end_in_a_word_of_their_own() {
    for (open, close) in [
        ("( ", " )"),
        ("$(", ")"),
        ("{ ", ";}"),
        ("`", "`"),
        ("\"$(", ")\""),
        ("$((", "))"),
        ("${x:-", "}"),
        ("(( ", " ) )"),
        ("if ", ";fi "),
        ("case x in a) ", ";;esac "),
        ("bash -c ", ""),
        ("env ", ""),
        ("<(", ")"),
        ("\"${x:-\"", "\"}\""),
        ("[[ $(", ") ]]"),
        ("a=(", ")"),
        ("find -exec ", " ;"),
        ("eval ", ""),
        ("cat <<E $(", ")"),
    ] {
        for count in [10, 1_000, 20_000] {
            for text in [
                format!("{}git push{}", open.repeat(count), close.repeat(count)),
                open.repeat(count),
            ] {
                let script = read_command_line(&text);
                let found = tells(&script) || count == 10 || script.commands.len() > 10;
                assert!(
                    found || !text.contains("git push"),
                    "{open} {count}: {:?}",
                    script.unanalysed
                );
            }
        }
    }
}

#[test]
fn a_known_name_is_known_in_any_case_where_the_system_tells_none_apart() {
    use super::command::table_name;
    for (text, folded, exact) in [
        ("Bash", "bash", "Bash"),
        ("/USR/BIN/ENV", "env", "ENV"),
        ("C:\\git\\Bash.EXE", "bash", "Bash.EXE"),
        ("nohup", "nohup", "nohup"),
    ] {
        assert_eq!(
            (
                table_name(text, true).as_str(),
                table_name(text, false).as_str()
            ),
            (folded, exact),
            "{text}"
        );
    }
}

#[test]
fn what_takes_long_is_counted_and_ends() {
    for text in [
        format!("x {}", "sh -c a ".repeat(40_000)),
        format!("{}a{}", "((".repeat(40_000), " ) )".repeat(40_000)),
        "env ".repeat(100_000),
    ] {
        let line = read_command_line(&text);
        let is_refused = line.commands.iter().any(|command| command.opaque.is_some());
        assert!(is_refused || !line.unanalysed.is_empty(), "{}", &text[..40]);
    }
}
