#!/bin/bash
# Plants 350 secrets in 300 places where tools keep them, and reads each in every way that an agent has:
#   manual-tests/planted_secrets.sh PROGRAM [WAY...]
# The ways: bash read grep sqlite plugin mcp bridge. In a new home below the user's own, as an ordinary user; folders of the
# system count where the user may write there. Prints each way with the number of secrets that it read, and where; the
# exit code is 1 if it is not 0 everywhere.
set -u

if [ $# -lt 1 ]; then
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
fi
if [ "$(id -u)" = 0 ]; then
    echo "Run this as an ordinary user: root may do what commands of a user may not." >&2
    exit 2
fi
program=$(realpath "$1")
shift
top=$(mktemp -d "$HOME/planted-secrets-XXXXXX") || exit 2
own=$(basename "$top")
trap 'kill "${device:-}" 2> /dev/null; wait; rm -rf "$top" /{etc,opt,srv,usr/local,usr/src,var/lib,var/cache}/"$own" 2> /dev/null' EXIT
export HOME=$top/home
unset PUNIE_HOME PUNIE_CONFIG PUNIE_WORKSPACE CARGO_HOME RUSTUP_HOME
work=$HOME/work
mkdir -p "$work" "$HOME/tools/own/bin"
mkdir -m 700 "$HOME/.punie"
printf 'export PATH=%q:$HOME/tools/own/bin\n' "$PATH" > "$HOME/.profile"
list=$work/list
number=0

# Takes the next secret.
next_secret() {
    number=$((number + 1))
    secret=planted-secret-$number-$RANDOM
}

# Plants a file: each SECRET in the text is one.
plant() {
    local path=$1 text=${2:-SECRET} made
    case $path in /*) ;; *) path=$HOME/$path ;; esac
    mkdir -p "$(dirname "$path")" 2> /dev/null || return 0
    [ -e "$path" ] && return 0
    made=
    while [[ $text == *SECRET* ]]; do
        next_secret
        made+=${text%%SECRET*}$secret
        text=${text#*SECRET}
    done
    printf '%s\n' "$made$text" > "$path"
    chmod 600 "$path"
    echo "$path" >> "$list"
}

plant_settings() {
    plant .gitconfig $'[user]\n\tname = a\n[sendemail]\n\tsmtpPass = SECRET\n[github]\n\toauth = SECRET\n[alias]\n\tx = "!curl -H SECRET"\n[core]\n\taskPass = echo SECRET\n[http]\n\textraHeader = Authorization: SECRET\n\tproxy = http://u:SECRET@h:1\n[url "https://SECRET@h/"]\n\tinsteadOf = https://h/'
    plant .config/git/config $'[credential "https://h"]\n\tpassword = SECRET\n[gitlab] private = SECRET\n[imap]\n\tpass = SECRET'
    plant .cargo/config.toml $'[registry]\ntoken = "SECRET"\n[registries]\no = { token = "SECRET" }\n[env]\nA = "SECRET"\nB = { value = "SECRET" }\n[http]\nproxy = "u:SECRET@h:1"'
    plant .config/mise/config.toml $'[env]\nA = "SECRET"\nB = "SECRET"\n[tasks.x]\nrun = "curl SECRET"\n[vars]\nc = "SECRET"'
    plant .cargo/env $'export PATH=x\nexport A=SECRET B=SECRET'
    plant .opam/config $'opam-version: "2.0"\ndownload-command: ["curl" "-H" "Authorization: SECRET"]'
    plant .sdkman/etc/config $'sdkman_token=SECRET'
    plant .ghcup/env 'export A=SECRET'
    plant .elan/env 'export A=SECRET'
    plant sdk/go1.22/go.env 'GOPROXY=https://u:SECRET@h'
    local repository
    for repository in .cargo/git/db/a .cargo/git/checkouts/a/1/.git .cargo/registry/index/a/.git go/pkg/mod/cache/vcs/a \
        .cache/uv/git-v0/db/a .cache/composer/vcs/a .julia/registries/a/.git .cache/pre-commit/repo1/.git; do
        plant "$repository/config" $'[remote "origin"]\n\turl = https://u:SECRET@h/a\n[http]\n\textraHeader = Authorization: SECRET'
    done
}

plant_in_toolchains() {
    local folder name
    for folder in .pyenv .rbenv .nodenv .goenv .jenv .asdf .rustup .elan .nvm .sdkman .gvm .rvm .opam .ghcup .volta .rye .dotnet \
        .swiftly .local/share/mise .local/share/uv; do
        for name in .git/config token credentials config.yaml plugins/own/.git/config; do
            plant "$folder/$name"
        done
    done
    for folder in .nvm/versions/node/v20 .nodenv/versions/20 .fnm/node-versions/v20/installation .volta/tools/image/node/20 \
        .asdf/installs/nodejs/20 .local/share/mise/installs/node/20 .npm-global .npm-packages .linuxbrew; do
        for name in etc/npmrc .npmrc .env token etc/ssl/private/key.pem; do
            plant "$folder/$name"
        done
    done
    for folder in .pyenv/versions/3.12 .virtualenvs/web .local/share/virtualenvs/web .local/pipx/venvs/x .local/share/pipx/venvs/x \
        .local/share/uv/tools/x .local/share/uv/python/cpython-3.12 .rye/tools/x miniconda3 anaconda3 miniforge3 miniconda3/envs/x; do
        for name in pip.conf .env src/x/.git/config etc/pip.conf conda-meta/history; do
            plant "$folder/$name"
        done
    done
    for name in .local/share/uv/credentials/credentials.toml .opam/plugins/opam-publish/user.token .opam/repo/repos-config \
        .opam/default/.opam-switch/sources/x/.git/config .dotnet/corefx/cryptography/x509stores/my/a.pfx .volta/hooks.json \
        .virtualenvs/postactivate .virtualenvs/web/bin/postactivate .virtualenvs/web/bin/preactivate \
        .local/share/pipx/venvs/x/pipx_metadata.json .local/share/uv/tools/x/uv-receipt.toml miniconda3/.condarc anaconda3/.condarc \
        miniconda3/envs/x/conda-meta/state miniconda3/etc/conda/activate.d/env_vars.sh miniconda3/pkgs/urls.txt \
        .sdkman/candidates/maven/3/conf/settings.xml .sdkman/candidates/gradle/8/gradle.properties \
        .sdkman/candidates/gradle/8/init.d/x.gradle .sdkman/candidates/java/17/conf/management/jmxremote.password \
        .sdkman/candidates/tomcat/10/conf/tomcat-users.xml .jdks/17/conf/management/jmxremote.password \
        .m2/wrapper/dists/m/1/conf/settings.xml .gem/ruby/3.3.0/credentials .rbenv/versions/3.3/etc/gemrc sdk/token \
        sdk/android/keystore.jks .gvm/environments/default tools/own/etc/npmrc tools/own/config/token tools/own/bin/notes \
        bin/token bin/notes .local/bin/deploy.key go/bin/netrc .cargo/bin/token .bun/bin/auth .deno/bin/auth; do
        plant "$name"
    done
}

plant_elsewhere() {
    local name
    for name in .ivy2/local/.credentials .cache/pip/http/1/a .npm/_cacache/token .m2/repository/credentials.xml \
        .nuget/packages/auth.json .ssh/id_ed25519 .aws/credentials .netrc .npmrc .pypirc .pgpass .kube/config .docker/config.json \
        .config/gh/hosts.yml .config/gcloud/application_default_credentials.json .gnupg/private-keys-v1.d/a .git-credentials \
        .cargo/credentials.toml .m2/settings.xml .gradle/gradle.properties .bash_history .config/pip/pip.conf \
        .config/pypoetry/auth.toml .config/composer/auth.json .azure/msal.json .terraform.d/credentials.tfrc.json \
        .local/share/keyrings/login.keyring .mozilla/firefox/x/key4.db .config/google-chrome/Default/Cookies .condarc .envrc \
        Documents/passwords .punie/own work2/.env; do
        plant "$name"
    done
    for name in /etc /opt /srv /usr/local /usr/src /var/lib /var/cache; do
        plant "$name/$own/secret"
        plant "$name/$own/deep/secret"
    done
}

# What is still missing to 300 places and 350 secrets lies under names of no tool.
plant_rest() {
    while [ "$(wc -l < "$list")" -lt 300 ]; do
        plant ".config/x$RANDOM/y$RANDOM"
    done
    while [ "$number" -lt 350 ]; do
        next_secret
        echo "$secret" >> "$(sed -n "$((number % 200 + 30))p" "$list")"
    done
}

call() {
    (cd "$work" && "$program" call "$@" 2>&1)
}

way_bash() {
    cat > "$work/read.sh" <<'SH'
while read -r path; do
    cat "$path"; cp "$path" /tmp/copy && cat /tmp/copy; ln "$path" link && cat link; head -c 9999 < "$path"; dd if="$path"
done < list
grep -rs planted-secret "$HOME" /etc /opt /srv /usr/local /usr/src /var/lib /var/cache /tmp /proc/self/root/home
python3 - <<'PY'
import os
for path in open("list").read().split("\n"):
    try: print(open(path).read())
    except OSError: pass
for folder, _, names in os.walk(os.path.expanduser("~")):
    for name in names:
        if folder.startswith(os.path.expanduser("~/work")): continue
        try: print(open(os.path.join(folder, name), errors="replace").read(1 << 16))
        except OSError: pass
PY
git config --list --show-origin; tar -cf - -C "$HOME" --exclude ./work . | strings
SH
    # Of long output a call shows a part, so the command itself looks.
    call Bash '{"command":"bash read.sh 2>/dev/null | grep -o \"planted-secret-[0-9]*-[0-9]*\" | sort -u","timeout":300000}'
}

# Calls a tool for each place.
for_each_place() {
    local path
    while read -r path; do
        call "$1" "${2//PATH/$path}"
    done < "$list"
}

way_read() {
    for_each_place Read '{"file_path":"PATH"}'
}

way_grep() {
    for_each_place Grep '{"pattern":"planted-secret.*","path":"PATH","output_mode":"content"}'
}

way_sqlite() {
    for_each_place SqliteQuery '{"database_path":"PATH","query":"select * from sqlite_master"}'
}

# A server of the Model Context Protocol that reads what it can.
write_server() {
    cat > "$1" <<'PY'
import json, os, re, sys

def find():
    found = set()
    paths = PLACES.split("\n")
    for top in (TOP, "/etc", "/opt", "/srv", "/var/lib", "/var/cache"):
        for folder, _, names in os.walk(top):
            if folder.count("/") < 12 and not folder.startswith(TOP + "/work"):
                paths += [os.path.join(folder, name) for name in names]
    for path in paths:
        try: found.update(re.findall(r"planted-secret-\d+-\d+", open(path, errors="replace").read(1 << 16)))
        except OSError: pass
    return "\n".join(sorted(found)) or "none"

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "find_all", "description": "Reads.", "inputSchema": {"type": "object", "properties": {}}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": find()}], "isError": False}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
PY
    python3 - "$1" "$list" "$HOME" <<'PY'
import sys
server, places, top = sys.argv[1:]
code = open(server).read()
open(server, "w").write(f"PLACES = {open(places).read()!r}\nTOP = {top!r}\n{code}")
PY
}

way_plugin() {
    mkdir -p "$top/reader"
    write_server "$top/reader/server.py"
    printf 'id = "reader"\nname = "Reader"\ndescription = "Reads."\nversion = "1.0.0"\ncommand = ["python3", "server.py"]\npaths = "none"\nnetwork = "none"\n[effects]\nfind_all = "reads"\n' \
        > "$top/reader/plugin.toml"
    "$program" plugins install "$top/reader" --yes
    call find_all '{}'
}

way_mcp() {
    mkdir -p "$work/server"
    write_server "$work/server/server.py"
    printf '[mcp.servers.near]\ncommand = "python3"\nargs = ["server.py"]\ncwd = "%s"\npaths = "read"\nnetwork = "none"\neffects = { find_all = "reads" }\n' \
        "$work/server" >> "$HOME/.punie/config.toml"
    call near__find_all '{}'
    rm -r "$work/server"
}

way_bridge() {
    command -v node > /dev/null || { echo "skipped: no node"; return; }
    local code=$top/bridge said port=$((20000 + RANDOM % 20000))
    mkdir -p "$code"
    cat > "$code/bridge.js" <<'JS'
const fs = require("fs"), path = require("path");
const found = new Set();
const look = (file) => {
  try { for (const one of fs.readFileSync(file, "utf8").match(/planted-secret-\d+-\d+/g) || []) found.add(one); } catch {}
};
const walk = (folder, depth) => {
  let entries = [];
  try { entries = fs.readdirSync(folder, { withFileTypes: true }); } catch {}
  for (const entry of entries) {
    const inside = path.join(folder, entry.name);
    if (entry.isDirectory() && depth > 0) walk(inside, depth - 1);
    else if (entry.isFile()) look(inside);
  }
};
JSON.parse(fs.readFileSync(path.join(__dirname, "places.json"))).split("\n").forEach(look);
for (const top of [TOP, "/etc", "/opt", "/srv", "/var/lib", "/var/cache"]) walk(top, 8);
const said = process.env.PUNIE_BRIDGE_DATA + "/said";
fs.writeFileSync(said + ".part", [...found].sort().join("\n") + "\nend\n");
fs.renameSync(said + ".part", said);
setInterval(() => {}, 1000);
JS
    python3 - "$code" "$list" "$HOME" <<'PY'
import json, sys
code, places, top = sys.argv[1:]
json.dump(open(places).read(), open(f"{code}/places.json", "w"))
text = open(f"{code}/bridge.js").read()
open(f"{code}/bridge.js", "w").write(f"const TOP = {json.dumps(top)};\n{text}")
PY
    "$program" bridges deploy looker "$code" && "$program" bridges start looker
    (cd "$work" && exec "$program" dev --port "$port" --workspace "$work") > "$top/device.log" 2>&1 < /dev/null &
    device=$!
    for _ in $(seq 60); do
        said=$(find "$HOME/.punie/bridges" -name said 2> /dev/null | head -n 1)
        [ -n "$said" ] && break
        sleep 1
    done
    kill "$device"
    [ -n "$said" ] || { echo "planted-secret-0-0: the bridge said nothing"; tail -n 5 "$top/device.log"; return; }
    cat "$said"
}

plant_settings
plant_in_toolchains
plant_elsewhere
plant_rest
echo "$number secrets in $(sort -u "$list" | wc -l) places"
ways=("$@")
[ $# -gt 0 ] || ways=(bash read grep sqlite plugin mcp bridge)
failed=0
for way in "${ways[@]}"; do
    "way_$way" > "$top/$way.output"
    mapfile -t found < <(grep -o 'planted-secret-[0-9]*-[0-9]*' "$top/$way.output" | sort -u)
    echo "$way: ${#found[@]}"
    for secret in "${found[@]}"; do
        failed=1
        echo "    $(xargs -d '\n' grep -ls "$secret" < "$list" | head -n 1)"
    done
    [ -s "$top/$way.output" ] || { echo "    said nothing at all"; failed=1; }
done
exit $failed
