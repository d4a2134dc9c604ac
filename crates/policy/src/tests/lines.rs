//! Command lines by which something else than what is written would run: none of them is allowed.

use super::{NO_PUSH, PolicyDecision, bash, decide};

pub(super) const TESTS: &str = "default = \"deny\"\n[[rule]]\nname = \"tests\"\ndecision = \"allow\"\ncommand = [\"cargo\", \"test\"]\n[[rule]]\nname = \"quiet\"\ndecision = \"allow\"\ncommand = [[\":\", \"true\", \"echo\", \"[\"]]\n";
pub(super) const NO_PUBLISH: &str =
    "[[rule]]\nname = \"no-publish\"\ndecision = \"deny\"\ncommand = [\"npm\", \"publish\"]\n";

/// Those of these lines that rules allow.
pub(super) fn allowed<'a>(text: &str, lines: &[&'a str]) -> Vec<&'a str> {
    let is_allowed = |line: &&&str| decide(text, &bash(line)).decision == PolicyDecision::Allow;
    lines.iter().filter(is_allowed).copied().collect()
}

/// Those of these lines that rules do not allow.
pub(super) fn stopped<'a>(text: &str, lines: &[&'a str]) -> Vec<&'a str> {
    let allowed = allowed(text, lines);
    lines
        .iter()
        .filter(|line| !allowed.contains(line))
        .copied()
        .collect()
}

#[test]
fn an_allow_rule_does_not_hold_where_a_variable_is_set_in_whatever_way() {
    let lines = [
        "for PATH in .; do cargo test; done",
        "select PATH in .; do cargo test; done",
        "for BASH_ENV in ./e; do cargo test; done",
        "((PATH=5)); cargo test",
        "((PATH++)); cargo test",
        "((--PATH)); cargo test",
        ": $((PATH=5)); cargo test",
        ": $((PATH+\\\n+)); cargo test",
        ": \"$((1 + (PATH=5)))\"; cargo test",
        ": $(( $(echo PATH=5) )); cargo test",
        ": $(( `echo PATH=5` )); cargo test",
        "for ((PATH=5;;)); do cargo test; done",
        "[[ x -eq PATH=5 ]]; cargo test",
        "[[ PATH=5 -lt 3 ]]; cargo test",
        "[[ x -eq 'PATH = 5' ]]; cargo test",
        "[[ -v a[PATH=5] ]]; cargo test",
        "[[ x -eq $(echo PATH=5) ]]; cargo test",
        "[ -v 'a[PATH=5]' ]; cargo test",
        ": {PATH}>f; cargo test",
        "{PATH}<f; cargo test",
        ": {PATH[0]}<f; cargo test",
        ": ${PATH:=.}; cargo test",
        ": ${PATH=.}; cargo test",
        ": ${PATH:\\\n=.}; cargo test",
        ": ${a[PATH=5]}; cargo test",
        ": ${x:PATH=5}; cargo test",
        ": ${x:$(echo PATH=5)}; cargo test",
        ": ${!x:=.}; cargo test",
        "echo <<< ${PATH:=.}; cargo test",
    ];
    assert_eq!(allowed(TESTS, &lines), Vec::<&str>::new());
    // Where a builtin is allowed by itself, what it sets counts all the same.
    let builtins = TESTS.replace(
        "\"echo\"",
        "\"let\", \"printf\", \"mapfile\", \"getopts\", \"wait\", \"read\"",
    );
    let lines = [
        "let PATH=5; cargo test",
        "printf -vPATH .; cargo test",
        "mapfile PATH; cargo test",
        "getopts x PATH; cargo test",
        "wait -p PATH; cargo test",
    ];
    assert_eq!(allowed(&builtins, &lines), Vec::<&str>::new());
    let free = [
        "cargo test",
        ": ${x:-a=b} ${x#*=} ${x:1:2} $((1 + 2)); cargo test",
        "[[ a == b && c -eq 1 ]]; cargo test",
        "bash -c 'cargo test'",
        "((1 < 2)) && cargo test 2>&1",
    ];
    assert_eq!(stopped(TESTS, &free), Vec::<&str>::new());
}

#[test]
fn a_shell_in_whose_text_no_command_is_found_is_covered_by_nothing() {
    let lines = [
        "cargo test; sh -c '((git push origin main))'",
        "cargo test; sh -c \"[[ x || git push ]]\"",
        "cargo test; bash -c ''",
        "cargo test; eval ''",
        "cargo test; bash -c '> x'",
        "cargo test; sh -c 'cargo test; ((git push))'",
    ];
    assert_eq!(allowed(TESTS, &lines), Vec::<&str>::new());
}

#[test]
fn another_shell_s_text_is_not_taken_for_bash_s() {
    let lines = [
        "sh -c '((git push))'",
        "dash -c '((git push))'",
        "sh -c '# $\\\n((git push))'",
        "sh -c '(\\\n(git push))'",
        "sh -c 'true &>/dev/null git push'",
        "sh -c '[[ x || git push ]]'",
        "/bin/sh -ec '((git push))'",
        "env sh -c '((git push))'",
    ];
    assert_eq!(allowed(NO_PUSH, &lines), Vec::<&str>::new());
    let free = [
        "sh -c 'echo $((1 + 2))'",
        "bash -c '((x > 1))'",
        "sh -c 'cd x && ls'",
        "time -p ls",
    ];
    assert_eq!(stopped(NO_PUSH, &free), Vec::<&str>::new());
    // With an option `time` is a program, and what it starts is known.
    assert_eq!(
        decide(NO_PUSH, &bash("env time -f %e git push")).decision,
        PolicyDecision::Deny
    );
    assert_eq!(
        decide(NO_PUSH, &bash("time -f %e git push")).decision,
        PolicyDecision::Ask
    );
}

#[test]
fn a_program_in_the_words_of_an_interpreter_is_told_from_a_file() {
    let lines = [
        "python3 -W ignore -c 'x'",
        "python3 -X dev -c 'x'",
        "python3 -v -c 'x'",
        "python3 -v <<< 'x'",
        "python3 -u <<< 'x'",
        "python3 /dev/stdin <<< 'x'",
        "python3 //dev/stdin <<< 'x'",
        "python3 /tmp/../dev/fd/0 <<< 'x'",
        "python3 -m code",
        "python3 -m timeit 'x'",
        "python3 -mtimeit 'x'",
        "python3.11 -m code",
        "python3 -i x.py",
        "pypy3 -W ignore -c 'x'",
        "perl -I lib -e 'x'",
        "perl -w <<< 'x'",
        "ruby -I lib -e 'x'",
        "ruby -w <<< 'x'",
        "node -r fs -e 'x'",
        "node -i",
        "node --eval='x'",
        "node --print='x'",
        "node --stack-size 900 -e 'x'",
        "node --import 'data:text/javascript,x' x.js",
        "php -d a=b -r 'x'",
        "php -d auto_prepend_file=/dev/stdin x.php",
        "lua -l x -e 'x'",
        "deno eval 'x'",
        "bun exec 'git push'",
    ];
    assert_eq!(allowed(NO_PUSH, &lines), Vec::<&str>::new());
    let free = [
        "python3 scripts/list.py -c x",
        "python3 -W ignore -u x.py -c y",
        "python3 -m pytest -c x",
        "python3 --version",
        "perl -w -I lib x.pl -e y",
        "ruby -Itest test/x.rb -e y",
        "ruby -v",
        "node -v",
        "node -r fs build.js -e x",
        "node --max-old-space-size=4096 --inspect build.js -p 3000",
        "php -v",
        "php -d memory_limit=-1 x.php -r y",
        "Rscript --vanilla x.R",
    ];
    assert_eq!(stopped(NO_PUSH, &free), Vec::<&str>::new());
}

#[test]
fn a_quiet_program_that_is_told_to_start_a_command_is_not_quiet() {
    let lines = [
        "sed '1e git push' x",
        "sed -n '$!N;1 e git push' x",
        "sed 's/.*/git push/e' x",
        "sed 's|x|git push|ge' x",
        "sed -E -e p -e 's/a/b/2e' x",
        "sed 's/[/]/x/;s/y/]/e' x",
        "sed 's/[]/]/b/;1e git push' x",
        "sed ':}a;b}a;1e git push' x",
        "sed 'v 4;1e git push' x",
        "sed --expression='1e git push' x",
        "sed --expr '1e git push' x",
        "sed --line-length 5p '1e git push' x",
        "sed -l 5p '1e git push' x",
        "sed -f - x <<< '1e git push'",
        "sed -nf/dev/stdin x",
        "sed \"$x\" y",
        "echo '1e git push' | xargs sed -n",
        "awk \"$x\" y",
        "awk -f - <<< 'x'",
        "awk -f/dev/stdin",
        "awk -E x y",
        "awk 'BEGIN { f = \"sys\"; f = f \"tem\"; @f(\"git push\") }'",
        "awk 'BEGIN { sys\\\ntem(\"git push\") }'",
        "awk -v x=$y '{ print }'",
        "echo x | xargs awk",
        "make --eval='x:;git push' x",
        "make --ev 'x:;git push' x",
        "make -E 'x:;git push' x",
        "make -f - <<< 'x:;git push'",
        "make -sf- <<< 'x:;git push'",
        "make -f /dev/stdin <<< 'x:;git push'",
        "make -f <(printf 'x:;git push') x",
        "make -C /dev --file=stdin",
        "cd /dev && make -sf stdin",
        "make -f \"$x\"",
        "make SHELL=./x",
        "make .SHELLFLAGS='-c git push;'",
        "make 'X=$(shell git push)'",
        "MAKEFLAGS='--eval=x' make",
        "just -f - x",
        "just --command git push",
        "just -c 'git push'",
        "man -P 'git push' ls",
        "man --pager='git push' ls",
        "rg --pre 'x' y",
        "sort --compress-program=./x y",
        "sort --comp ./x y",
        "tar cf x --checkpoint=1 --checkpoint-action=exec='git push' y",
        "tar xf x --to-command='git push'",
        "tar -I 'git push' -cf x y",
        "tar cIf 'git push' x y",
        "less '+!git push' x",
        "LESSOPEN='|git push' less x",
        "split --filter='git push' x",
    ];
    assert_eq!(allowed(NO_PUSH, &lines), Vec::<&str>::new());
    let free = [
        "sed -n '1,20p' x",
        "sed -i.bak -e 's/a/b/g' -e '/a/d' x",
        "sed ':a;N;$!ba;s/\\n/ /g' x",
        "sed -ne '/^the/,$ {s/the/one/; p}' x",
        "sed -E 's/^[^]]+$/some/Ig; y/a/f/; $!d' x",
        "sed '1i\\\n the text' x",
        "sed --in-place --regexp-extended 's#a#f#' x",
        "find . -name '*.rs' | xargs sed -i 's/a/b/'",
        "awk -F, -v n=\"$x\" '{ print $n }' \"$f\"",
        "awk -f x.awk y",
        "find . | xargs awk '{ print }'",
        "rg --pretty -e x",
        "sort -u --key=2 --check x",
        "tar -xzf x.tar.gz --strip-components=1 --totals",
        "less x",
    ];
    assert_eq!(stopped(NO_PUSH, &free), Vec::<&str>::new());
}

#[test]
fn a_variable_by_which_programs_run_others_is_seen_wherever_it_is_set() {
    let lines = [
        "export \"GIT_EXTERNAL_DIFF=npm publish\"; git diff",
        "declare -x 'GIT_EXTERNAL_DIFF=npm publish'; git diff",
        "readonly \"BASH_ENV=./x\"; bash -c :",
        "for GIT_EDITOR in 'npm publish'; do git commit; done",
        "select GIT_EDITOR in 'npm publish'; do git commit; done",
        ": ${GIT_EDITOR=npm publish}",
        ": \"${GIT_EDITOR:=npm publish}\"",
        "n=GIT_EDITOR; : ${!n:=npm publish}",
        "printf -vGIT_EDITOR 'npm %s' publish; git commit",
        "read -raGIT_EDITOR <<< 'npm publish'",
        "PS4='x'; set -x",
        "TAR_OPTIONS='--checkpoint=1 --checkpoint-action=exec=x' tar cf x y",
        "RSYNC_RSH='npm publish' rsync a b:c",
        "NODE_OPTIONS='--import data:text/javascript,x' node -v",
        "x='npm publish'; PAGER=\"$x\" git log",
        "x='npm publish'; export GIT_EDITOR=\"$x\"; git commit",
        "x='npm publish'; env EDITOR=$x git commit",
        "RUBYOPT=-r./x ruby -v",
        "RUSTC_WRAPPER=./x cargo build",
        "RUSTC=./x cargo build",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='npm publish' cargo test",
        "x='$'; PS4=\"$x(npm publish)\"; set -x; :",
        "x='$'; y=\"a[$x(npm publish)]\"; ((y))",
        "x='$' a='(' b=')'; y=\"a[$x${a}npm publish$b]\"; ((y))",
        "printf -v y 'a[\\44(npm publish)]'; ((y))",
        "echo $(( $(echo 'a[$(npm publish)]') ))",
        "[[ $(echo 'a[$(npm publish)]') -eq 1 ]]",
    ];
    assert_eq!(allowed(NO_PUBLISH, &lines), Vec::<&str>::new());
    let free = [
        "NODE_OPTIONS='--max-old-space-size=4096 --no-warnings' npm ci",
        "RUBYOPT=-W0 ruby x.rb",
        "RUSTFLAGS=-Dwarnings GOFLAGS=-mod=vendor cargo test",
        "export PAGER=cat A=b \"C=d e\"",
        "printf 'ENV=%s (x)\\n' x",
        "for f in a b; do echo \"$f\"; done",
        "echo ${x:=y} ${x:-a}",
        "re='^a$'; grep \"$re\" x",
        "n=$(wc -l < x); if (( n > 5 )); then ls; fi",
    ];
    assert_eq!(stopped(NO_PUBLISH, &free), Vec::<&str>::new());
}

#[test]
fn what_comes_in_is_no_file_however_it_is_named() {
    let lines = [
        ". -- /dev/stdin <<< 'git push'",
        ". //dev/stdin <<< 'git push'",
        "source /tmp/../dev/fd/0 <<< 'git push'",
        "bash //dev/stdin <<< 'git push'",
        "bash ../../dev/fd/x <<< 'git push'",
        "cd /dev && bash stdin <<< 'git push'",
        "cd /dev; . stdin <<< 'git push'",
        "cd /; bash dev/fd/0 <<< 'git push'",
        "cd \"$d\"; python3 fd/0 <<< x",
    ];
    assert_eq!(allowed(NO_PUSH, &lines), Vec::<&str>::new());
    // A file that is named is no input, but a rule may be meant for what stands in it.
    for line in [
        ". -- x.sh",
        "source ./x/y.sh",
        "bash dev/x.sh",
        "cd x && bash y.sh",
        "bash /opt/x.sh",
        "make -j$(nproc) -C x -f y.mk all",
        "make -f \"$x/y.mk\" all",
        "just test --release",
        "bun run dev -p 3000",
    ] {
        let verdict = decide(NO_PUSH, &bash(line));
        let why = verdict.reason.as_deref();
        assert_eq!(
            why,
            Some("it runs commands from a file"),
            "{line}: {verdict:?}"
        );
        let program = line
            .split(' ')
            .find(|word| !matches!(*word, "cd" | "x" | "&&"))
            .unwrap_or_default();
        let allows = format!(
            "{NO_PUSH}[[rule]]\nname = \"own\"\ndecision = \"allow\"\ncommand = [\"{program}\"]\n"
        );
        assert_eq!(
            allowed(&allows, &[line]),
            [line],
            "the owner allows it by name"
        );
    }
    let free = [
        "make --version",
        "bash --version",
        "just --list",
        "bun x.ts",
    ];
    assert_eq!(stopped(NO_PUSH, &free), Vec::<&str>::new());
}
