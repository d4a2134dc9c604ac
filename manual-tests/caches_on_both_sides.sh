#!/bin/bash
# Package managers of the user and of commands at work at once, over the caches that they share:
#   manual-tests/caches_on_both_sides.sh PROGRAM [cargo] [npm] [uv]
# The user's tools install, clean and remove in their cache while a runner's commands install from it. Afterwards each file
# that was installed, or that a cache holds, is compared with its hash. Needs the network. Prints `ok` or `FAILED` per step;
# the exit code is 1 if one failed.
set -u

if [ $# -lt 1 ]; then
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
fi
program=$(realpath "$1")
shift
rounds=4
failed=0
base=$(mktemp -d) || exit 2
runner=
finish() {
    [ -z "$runner" ] || kill "$runner" 2> /dev/null
    wait
    chmod -R u+w "$base"
    rm -rf "$base"
}
trap finish EXIT
# rustup's own `cargo` looks for toolchains in the home, which is another one here.
if cargo=$(rustup which cargo 2> /dev/null); then
    PATH=$(dirname "$cargo"):$PATH
fi

# Python programs that compare files with their hashes.
cat > "$base/check_crates.py" << 'PY'
import glob, os, sys, tarfile
registry, bad = os.path.expanduser("~/.cargo/registry"), []
for crate in glob.glob(registry + "/cache/*/*.crate"):
    source = registry + "/src/" + os.path.basename(os.path.dirname(crate)) + "/"
    if not os.path.exists(source + os.path.basename(crate)[:-6] + "/.cargo-ok"):
        continue
    archive = tarfile.open(crate, "r:gz")
    for member in filter(lambda member: member.isfile(), archive.getmembers()):
        try:
            same = open(source + member.name, "rb").read() == archive.extractfile(member).read()
        except OSError:
            same = False
        bad += [] if same else [member.name]
sys.exit(str(bad) if bad else 0)
PY
cat > "$base/check_npm.py" << 'PY'
import glob, hashlib, os, sys
top = os.path.expanduser("~/.npm/_cacache/content-v2/sha512/")
files = [path for path in glob.glob(top + "*/*/*")]
name = lambda path: path[len(top):].replace("/", "")
bad = [path for path in files if hashlib.sha512(open(path, "rb").read()).hexdigest() != name(path)]
sys.exit(str(bad) if bad else 0)
PY
cat > "$base/check_wheels.py" << 'PY'
import base64, csv, glob, hashlib, os, sys
count, bad = 0, []
for record in glob.glob("t/*.dist-info/RECORD"):
    for path, wanted, _ in filter(lambda row: row[1], csv.reader(open(record))):
        try:
            digest = hashlib.sha256(open("t/" + path, "rb").read()).digest()
        except OSError:
            digest = b""
        count += 1
        found = "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        bad += [] if found == wanted else [path]
sys.exit(str(bad) if bad else 0 if count > 100 else "nothing was installed")
PY

# Starts a runner with a new home beside a new user's folder, which is $HOME from here on.
start_runner() {
    local top=$base/$1 waited
    export HOME=$top/user PUNIE_HOME=$top/punie PUNIE_WORKSPACE=$top/work
    mkdir -p "$HOME/$2" "$PUNIE_WORKSPACE/b" "$top/own" && mkdir -m 700 "$PUNIE_HOME" || exit 2
    cp "$base"/*.py "$PUNIE_WORKSPACE"
    printf '[sandbox]\nnetwork = "full"\n' > "$PUNIE_HOME/config.toml"
    (cd "$PUNIE_WORKSPACE" && exec "$program" dev) > "$top/log" 2>&1 &
    runner=$!
    for waited in $(seq 300); do
        "$program" status -v 2> /dev/null | grep -q "shared with commands.*$2" && break
        sleep 0.1
    done
    cd "$top/own" || exit 2
}

stop_runner() {
    kill "$runner"
    wait "$runner"
    runner=
}

step() {
    if [ "$1" = 0 ]; then
        echo "ok      $2"
    else
        echo "FAILED  $2"
        tail -5 "$base/command" "$base/user"
        failed=1
    fi
}

# Runs a command line by the runner; each step of it must succeed.
command_does() {
    local line="set -e; cd b; $2; echo both-sides''-ok"
    line=${line//\\/\\\\}
    "$program" send Bash "{\"command\":\"${line//\"/\\\"}\",\"timeout\":300000}" > "$base/command" 2>&1
    grep -q both-sides-ok "$base/command"
    step $? "command: $1"
}

# The same for the user's own tools.
user_does() {
    (set -e; eval "$2") > "$base/user" 2>&1
    step $? "user: $1"
}

# Both at once: the texts and lines of the user and of the command.
both_do() {
    (set -e; eval "$1") > "$base/user" 2>&1 &
    local user=$!
    command_does "$2" "$3"
    wait "$user"
    step $? "user, beside it"
}

run_cargo() {
    local round build='cargo clean -q; cargo build -q; python3 ../check_crates.py'
    start_runner cargo .cargo/registry
    mkdir -p src "$PUNIE_WORKSPACE/b/src"
    echo 'fn main() {}' | tee src/main.rs > "$PUNIE_WORKSPACE/b/src/main.rs"
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "1"\nserde = "1"\n%s\n' \
        a 'anyhow = "1"' > Cargo.toml
    sed 's/anyhow = "1"/regex = "1"\nrand = "0.8"/' Cargo.toml > "$PUNIE_WORKSPACE/b/Cargo.toml"
    for round in $(seq $rounds); do
        both_do 'cargo fetch -q' "builds beside a fetch" "$build"
        case $round in
            1) rm -rf "$HOME"/.cargo/registry/src/*/itoa* "$HOME"/.cargo/registry/cache/*/serde* ;;
            2) rm -rf "$HOME"/.cargo/registry/src "$HOME"/.cargo/registry/index ;;
            3) rm -rf "$HOME"/.cargo/registry/cache ;;
            4) rm -rf "$HOME"/.cargo/registry/* ;;
        esac
        command_does "builds after the user removed a part" "$build"
        both_do 'cargo fetch -q; cargo build -q; cargo clean -q' "updates and builds" "cargo update -q; $build"
        command_does "removes sources and builds" "rm -rf ~/.cargo/registry/src/*/serde*; $build"
        user_does "the sources are whole" 'python3 ../work/check_crates.py'
    done
    command_does "removes all and builds" "rm -rf ~/.cargo/registry/*; $build"
    user_does "builds offline" 'cargo build -q --offline'
    stop_runner
}

run_npm() {
    local round fresh='rm -rf node_modules; npm ci --loglevel=error; node -e "require(\"lodash\");require(\"chalk\")"'
    local npm='npm install --no-audit --no-fund --loglevel=error'
    start_runner npm .npm/_cacache
    echo '{"name":"a","version":"1.0.0"}' | tee package.json > "$PUNIE_WORKSPACE/b/package.json"
    for round in $(seq $rounds); do
        both_do "rm -rf node_modules; $npm lodash express@4" "installs beside the user" "rm -rf node_modules; $npm lodash chalk@4 glob@7"
        case $round in
            1) npm cache clean --force > /dev/null 2>&1 ;;
            2) rm -rf "$HOME"/.npm/_cacache/content-v2 ;;
            3) rm -rf "$HOME"/.npm/_cacache/index-v5 ;;
            4) rm -rf "$HOME"/.npm/_cacache/* ;;
        esac
        command_does "installs after the user removed a part" "$fresh; python3 ../check_npm.py"
        both_do 'rm -rf node_modules; npm ci; npm cache verify' "verifies its cache" "$fresh; npm cache verify"
        command_does "its content is whole" 'python3 ../check_npm.py'
        user_does "the content is whole" 'python3 ../work/check_npm.py'
    done
    command_does "removes all and installs" "rm -rf ~/.npm/_cacache/*; $fresh"
    user_does "the content is whole" 'python3 ../work/check_npm.py'
    stop_runner
}

run_uv() {
    local round install='rm -rf t; uv pip install -q --reinstall --target t'
    local mine="$install requests rich six; python3 ../check_wheels.py"
    local users="$install requests flask six; python3 ../work/check_wheels.py"
    start_runner uv .cache/uv
    for round in $(seq $rounds); do
        both_do "$users" "installs beside the user" "$mine"
        case $round in
            1) uv cache clean -q ;;
            2) uv cache clean -q six rich && uv cache prune -q ;;
            3) rm -rf "$HOME"/.cache/uv/archive-v0/* ;;
            4) rm -rf "$HOME"/.cache/uv/* ;;
        esac
        command_does "installs after the user removed a part" "$mine"
        both_do "$users" "cleans a package and installs" "$mine; uv cache clean -q six; $mine"
        both_do 'for each in 1 2 3 4 5 6; do uv cache clean -q six requests; done' "installs while the user cleans" "$mine; $mine; $mine"
    done
    command_does "removes all and installs" "rm -rf ~/.cache/uv/*; $mine"
    user_does "installs" "$users"
    stop_runner
}

[ $# -gt 0 ] || set -- cargo npm uv
for tool; do
    "run_$tool"
done
exit "$failed"
