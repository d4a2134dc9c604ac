#!/usr/bin/env bash
# A server of the Model Context Protocol: one JSON message a line on standard input, one answer a line on standard
# output. Bash has no JSON, so this reads only what it must know: the id, the method, and one argument.

id_pattern='"id":([0-9]+|"[^"]*")'
path_pattern='"path":"([^"\\]+)"'

tool='{"name":"count_lines","description":"Counts the lines of a text file of the workspace.",
"inputSchema":{"type":"object","required":["path"],"additionalProperties":false,"properties":
{"path":{"type":"string","description":"The file, relative to the first workspace."}}}}'

answer() {
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "${1//$'\n'/}"
}

answer_text() {
    answer '{"content":[{"type":"text","text":"'"$1"'"}],"isError":'"$2"'}'
}

count_lines() {
    if [[ ! $1 =~ $path_pattern ]]; then
        answer_text 'Give a path without quotes and backslashes.' true
        return
    fi
    # The sandbox lets this read the workspaces and nothing else of yours, wherever the path leads.
    local file=${PUNIE_WORKSPACES%%:*}/${BASH_REMATCH[1]} lines
    if lines=$(wc -l 2>/dev/null <"$file"); then
        answer_text "$((lines)) lines" false
    else
        answer_text 'The file cannot be read.' true
    fi
}

while IFS= read -r message; do
    # A message without an id is a notification, which is not answered.
    [[ $message =~ $id_pattern ]] || continue
    id=${BASH_REMATCH[1]}
    case $message in
    *'"method":"initialize"'*)
        answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
            "serverInfo":{"name":"count-lines","version":"1.0.0"}}'
        ;;
    *'"method":"tools/list"'*) answer '{"tools":['"$tool"']}' ;;
    *'"method":"tools/call"'*) count_lines "$message" ;;
    *'"method":"ping"'*) answer '{}' ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}\n' "$id" ;;
    esac
done
