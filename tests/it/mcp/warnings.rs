//! The remarks that tools make beside an answer, as a model behind `mcp` reads them: each once. Remarks about connected
//! editors, plugins, skills and full disks are tested with those parts.

use std::path::Path;

use rmcp::model::CallToolResult;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{McpUser, TestClient, result_text};

/// Returns calls that get a remark, with a part of it. They run in this order, in the folders of [`prepare`].
fn remarked_calls() -> Vec<(&'static str, Value, &'static str)> {
    let file = |name: &str| json!({"file_path": name});
    let write = |name: &str, text: &str| json!({"file_path": name, "content": text});
    vec![
        ("Read", file("latin.txt"), "is told from its bytes"),
        (
            "Read",
            json!({"file_path": "latin.txt", "encoding": "utf-8"}),
            "not valid UTF-8 are shown as U+FFFD",
        ),
        (
            "Read",
            file("broken.ipynb"),
            "Shown as text, not as a notebook",
        ),
        ("Read", file("jis.txt"), "looks like ISO-2022-JP"),
        ("Read", file("utf7.txt"), "looks like UTF-7"),
        (
            "Write",
            write("dos.txt", "c\nd\n"),
            "CRLF line endings were kept",
        ),
        (
            "Write",
            write("latin.txt", "d\u{e9}j\u{e0}\n"),
            "The file's encoding was kept",
        ),
        (
            "Write",
            write("latin.txt", "\u{65e5}\u{672c}\n"),
            "replaced as a whole, in UTF-8",
        ),
        (
            "Write",
            write("dot.png", "plain\n"),
            "a PNG image, not UTF-8 text",
        ),
        (
            "Bash",
            json!({"command": "exit 3", "timeout": 9_000_000}),
            "The timeout was lowered from 9000000 to 600000 ms",
        ),
        (
            "WriteShell",
            json!({"shell_id": "sh_1", "text": "end", "enter": true, "pattern": "end", "wait_ms": 90_000}),
            "wait_ms was lowered from 90000 to 30000",
        ),
        (
            "GitStatus",
            json!({"path": "repo"}),
            "the filters crypt were not run",
        ),
        (
            "GitDiff",
            json!({"path": "repo"}),
            "of submodules the commit is compared, not their files",
        ),
        (
            "GitCommit",
            json!({"path": "repo", "message": "again", "amend": true}),
            "is on the upstream branch already",
        ),
        (
            "SqliteQuery",
            json!({"database_path": "damaged.db"}),
            "what is shown may lack rows or tables",
        ),
    ]
}

#[tokio::test]
async fn each_remark_of_a_tool_is_in_the_content_once() {
    let user = McpUser::new();
    prepare(&user);
    let client = user.connects(TestClient::default(), &[]).await;
    let shell = json!({"command": "cat", "tty": true, "run_in_background": true});
    client.call_ok("Bash", shell).await;
    for (tool, args, remark) in remarked_calls() {
        let answer = client.call(tool, args).await;
        let told = result_text(&answer).matches(remark).count();
        assert_eq!(told, 1, "{tool}, {remark}: {answer:?}");
        assert_remarks_are_told_once(tool, &answer);
    }
    client
        .call_ok("KillShell", json!({"shell_id": "sh_1"}))
        .await;
    client.close().await;
}

/// Checks that every remark in an answer's metadata is in its text once, also those that no case names.
fn assert_remarks_are_told_once(tool: &str, answer: &CallToolResult) {
    let facts = answer.meta.as_ref().expect("metadata of the answer");
    let remarks = facts.0["punie-runner/meta"]["warnings"].as_array();
    for remark in remarks.into_iter().flatten().filter_map(Value::as_str) {
        let told = result_text(answer).matches(remark).count();
        assert_eq!(told, 1, "{tool}: {remark:?} in {answer:?}");
    }
}

/// Fills the workspace with files that lead to remarks.
fn prepare(user: &McpUser) {
    user.write("work/latin.txt", b"caf\xe9, gar\xe7on, d\xe9j\xe0 vu\n");
    user.write("work/jis.txt", b"\x1b$B$3$s\x1b(B\n");
    user.write("work/utf7.txt", "caf+AOk- d+AOk-j+AOA- gar+AOc-on\n");
    user.write("work/broken.ipynb", "{\n");
    user.write("work/dos.txt", "a\r\nb\r\n");
    user.write("work/dot.png", b"\x89PNG\r\n\x1a\n\0\0");
    prepare_repository(&user.path("work/repo"));
    prepare_damaged_database(&user.path("work/damaged.db"));
}

/// Makes a repository with a filter, a list of submodules, and a commit that is on its upstream branch.
fn prepare_repository(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    std::fs::write(folder.join("a.txt"), "a\n").expect("a file");
    std::fs::write(folder.join(".gitmodules"), "").expect("a file");
    for line in [
        "init -q -b main",
        "config user.name Ada",
        "config user.email ada@example.org",
        "config filter.crypt.clean cat",
        "add .",
        "commit -q -m first",
        "branch up",
        "branch -q --set-upstream-to=up",
    ] {
        let git = std::process::Command::new("git")
            .args(line.split(' '))
            .current_dir(folder)
            .status()
            .expect("git runs");
        assert!(git.success(), "git {line}");
    }
}

/// Makes a database with a table whose page is overwritten, so that its rows cannot be read.
fn prepare_damaged_database(path: &Path) {
    let database = Connection::open(path).expect("a database");
    database
        .execute_batch("CREATE TABLE broken (a); INSERT INTO broken VALUES (zeroblob(20000));")
        .expect("a table");
    let number = |sql: &str| -> usize {
        let number = database.query_row(sql, [], |row| row.get::<_, u32>(0));
        number.expect("a number") as usize
    };
    let page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'broken'");
    let size = number("PRAGMA page_size");
    let mut bytes = std::fs::read(path).expect("a file");
    bytes[(page - 1) * size..page * size].fill(0xEE);
    std::fs::write(path, bytes).expect("a file");
}
