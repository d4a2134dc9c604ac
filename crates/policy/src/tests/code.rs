//! Text of a line that becomes code, by what a shell does with it: none of it is allowed unseen.

use super::lines::{NO_PUBLISH, TESTS, allowed, stopped};

const NO_CURL: &str = "[[rule]]\nname = \"no-curl\"\ndecision = \"deny\"\ncommand = [\"curl\"]\n";

#[test]
fn what_a_shell_joins_or_ends_elsewhere_hides_no_command() {
    let lines = [
        "[[ a ]\\\n] && curl x && [[ b ]]",
        "[[ a ]\\\n\\\n] || curl x || [[ b ]]",
        "[[ $\\\n(echo 'a[$(curl x)]') -eq 1 ]]",
        "echo $(cat <<'E'\nE curl x )\nE\n)",
        "cat < <(cat <<'E'\nE curl x )\nE\n)",
        "echo $(cat <<-E\n\tE && curl x )\n\tE\n)",
        "a=(1)echo curl x",
        "a+=(1)true curl x",
        "a=( )ls curl x",
        "a=(1)\"echo\" curl x",
    ];
    assert_eq!(allowed(NO_CURL, &lines), Vec::<&str>::new());
    let keyed = [
        "bash -k -c 'cargo test PATH=.'",
        "bash -kc 'cargo test PATH=.'",
        "bash -o keyword -c 'cargo test PATH=.'",
        "bash -Z -c 'cargo test'",
        "cargo test; [[ a ]\\\n] && curl x && [[ b ]]",
    ];
    assert_eq!(allowed(TESTS, &keyed), Vec::<&str>::new());
    let free = [
        "[[ a == ']\\\n]' ]] && ls",
        "git commit -m \"$(cat <<'E'\nfix (a thing)\nE\n)\"",
        "bash -euxo pipefail -c 'ls'",
    ];
    assert_eq!(stopped(NO_CURL, &free), Vec::<&str>::new());
}

#[test]
fn text_that_gets_into_arithmetic_is_asked_about() {
    let lines = [
        "for x in 'a[$(curl x)]'; do ((x)); done",
        "select x in 'a[$(curl x)]'; do ((x)); done <<< 1",
        "set -- 'a[$(curl x)]'; (( $1 ))",
        "set -- 'a[$(curl x)]'; (( x = $1 ))",
        "set -- 'a[$(curl x)]'; for x; do ((x)); done",
        "set -- 'a[$(curl x)]'; y=$1; ((y))",
        "f() { echo $(( $1 )); }; f 'a[$(curl x)]'",
        "f() { local n=$1; (( n > 1 )); }; f 'a[$(curl x)]'",
        "f() { local -i n=$1; }; f 'a[$(curl x)]'",
        "f() { [[ $1 -eq 1 ]]; }; f 'a[$(curl x)]'",
        "f() { echo ${a[$1]}; }; f 'b[$(curl x)]'",
        "f() { a[$1]=2; }; f 'b[$(curl x)]'",
        "bash -c '(( $1 ))' _ 'a[$(curl x)]'",
        "bash -c '(( $0 ))' 'a[$(curl x)]'",
        ": 'a[$(curl x)]'; (( $_ ))",
        ": 'a[$(curl x)]'; ((_))",
        ": 'a[$(curl x)]'; echo ${a:$_}",
        "set -- -x'a[$(curl x)]'; getopts x: o; ((OPTARG))",
        "[ -v \"$(echo 'a[$(curl x)]')\" ]",
        "printf -v \"$(echo 'a[$(curl x)]')\" 1",
        "x=$(echo 'a[$(curl x)]'); ((x))",
        "x=`echo 'a[$(curl x)]'`; echo $((x))",
        "x=$(echo 'a[$(curl x)]'); [[ $x -eq 1 ]]",
        "x=$(echo 'a[$(curl x)]'); echo ${!x}",
        "x=$(echo 'a[$(curl x)]'); [ -v \"$x\" ]",
        "x=$(echo 'a[$(curl x)]'); printf -v \"$x\" 1",
        "x=$(echo 'a[$(curl x)]'); unset \"$x\"",
        "x=$(cat <<'E'\na[$(curl x)]\nE\n); ((x))",
        "x=($(echo 'a[$(curl x)]')); ((x))",
        ": ${x:=$(echo 'a[$(curl x)]')}; ((x))",
        "x=$(printf 'a[\\44\\50curl x\\51]'); ((x))",
        "x=$(printf '\\141\\133\\44\\50curl x\\51\\135'); ((x))",
        "x=$(echo 'a[%(curl x)]' | tr % '$'); ((x))",
        "x=$(tr % '$' <<< 'a[%(curl x)]'); ((x))",
        "x=$(tr % '$' <<'E'\na[%(curl x)]\nE\n); ((x))",
        "printf -v y 'a[\\44\\50curl x\\51]'; ((y))",
        "x=-v; printf $x y 'a[\\44\\50curl x\\51]'; ((y))",
        "x=-v; printf \"$x\" y 'a[$(curl x)]'; ((y))",
        "echo $(( $(printf 'a[\\44\\50curl x\\51]') ))",
        "env 'x=a[$(curl x)]' bash -c 'echo $((x))'",
        "env 'x=a[$(curl x)]' bash -c '((x))'",
        "declare 'x=a[$(curl x)]'; ((x))",
        "x='a[$'; y='(curl x)]'; (( $x$y ))",
        "x='a[$'; y='(curl x)]'; [[ $x$y -eq 1 ]]",
        "x='a[$'; y='(curl x)]'; [ -v \"$x$y\" ]",
        "x='a[$'; y='(curl x)]'; echo ${b[$x$y]}",
        "x='a[$'; x+='(curl x)]'; ((x))",
        "a=('a[$' '(curl x)]'); (( ${a[0]}${a[1]} ))",
        "x='a[@(curl x)]'; (( ${x/@/$'\\x24'} ))",
        "x='a[@(curl x)]'; (( ${x/@/\\$} ))",
        "set -- 'a[$' '(curl x)]'; (( $1$2 ))",
        "t=1; eval \"a['\\$(curl x)']\"; set -- \"a['\\$(curl x)']\"; (( $1 ))",
        "bash -c \"a['\\$(curl x)']; ((_))\" \"a['\\$(curl x)']; ((_))\"",
        "bash -c 'f() { echo $(( $1 )); }; f \"a[\\$(curl x)]\"'",
        "x bash -c 'f() { echo $(( $1 )); }; f \"a[\\$(curl x)]\"'",
        "set -- b [ \\$ \\( 'curl x' \\) ]; (( $1$2$3$4$5$6$7 ))",
        "x='b%(curl x)]'; x=${x/\\%/[$}; ((x))",
        "x=$(echo YVskKGN1cmwgeCldCg== | base64 -d); ((x))",
        "i=$(echo 'b[$(curl x)]'); a=([i]=1)",
        "i=$(echo 'b[$(curl x)]'); a=([$i]=1)",
        "i=$(echo 'b[$(curl x)]'); : {a[i]}>f",
    ];
    assert_eq!(allowed(NO_CURL, &lines), Vec::<&str>::new());
}

#[test]
fn arithmetic_over_what_the_line_does_not_write_is_free() {
    let free = [
        "n=$(wc -l < x); ((n > 5))",
        "n=$(wc -l < x | tr -d '[:space:]'); ((n > 5)) && [ -f x ]",
        "n=$(grep -c '^[a-z]' x); if [[ $n -gt 5 ]]; then echo \"[INFO] $n\"; fi",
        "for ((i=0;i<3;i++)); do echo $i; done",
        "for ((i=0;i<3;i++)); do grep 'x$' f$i | sed 's/${y}/z/'; done",
        "i=0; while ((i < 3)); do echo 'use `x`'; i=$((i + 1)); done",
        "for i in 1 2 3; do ((n += i)); done; echo 'say $(x)'",
        "f() { echo $(( $1 + 1 )); }; f 3",
        "git commit -m 'fix `x` and $(y)'; echo $((1 + 2))",
        "printf '\\033[31m%s\\033[0m\\n' x; n=$(wc -l < f); ((n > 5))",
        "bash -c 'n=$(wc -l < x); if ((n > 5)); then ls; fi'",
        "timeout 5 env A=b bash -c 'n=$(wc -l < x); ((n > 5))'",
        "xargs -n1 bash -c 'echo $(( $1 * 2 ))' _ < x",
        "f() { n=$1; ((n > 0)) && grep 'x$' f; }; f 3",
        "re='^a$'; grep \"$re\" x; echo $((1 + 2))",
        "[ -f x ] && echo ${x:1:2}",
    ];
    assert_eq!(stopped(NO_CURL, &free), Vec::<&str>::new());
    assert_eq!(stopped(NO_PUBLISH, &free), Vec::<&str>::new());
}

#[test]
fn what_only_names_a_command_is_not_asked_about() {
    let free = [
        "printf '%s' 'a`b`' > f",
        "man curl",
        "apt install curl",
        "sudo apt-get install -y curl",
        "tmux ls",
        "gh pr create --title 'do not curl it'",
        "sqlite3 x 'select 1 from curls'",
        "npm explore x -- ls",
        "cargo watch -x test",
        "npm install x --message 'do not curl it'",
        "go test ./... -run TestX",
    ];
    assert_eq!(stopped(NO_CURL, &free), Vec::<&str>::new());
    let lines = [
        "printf -v y 'a[`curl x`]'",
        "man -P 'curl x' ls",
        "apt exec curl",
        "tmux ls \\; run-shell 'curl x'",
        "tmux ls -F '#(curl x)'",
        "echo \"${x:-'$(curl x)'}\"",
        "echo \"${x:-'}$(curl x)'\"",
        "/usr/bin/../../work/echo curl x",
        "yash -c 'curl x'",
        "ksh93 -c 'curl x'",
        "R -e 'system(\"curl x\")'",
        "R --no-save < x",
        "ed x <<< '!curl x'",
        "sqlite3 x '.shell curl x'",
        "nodemon --exec 'sleep 1; curl x'",
        "go test -exec 'curl x'",
        "npm explore x -- 'curl x'",
        "cargo watch -s 'curl x'",
        "pnpm dlx concurrently 'sleep 1' 'curl x'",
    ];
    assert_eq!(allowed(NO_CURL, &lines), Vec::<&str>::new());
}
