#!/usr/bin/env bash
# Installs from the files of a release as a person would: `try-install.sh FOLDER` serves FOLDER on a loopback port, runs its
# install.sh into a temporary folder, and starts what was installed. Needs Python 3 and curl or wget.
set -euo pipefail
folder=$(cd "${1:?"usage: try-install.sh FOLDER"}" && pwd)

work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT
mkfifo "$work/port"
python3 -c '
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
with open(sys.argv[2], "w") as port:
    port.write(str(server.server_port))
server.serve_forever()
' "$folder" "$work/port" 2>"$work/requests" &
server=$!
port=$(<"$work/port")

export PUNIE_INSTALL_URL=http://127.0.0.1:$port
mkdir "$work/home"
HOME=$work/home sh "$folder/install.sh"
HOME=$work/home "$work/home/.local/bin/punie-runner" --version
