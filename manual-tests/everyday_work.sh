#!/bin/bash
# Everyday work of a developer under the default configuration, by `PROGRAM call Bash`, as an ordinary user:
#   manual-tests/everyday_work.sh PROGRAM [ROW...]
# Each row has a new home with the caches that it needs, and a new workspace in it. Both lie below the user's own home.
# Prints `ok`, `skipped (why)` or `FAILED` per row; the exit code is 1 if one failed.
set -u

if [ $# -lt 1 ]; then
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
fi
if [ "$(id -u)" = 0 ]; then
    echo "Run this as an ordinary user: root may do what commands of a user may not." >&2
    exit 2
fi
program=$(realpath "$1")
shift
own_home=$HOME
rustup=${RUSTUP_HOME:-$HOME/.rustup}
top=$(mktemp -d "$HOME/everyday-work-XXXXXX") || exit 2
trap 'chmod -R u+w "$top"; rm -rf "$top"' EXIT

# Prints a text as a JSON string.
json_string() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\t'/\\t}
    printf '"%s"' "${text//$'\n'/\\n}"
}

# Runs a command line by the runner; what it prints is in $output.
call() {
    output=$(cd "$work" && "$program" call Bash "{\"command\":$(json_string "$1"),\"timeout\":300000}" 2>&1)
}

# The same, for lines of which each step must succeed. Steps are joined by `;`: bash goes on after a list with `&&` failed.
works() {
    call "set -e
$1
echo everyday''-ok"
    case $output in *everyday-ok*) ;; *) return 1 ;; esac
}

says() {
    case $output in *"$1"*) ;; *) return 1 ;; esac
}

# Skips a row without a program.
needs() {
    local name
    for name; do
        command -v "$name" > /dev/null || skip "no $name"
    done
}

skip() {
    echo "$1" > "$base/skipped"
    exit 0
}

row_cargo_build() {
    needs cargo
    cargo_project
    works "cargo build --offline -q; cargo test --offline -q; cargo run --offline -q"
}

row_cargo_unpacked() {
    needs cargo
    cargo_project
    (cd "$work" && cargo fetch -q) || return
    works "cargo test --offline -q"
}

# A crate of a registry in the workspace, which cargo has to unpack below ~/.cargo/registry, and a package that needs it.
cargo_project() {
    local registry=$base/registry sum
    mkdir -p "$registry/index/ev/er" "$registry/everyday-1.0.0/src" "$work/src" "$HOME/.cargo"
    printf '[package]\nname = "everyday"\nversion = "1.0.0"\nedition = "2021"\n' > "$registry/everyday-1.0.0/Cargo.toml"
    echo 'pub fn answer() -> u32 { 42 }' > "$registry/everyday-1.0.0/src/lib.rs"
    tar -C "$registry" -czf "$registry/everyday-1.0.0.crate" everyday-1.0.0
    sum=$(sha256sum "$registry/everyday-1.0.0.crate")
    printf '{"name":"everyday","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}\n' "${sum%% *}" \
        > "$registry/index/ev/er/everyday"
    rm -r "$registry/everyday-1.0.0"
    mv "$registry" "$work/registry"
    printf '[source.crates-io]\nreplace-with = "near"\n[source.near]\nlocal-registry = "%s"\n' "$work/registry" \
        > "$HOME/.cargo/config.toml"
    printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\neveryday = "1"\n' > "$work/Cargo.toml"
    printf 'fn main() { println!("{}", everyday::answer()); }\n#[test]\nfn is_42() { assert_eq!(everyday::answer(), 42); }\n' \
        > "$work/src/main.rs"
}

# A package for npm, as a tarball.
node_package() {
    mkdir -p "$work/package"
    echo '{"name":"everyday","version":"1.0.0","main":"index.js"}' > "$work/package/package.json"
    echo 'module.exports = 42;' > "$work/package/index.js"
    tar -C "$work" -czf "$work/everyday-1.0.0.tgz" package
    rm -r "$work/package"
    echo '{"name":"app","version":"1.0.0"}' > "$work/package.json"
    cat > "$work/registry.js" <<'JS'
const http = require("http"), fs = require("fs"), crypto = require("crypto");
const tarball = fs.readFileSync("everyday-1.0.0.tgz");
const integrity = "sha512-" + crypto.createHash("sha512").update(tarball).digest("base64");
const server = http.createServer((request, response) => {
  const base = "http://127.0.0.1:" + server.address().port;
  if (request.url.endsWith(".tgz")) return response.end(tarball);
  if (request.url !== "/everyday") {
    response.statusCode = request.url.startsWith("/-/") ? 200 : 404;
    return response.end("{}");
  }
  const dist = { tarball: base + "/everyday-1.0.0.tgz", integrity };
  const versions = { "1.0.0": { name: "everyday", version: "1.0.0", dist } };
  response.end(JSON.stringify({ name: "everyday", "dist-tags": { latest: "1.0.0" }, versions }));
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync("port", String(server.address().port)));
JS
}

readonly FROM_REGISTRY='node registry.js & server=$!; trap "kill $server" EXIT
until [ -s port ]; do sleep 0.1; done'

row_npm_tarball() {
    needs npm node
    node_package
    works 'npm install ./everyday-1.0.0.tgz; [ "$(node -p "require(\"everyday\")")" = 42 ]'
}

row_npm_registry() {
    needs npm node
    node_package
    works "$FROM_REGISTRY"'
npm install --registry "http://127.0.0.1:$(cat port)" everyday; [ "$(node -p "require(\"everyday\")")" = 42 ]'
}

row_pnpm_tarball() {
    needs pnpm node
    node_package
    works 'pnpm install ./everyday-1.0.0.tgz; [ "$(node -p "require(\"everyday\")")" = 42 ]'
}

row_pnpm_registry() {
    needs pnpm node
    node_package
    works "$FROM_REGISTRY"'
pnpm add --registry "http://127.0.0.1:$(cat port)" everyday; [ "$(node -p "require(\"everyday\")")" = 42 ]'
}

# A wheel.
python_wheel() {
    (cd "$work" && python3 - <<'PY'
import zipfile
with zipfile.ZipFile("everyday-1.0-py3-none-any.whl", "w") as wheel:
    info = "everyday-1.0.dist-info/"
    wheel.writestr("everyday.py", "answer = 42\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: everyday\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", f"everyday.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
PY
    )
}

row_pip() {
    needs python3
    python3 -c 'import ensurepip' 2> /dev/null || skip "no module ensurepip"
    python_wheel
    works 'python3 -m venv v; v/bin/pip install --no-index ./everyday*.whl; v/bin/python -c "import everyday"'
}

row_uv() {
    needs uv python3
    python_wheel
    works 'uv venv -q v; uv pip install -q --offline --python v ./everyday*.whl; v/bin/python -c "import everyday"'
}

# Toolchains below the home, of which commands see programs and libraries.
row_pyenv() {
    needs python3
    python3 -c 'import ensurepip' 2> /dev/null || skip "no module ensurepip"
    python3 -m venv "$HOME/.pyenv/versions/own" || return
    printf 'export PATH=%q:$PATH\n' "$HOME/.pyenv/versions/own/bin" >> "$HOME/.profile"
    echo 'index-url = https://u:p@example.com' > "$HOME/.pyenv/versions/own/pip.conf"
    works 'python -c "import ssl, sys; ssl.create_default_context(); assert \"pyenv\" in sys.prefix"; pip --version
[ ! -e ~/.pyenv/versions/own/pip.conf ]'
}

row_pipx() {
    needs python3
    python3 -c 'import ensurepip' 2> /dev/null || skip "no module ensurepip"
    local tool=$HOME/.local/share/pipx/venvs/tool
    python3 -m venv "$tool" || return
    mkdir -p "$HOME/.local/bin"
    printf '#!%s\nimport ssl, pip\nprint("made")\n' "$tool/bin/python" > "$tool/bin/tool"
    chmod +x "$tool/bin/tool"
    ln -s "$tool/bin/tool" "$HOME/.local/bin/tool"
    works '[ "$(~/.local/bin/tool)" = made ]'
}

row_nvm() {
    needs node npm
    local version=$HOME/.nvm/versions/node/v0 modules
    modules=$(npm root -g) || return
    [ -d "$modules/npm" ] || skip "no npm in $modules"
    mkdir -p "$version/bin" "$version/lib/node_modules" "$version/etc"
    cp "$(command -v node)" "$version/bin/node"
    cp -r "$modules/npm" "$version/lib/node_modules/"
    ln -s ../lib/node_modules/npm/bin/npm-cli.js "$version/bin/npm"
    echo '//example.com/:_authToken=x' > "$version/etc/npmrc"
    printf 'export PATH=%q:$PATH\n' "$version/bin" >> "$HOME/.profile"
    works 'case $(command -v npm) in *.nvm*) ;; *) exit 1 ;; esac; npm --version; npm init -y; [ ! -e ~/.nvm/versions/node/v0/etc ]'
}

row_go() {
    needs go
    printf 'module app\ngo 1.20\n' > "$work/go.mod"
    printf 'package main\nfunc main() { println("made") }\n' > "$work/main.go"
    works 'go build -o app .; go vet .; ./app'
}

row_maven() {
    needs mvn javac
    [ -d "$own_home/.m2/repository/org/apache/maven/plugins" ] || skip "no plugins in ~/.m2"
    mkdir -p "$HOME/.m2" "$work/src/main/java"
    cp -r --reflink=auto "$own_home/.m2/repository" "$HOME/.m2/"
    cat > "$work/pom.xml" <<'XML'
<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>app</artifactId><version>1</version>
<properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target></properties>
</project>
XML
    echo 'class A {}' > "$work/src/main/java/A.java"
    # Java takes the user's home from the list of users, not from HOME.
    works 'mvn -o -q "-Dmaven.repo.local=$HOME/.m2/repository" compile; [ -f target/classes/A.class ]'
}

row_gradle() {
    needs gradle
    echo 'task made { doLast { println "made" } }' > "$work/build.gradle"
    works 'gradle -g "$HOME/.gradle" --offline --no-daemon -q made'
}

row_make() {
    needs make gcc
    printf 'int main(void) { return 0; }\n' > "$work/a.c"
    printf 'a: a.c\n\tgcc -o $@ $<\n' > "$work/Makefile"
    works 'make -j2; ./a'
}

row_cmake() {
    needs cmake gcc
    printf 'int main(void) { return 0; }\n' > "$work/a.c"
    printf 'cmake_minimum_required(VERSION 3.10)\nproject(a C)\nadd_executable(a a.c)\n' > "$work/CMakeLists.txt"
    works 'cmake -B build; cmake --build build; build/a'
}

row_sanitizers() {
    needs gcc
    printf '#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n' > "$work/a.c"
    works 'gcc -g -fsanitize=address,undefined -o a a.c; LSAN_OPTIONS=detect_leaks=0 ./a' || return
    call './a' && { says 'Exit code' && says 'LSAN_OPTIONS=detect_leaks=0' || ! says 'Exit code'; }
}

row_multiprocessing() {
    needs python3
    cat > "$work/a.py" <<'PY'
import multiprocessing as m
from multiprocessing import shared_memory
if __name__ == "__main__":
    with m.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    with m.Lock():
        m.Queue().put(1)
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.close()
    block.unlink()
PY
    works 'python3 a.py'
}

# A thread of ZeroMQ sets its own scheduling; Jupyter's kernels are made of it.
row_zeromq() {
    needs python3
    python3 -c 'import zmq' 2> /dev/null || skip "no module zmq"
    cat > "$work/a.py" <<'PY'
import zmq
context = zmq.Context()
answers, asks = context.socket(zmq.REP), context.socket(zmq.REQ)
asks.connect(f"tcp://127.0.0.1:{answers.bind_to_random_port('tcp://127.0.0.1')}")
asks.send(b"asked")
assert answers.recv() == b"asked"
PY
    works 'python3 a.py'
}

# A notebook that is executed: its kernel speaks ZeroMQ.
row_jupyter() {
    needs python3
    python3 -c 'import ipykernel, nbconvert' 2> /dev/null || skip "no modules ipykernel and nbconvert"
    cat > "$work/a.ipynb" <<'JSON'
{"cells":[{"cell_type":"code","execution_count":null,"id":"one","metadata":{},"outputs":[],"source":["print(6 * 7)"]}],
 "metadata":{"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"}},"nbformat":4,"nbformat_minor":5}
JSON
    works 'python3 -m nbconvert --to notebook --execute --output b.ipynb a.ipynb; grep -q 42 b.ipynb'
}

# A Java program that wants a host which nobody allowed: the answer names the host and the command that allows it.
row_java_network() {
    needs java
    cat > "$work/Fetch.java" <<'JAVA'
class Fetch {
    public static void main(String[] args) throws Exception {
        new java.net.URL("http://everyday.example/").openStream().close();
    }
}
JAVA
    call 'java Fetch.java'
    says everyday.example && says 'policy allow'
}

# A server with a certificate of the company's own authority, which a variable of the login shell names.
row_company_authority() {
    needs python3 openssl
    python3 -c 'import requests' 2> /dev/null || skip "no module requests"
    (cd "$HOME" && openssl req -x509 -newkey rsa:2048 -nodes -keyout "$base/key.pem" -out authority.pem -days 2 \
        -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1) 2> /dev/null || return
    cat "$base/key.pem" "$HOME/authority.pem" > "$work/server.pem"
    printf 'export REQUESTS_CA_BUNDLE=%q\n' "$HOME/authority.pem" >> "$HOME/.profile"
    cat > "$work/a.py" <<'PY'
import http.server, ssl, threading
import requests
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert requests.get(f"https://127.0.0.1:{server.server_port}/a.py").ok
PY
    works 'python3 a.py'
}

row_pytest() {
    needs python3
    python3 -c 'import pytest' 2> /dev/null || skip "no module pytest"
    echo 'def test_a(tmp_path): (tmp_path / "x").write_text("x")' > "$work/test_a.py"
    works 'python3 -m pytest -q'
}

row_node_server() {
    needs node curl
    echo 'require("http").createServer((q, s) => s.end("served")).listen(8123, "127.0.0.1")' > "$work/server.js"
    works 'node server.js & server=$!; trap "kill $server" EXIT
curl -sS --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8123/ | grep served'
}

row_sqlite() {
    needs sqlite3
    works 'sqlite3 x.db "pragma journal_mode = wal; create table t(a); insert into t values (1); select a from t"'
}

row_postgres() {
    local bin port
    for bin in /usr/lib/postgresql/*/bin; do :; done
    [ -x "$bin/initdb" ] || skip "no initdb"
    needs psql
    port=$((20000 + RANDOM % 20000))
    "$bin/initdb" -D "$base/data" -A trust > /dev/null || return
    "$bin/pg_ctl" -D "$base/data" -o "-p $port -k $base" -l "$base/log" -w start > /dev/null || return
    mkdir -m 700 "$HOME/.punie"
    printf '[sandbox]\nlocal_ports = [%s]\n' "$port" > "$HOME/.punie/config.toml"
    works "psql -h 127.0.0.1 -p $port -d postgres -c 'select 1'"
    local end=$?
    "$bin/pg_ctl" -D "$base/data" -m immediate stop > /dev/null
    return $end
}

# Makes a repository with two commits.
readonly REPOSITORY='git init -q -b main r; cd r
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
echo 1 > f; git add f; git commit -qm one; echo 2 > f; git commit -qam two'

row_git_worktree() {
    needs git
    works "$REPOSITORY"'
git worktree add -q ../tree -b side; cd ../tree; echo 3 > f; git commit -qam three; cd ../r; git merge -q side
git worktree remove ../tree; [ "$(cat f)" = 3 ]'
}

# The repository lies outside of the workspace: hidden until the owner allows it, and the answer has the command.
row_git_worktree_as_workspace() {
    needs git
    name_author
    git init -q -b main "$HOME/repository"
    git -C "$HOME/repository" commit -q --allow-empty -m one
    rmdir "$work"
    git -C "$HOME/repository" worktree add -q "$work" -b side
    call 'git status'
    says "policy allow --folder $HOME/repository/.git" || return
    (cd "$work" && "$program" policy allow --folder "$HOME/repository/.git") > "$base/allowed" 2>&1 || return
    works 'echo 1 > f; git add f; git commit -qm two; git log --oneline | grep -q two'
}

row_git_three_repositories() {
    needs git
    name_author
    works 'for r in alpha beta zeta; do git init -q -b main $r; echo $r > $r/f; git -C $r add f; git -C $r commit -qm one; done
[ "$(git -C beta log --format=%s)" = one ]' || return
    call 'git -C alpha remote add up x'
    says "$work/alpha/.git/config" && ! says "$work/zeta"
}

# Too large for a snapshot: the answer says so.
row_git_large_repository() {
    needs git python3
    name_author
    git init -q -b main "$work"
    python3 -c '
import os, sys
for n in range(600):
    os.mkdir(f"{sys.argv[1]}/{n}")
    for m in range(100):
        open(f"{sys.argv[1]}/{n}/{m}", "w").write(f"{n} {m}")
' "$work"
    call 'git add -A; git commit -qm all; git status --short | wc -l; echo everyday-ok'
    says everyday-ok && says 'cannot be undone'
}

name_author() {
    printf '[user]\n    name = a\n    email = a@b\n' > "$HOME/.gitconfig"
}

row_git_submodule() {
    needs git
    works "$REPOSITORY"'
cd ..; git init -q -b main s; cd s; git -c protocol.file.allow=always submodule add -q ../r r; git commit -qm module
cd ..; git clone -q s t; cd t; git -c protocol.file.allow=always submodule update -q --init; [ "$(cat r/f)" = 2 ]'
}

row_git_rebase() {
    needs git
    works "$REPOSITORY"'
git checkout -q -b side HEAD~1; echo x > g; git add g; git commit -qm side; git rebase -q main; [ "$(cat f g)" = "2
x" ]; GIT_SEQUENCE_EDITOR="sed -i 2s/pick/squash/" GIT_EDITOR=true git rebase -q -i HEAD~2'
}

row_git_stash() {
    needs git
    works "$REPOSITORY"'
echo 3 > f; git stash -q; [ "$(cat f)" = 2 ]; git stash pop -q; [ "$(cat f)" = 3 ]'
}

row_git_signing() {
    needs git gpg
    call "$REPOSITORY"'
git commit -S --allow-empty -m signed'
    says 'cannot sign' && ! says 'read = [' || return
    works 'cd r; export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git commit --no-gpg-sign --author="a <a@b>" --allow-empty -qm unsigned'
}

row_temp_paths() {
    works 'echo x > /tmp/everyday; [ "$(cat /tmp/everyday)" = x ]; rm /tmp/everyday; mkdir -p /var/tmp/everyday
rmdir /var/tmp/everyday; f=$(mktemp); d=$(mktemp -d); rm -r "$f" "$d"; f=$(mktemp /tmp/x.XXXXXX); rm "$f"'
}

row_removal() {
    mkdir -p "$work/folder/inner"
    echo x | tee "$work/folder/a" "$work/folder/inner/b" > /dev/null
    works 'rm -r folder; [ ! -e folder ]' || return
    (cd "$work" && "$program" trash list 2>&1 | grep -q folder)
}

row_ps() {
    needs ps
    works 'sleep 5 & ps aux | grep -q "[s]leep 5"; kill %1'
}

row_man() {
    needs man
    man -w ls > /dev/null 2>&1 || skip "no manual of ls"
    works 'man -P cat ls | grep -q NAME'
}

row_locale() {
    works 'locale > /dev/null; LC_ALL=C.UTF-8 bash -c "printf %s ä | wc -m" | grep -qx 1'
}

row_time_zone() {
    [ -e /usr/share/zoneinfo/Asia/Tokyo ] || skip "no time zones"
    works '[ "$(TZ=Asia/Tokyo date -d @0 +%H)" = 09 ]'
}

# Runs a row with homes and a workspace of its own.
run_row() {
    base=$top/$1
    export HOME=$base/home
    unset RUSTUP_HOME PUNIE_HOME PUNIE_CONFIG PUNIE_WORKSPACE CARGO_HOME
    work=$HOME/work
    mkdir -p "$work"
    # As where toolchains lie on another disk.
    ln -s "$rustup" "$HOME/.rustup"
    printf 'export PATH=%q\n' "$PATH" > "$HOME/.profile"
    output=
    "row_$1"
    local end=$?
    printf '%s\n' "$output" > "$base/output"
    return $end
}

rows=("$@")
[ $# -gt 0 ] || mapfile -t rows < <(sed -n 's/^row_\([a-z_]*\)() {$/\1/p' "$0")
failed=0
for row in "${rows[@]}"; do
    if ! declare -F "row_$row" > /dev/null; then
        echo "$row: no such row" >&2
        exit 2
    fi
    if (run_row "$row"); then
        if [ -e "$top/$row/skipped" ]; then
            echo "$row: skipped ($(cat "$top/$row/skipped"))"
        else
            echo "$row: ok"
        fi
    else
        failed=1
        echo "$row: FAILED"
        sed 's/^/    /' "$top/$row/output" | tail -n 15
    fi
done
exit $failed
