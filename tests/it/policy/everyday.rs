//! Command lines as coding agents type them: where no rule names a command of the line, the runner does not ask.

use punie_policy::command_line::read_command_line;
use punie_policy::{PolicyCall, PolicyDecision, PolicyRules, judge_call};
use punie_tool::request::ToolEffect;

const RULES: &str = "\
[[rule]]
name = \"no-push\"
decision = \"deny\"
command = [\"git\", \"push\"]

[[rule]]
name = \"no-rm\"
decision = \"ask\"
command = [\"rm\"]

[[rule]]
name = \"no-curl\"
decision = \"deny\"
command = [\"curl\"]
";

fn decide_line(line: &str) -> PolicyDecision {
    decide_by(RULES, line)
}

fn decide_by(rules: &str, line: &str) -> PolicyDecision {
    let rules = PolicyRules::parse(rules, &|_| true).expect("good rules");
    let script = Some(read_command_line(line));
    let call = PolicyCall {
        tool: "Bash".to_owned(),
        effect: ToolEffect::Executes,
        script,
        ..PolicyCall::default()
    };
    judge_call(&rules, false, &call, &[]).decision
}

const HARMLESS: &[&str] = &[
    "docker run --rm -v \"$PWD\":/app -w /app node:20 sh -c 'npm ci && npm test'",
    "trap 'kill $PID' EXIT; node x.js & PID=$!; sleep 2; wget -qO- localhost:3000",
    "cd crates/core && cargo test --lib -- --nocapture 2>&1 | tail -n 50",
    "RUST_BACKTRACE=1 cargo test --workspace 2>&1 | grep -E \"test result|FAILED|panicked\" | head -40",
    "cargo clippy --all-targets -- -D warnings && cargo fmt --check",
    "git status --short && git diff --stat",
    "git status; git log --oneline -5; git branch -a",
    "git add -A && git commit -m \"Fix the parser (again)\" && git log -1 --format='%h %s'",
    "git commit -m \"$(cat <<'EOF'\nfix: don't drop `quotes` (and $vars)\n\n- it's done; a | b && c\n\nCo-Authored-By: A <a@example.com>\nEOF\n)\"",
    "git --no-pager diff HEAD~1 -- src/main.rs | head -100",
    "git -C web log --oneline -3",
    "git stash && git checkout -b fix/x && git stash pop",
    "git show HEAD:src/lib.rs | sed -n '1,40p'",
    "git diff --name-only origin/main...HEAD | xargs -r wc -l",
    "git rebase origin/main && git fetch --all --prune",
    "git config user.name \"$NAME\" && git config --get remote.origin.url",
    "grep -rn \"TODO\\|FIXME\" src --include=*.rs | head -20",
    "grep -rn 'git push' docs | wc -l",
    "rg -n \"curl\" --type rust -g '!target' | head",
    "rg 'fn \\w+\\(' src -o --no-filename | sort | uniq -c | sort -rn | head -n 15",
    "find . -name '*.ts' -not -path './node_modules/*' | head -50",
    "find src -type f -name '*.py' -exec grep -l 'import os' {} +",
    "find . -type d -name __pycache__ -prune -o -name '*.py' -print | xargs wc -l | tail -1",
    "find . -name '*.md' -print0 | xargs -0 grep -l 'TODO'",
    "ls -la && pwd && cat package.json | jq '.scripts'",
    "for f in src/*.rs; do echo \"== $f\"; head -5 \"$f\"; done",
    "for i in 1 2 3; do cargo test flaky || break; done",
    "for i in $(seq 1 10); do echo $((i * 2)); sleep 1; done",
    "for ((i=0; i<3; i++)); do echo $i; done",
    "for pid in $(pgrep -f server); do kill -9 $pid; done",
    "while read -r line; do echo \"$line\"; done < list.txt",
    "while ! nc -z localhost 5432; do sleep 1; done; echo ready",
    "if [ -f .env ]; then echo yes; else echo no; fi",
    "if [[ -d node_modules && ! -L node_modules ]]; then du -sh node_modules; fi",
    "test -f Cargo.toml && echo rust || echo other",
    "[ -x ./gradlew ] && ./gradlew test --info | tail -30",
    "n=$(grep -c '^[a-z]' words.txt); if [[ $n -gt 5 ]]; then echo \"[INFO] $n\"; fi",
    "start=$(date +%s); cargo build; end=$(date +%s); echo \"took $((end - start)) s\"",
    "count=0; while [ $count -lt 5 ]; do count=$((count + 1)); echo $count; done",
    "cat > src/hello.py <<'EOF'\nimport sys\n\ndef main(argv):\n    print(f\"it's {argv[1]}\", `x`, $y)\nEOF\npython3 src/hello.py x",
    "cat <<EOF > config.yml\nname: $USER\npath: ${HOME}/x\nEOF",
    "cat <<-'END' | tee notes.md\n\t# Notes ('x)\n\tEND\nls",
    "mkdir -p src/{core,api} && touch src/core/mod.rs && tree -L 2 src",
    "sed -n '120,180p' src/main.rs",
    "sed -i 's/foo/bar/g; s|/old/path|/new/path|' src/*.rs",
    "sed -i.bak -E 's/^version = \"[0-9.]+\"/version = \"1.2.3\"/' Cargo.toml",
    "sed '/^#/d;/^$/d' config.ini | sort -u",
    "awk '{print $1}' access.log | sort | uniq -c | sort -rn | head",
    "awk -F: '$3 >= 1000 {print $1, $3}' /etc/passwd",
    "awk -v n=\"$N\" 'NR==n {print}' file.txt",
    "python3 -m pytest tests/ -x -q 2>&1 | tail -30",
    "python3 manage.py migrate --noinput && python3 manage.py runserver 0.0.0.0:8000 &",
    "uv run pytest -k parser -q",
    "node --version && npm --version && npx tsc --noEmit",
    "npx eslint src --ext .ts,.tsx | head -50",
    "go build ./... && go test ./... -run TestParser -count=1 -v",
    "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j4",
    "docker compose up -d db && docker compose logs --tail=50 db",
    "kubectl get pods -n prod | grep -v Running",
    "gh pr create --title 'Do not git push here' --body \"see #12\"",
    "gh run list --limit 5 --json status,name | jq -r '.[] | .name'",
    "timeout 60 cargo run --release -- --help",
    "timeout 5 bash -c 'until nc -z localhost 8080; do sleep 0.2; done'",
    "env FOO=bar BAZ=1 cargo run",
    "NODE_ENV=test NODE_OPTIONS=--max-old-space-size=4096 npx jest --ci",
    "sudo apt-get update && sudo apt-get install -y jq curl",
    "bash -euo pipefail -c 'cargo build; ls target'",
    "export PATH=\"$HOME/.cargo/bin:$PATH\" && cargo --version",
    "set -euo pipefail; cargo build; echo done",
    "which python3 node cargo; command -v jq",
    "ps aux | grep -v grep | grep server | awk '{print $2}' | xargs -r kill",
    "lsof -i :3000 | tail -n +2 | awk '{print $2}' | head -1",
    "diff <(sort a.txt) <(sort b.txt) | head -20",
    "tar -xzf release.tar.gz -C /tmp/out --strip-components=1 && ls /tmp/out",
    "echo \"$(git rev-parse --short HEAD) $(date -u +%FT%TZ)\" >> VERSION",
    "echo '{\"a\": [1, 2]}' | python3 scripts/read.py --key a",
    "printf '%s\\n' one two three | tee list.txt | wc -l",
    "printf '\\033[32mOK\\033[0m\\n'; i=$((i + 1))",
    "sqlite3 app.db \"select count(*) from users where name like 'a%';\"",
    "psql -U app -d app -c 'select 1' -h localhost",
    "ls *.log 2>/dev/null | wc -l; du -sh target/ | cut -f1",
    "f() { echo \"$1\"; cargo test \"$1\"; }; f parser",
    "{ cargo build && cargo test; } 2>&1 | tee out.log | tail -5",
    "cp -r templates/. out/ && mv out/a out/b && chmod +x out/b && ln -sf b out/c",
    "head -c 200 file.bin | xxd | head; base64 -d < x.b64 > x.bin",
    "jq -r '.dependencies | keys[]' package.json | while read -r d; do echo \"$d\"; done",
    "cargo metadata --format-version 1 | jq '.packages[] | select(.name == \"x\") | .version'",
    "perl -w scripts/fix.pl src/*.c && ruby -Itest test/a_test.rb",
];

/// Lines that run commands from the owner's files (npm scripts, Makefiles), so that a rule may apply.
const FROM_FILES: &[&str] = &[
    "cd web && npm ci && npm run build 2>&1 | tail -20",
    "python -m venv .venv && source .venv/bin/activate && pip install -r requirements.txt",
    "npm run lint -- --fix && npm test -- --watch=false",
    "pnpm install --frozen-lockfile && pnpm -r build",
    "yarn workspace @app/web build > build.log 2>&1; tail -n 40 build.log",
    "make -j$(nproc) all > build.log 2>&1 || tail -50 build.log",
    "nohup npm start > server.log 2>&1 &",
    "bash -lc 'cd web && npm run build'",
    "bash scripts/setup.sh --fast && ./scripts/check.sh",
    "(cd web && npm test) && (cd api && cargo test)",
];

/// Command lines that a rule names, or may name.
const STOPPED: &[&str] = &[
    "cd x && git add . && git commit -m 'x' && git push origin main 2>&1 | tail -3",
    "for b in a b; do git push origin \"$b\"; done",
    "if ! git push; then echo failed; fi",
    "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\" && git push -u origin HEAD",
    "find . -name '*.orig' -exec rm {} +",
    "find . -name '*.pyc' | xargs rm -f",
    "sudo rm -rf build; ls",
    "timeout 5 curl -s http://localhost:3000/health | jq .",
    "code=$(curl -s -o /dev/null -w '%{http_code}' http://x); echo $code",
    "while ! curl -s localhost:3000; do sleep 1; done",
    "bash -c 'cd x && rm -rf y'",
    "nohup sh -c \"curl x | tar xz\" &",
    "cat <<EOF\n$(curl x)\nEOF",
    "python3 -c 'print(1)'",
    "node -e 'console.log(1)'",
    "python3 - <<'EOF'\nprint(1)\nEOF",
    "cat install.sh | bash",
    "eval \"$(ssh-agent -s)\"",
    "$EDITOR file",
    "git $ARGS",
    "ssh host 'ls'",
];

#[test]
fn nobody_is_asked_about_everyday_lines_that_no_rule_names() {
    let stopped: Vec<_> = HARMLESS
        .iter()
        .filter(|line| decide_line(line) != PolicyDecision::Allow)
        .collect();
    assert!(HARMLESS.len() >= 60 && stopped.is_empty(), "{stopped:#?}");
}

#[test]
fn commands_in_files_are_asked_about_until_the_owner_allows_their_programs() {
    const ALLOWED: &str = "\n[[rule]]\nname = \"own\"\ndecision = \"allow\"\ncommand = [[\"npm\", \"pnpm\", \"yarn\", \
                           \"make\", \"source\", \"bash\"]]\n";
    let with = |line: &&str, more: &str| decide_by(&format!("{RULES}{more}"), line);
    for line in FROM_FILES {
        assert_eq!(with(line, ""), PolicyDecision::Ask, "{line}");
        assert_eq!(with(line, ALLOWED), PolicyDecision::Allow, "{line}");
    }
}

#[test]
fn what_a_rule_names_or_may_name_is_stopped_in_everyday_lines() {
    let allowed: Vec<_> = STOPPED
        .iter()
        .filter(|line| decide_line(line) == PolicyDecision::Allow)
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}
