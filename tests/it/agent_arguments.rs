//! Calls as known agents write them: each is taken, or refused with the tool or the key to use instead.

use crate::harness::whole::all_tools;
use punie_tool::{ToolError, ToolRegistry};

/// Calls that the called tool accepts, or the tool that the error for an unknown name suggests.
const TAKEN: &[(&str, &str, &str, &str)] = &cases! {
    (
        "Claude Code",
        "Bash",
        "Bash",
        r#"{"command":"ls","description":"List files","timeout":120000,"run_in_background":false}"#,
    ),
    ("Claude Code", "BashOutput", "ShellStatus", r#"{"bash_id":"sh_1","filter":"error"}"#),
    ("Claude Code", "KillBash", "KillShell", r#"{"shell_id":"sh_1"}"#),
    ("Claude Code", "KillShell", "KillShell", r#"{"shell_id":"sh_1"}"#),
    ("Claude Code", "Read", "Read", r#"{"file_path":"a.txt","offset":1,"limit":20}"#),
    ("Claude Code", "Write", "Write", r#"{"file_path":"a.txt","content":"x"}"#),
    (
        "Claude Code",
        "Edit",
        "Edit",
        r#"{"file_path":"a.txt","old_string":"a","new_string":"b","replace_all":false}"#,
    ),
    (
        "Claude Code",
        "MultiEdit",
        "MultiEdit",
        r#"{"file_path":"a.txt","edits":[{"old_string":"a","new_string":"b"}]}"#,
    ),
    ("Claude Code", "Glob", "Glob", r#"{"pattern":"**/*.rs","path":"src"}"#),
    (
        "Claude Code",
        "Grep",
        "Grep",
        r#"{"pattern":"x","path":".","glob":"*.rs","output_mode":"content","-A":2,"-B":2,"-C":2,"-n":true,"-i":true,"-o":true,"type":"rust","head_limit":10,"offset":0,"multiline":false}"#,
    ),
    ("Claude Code", "LS", "list_files", r#"{"path":"."}"#),
    (
        "Claude Code",
        "Task",
        "Task",
        r#"{"description":"Look","prompt":"Find it","subagent_type":"general-purpose"}"#,
    ),
    (
        "Claude Code",
        "TaskOutput",
        "TaskOutput",
        r#"{"task_id":"task_7","block":true,"timeout":60000}"#,
    ),
    (
        "Codex",
        "exec_command",
        "Bash",
        r#"{"cmd":"ls","workdir":".","yield_time_ms":1000,"max_output_tokens":6000,"tty":false}"#,
    ),
    (
        "Codex",
        "write_stdin",
        "WriteShell",
        r#"{"session_id":"sh_1","chars":"y\n","yield_time_ms":500,"max_output_tokens":1000}"#,
    ),
    (
        "Codex",
        "apply_patch",
        "ApplyPatch",
        r#"{"input":"*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"}"#,
    ),
    ("Codex", "view_image", "Read", r#"{"path":"a.png"}"#),
    ("Codex", "grep_files", "Grep", r#"{"pattern":"x","include":"*.rs","path":".","limit":20}"#),
    ("Codex", "list_dir", "list_files", r#"{"dir_path":"."}"#),
    (
        "Gemini CLI",
        "run_shell_command",
        "Bash",
        r#"{"command":"ls","description":"List","dir_path":".","is_background":false}"#,
    ),
    ("Gemini CLI", "read_file", "Read", r#"{"absolute_path":"/w/a.txt","offset":0,"limit":10}"#),
    ("Gemini CLI", "write_file", "write_file", r#"{"file_path":"a.txt","content":"x"}"#),
    (
        "Gemini CLI",
        "replace",
        "Edit",
        r#"{"file_path":"a.txt","old_string":"a","new_string":"b","instruction":"Fix it","expected_replacements":1}"#,
    ),
    (
        "Gemini CLI",
        "search_file_content",
        "Grep",
        r#"{"pattern":"x","dir_path":".","include":"*.rs"}"#,
    ),
    ("Gemini CLI", "glob", "Glob", r#"{"pattern":"*.rs","dir_path":"src"}"#),
    ("Gemini CLI", "list_directory", "list_files", r#"{"dir_path":"."}"#),
    (
        "OpenCode",
        "bash",
        "Bash",
        r#"{"command":"ls","timeout":1000,"workdir":".","description":"List"}"#,
    ),
    ("OpenCode", "read", "Read", r#"{"filePath":"a.txt","offset":0,"limit":10}"#),
    (
        "OpenCode",
        "edit",
        "Edit",
        r#"{"filePath":"a.txt","oldString":"a","newString":"b","replaceAll":true}"#,
    ),
    (
        "OpenCode",
        "multiedit",
        "MultiEdit",
        r#"{"filePath":"a.txt","edits":[{"oldString":"a","newString":"b","replaceAll":true}]}"#,
    ),
    ("OpenCode", "grep", "Grep", r#"{"pattern":"x","path":".","include":"*.rs"}"#),
    ("OpenCode", "list", "list_files", r#"{"path":"."}"#),
    (
        "OpenCode",
        "patch",
        "ApplyPatch",
        r#"{"patchText":"*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"}"#,
    ),
    (
        "Cursor",
        "run_terminal_cmd",
        "Bash",
        r#"{"command":"ls","is_background":false,"explanation":"List"}"#,
    ),
    (
        "Cursor",
        "grep_search",
        "Grep",
        r#"{"query":"x","case_sensitive":false,"include_pattern":"*.rs","explanation":"Find"}"#,
    ),
    (
        "Cursor",
        "search_replace",
        "Edit",
        r#"{"file_path":"a.txt","old_string":"a","new_string":"b"}"#,
    ),
    ("Cursor", "list_dir", "list_files", r#"{"target_directory":".","explanation":"Look"}"#),
    ("Cursor", "glob_file_search", "Glob", r#"{"glob_pattern":"*.rs","target_directory":"src"}"#),
    // Shapes that models write in any agent.
    ("any", "Bash", "Bash", r#"{"command":"ls","env":{"PORT":8080,"CI":true}}"#),
    (
        "any",
        "MultiEdit",
        "MultiEdit",
        r#"{"file_path":"a.txt","edits":[{"old_str":"a","new_str":"b"}]}"#,
    ),
    (
        "any",
        "MultiEdit",
        "MultiEdit",
        r#"{"file_path":"a.txt","edits":"[{\"old_string\":\"a\",\"new_string\":\"b\"}]"}"#,
    ),
    ("any", "Read", "Read", r#"{"filepath":"a.txt"}"#),
    ("any", "Read", "Read", r#"{"path":"a.txt","start_line":2,"end_line":"9"}"#),
    ("any", "Read", "Read", r#"{"path":"a.txt","view_range":[2,-1]}"#),
    ("any", "Read", "Read", r#"{"path":"a.pdf","pages":3}"#),
    ("any", "Read", "Read", r#"{"path":"a.pdf","pages":[1,2]}"#),
    ("any", "Read", "Read", r#"{"path":"a.txt","description":"x","instructions":"y"}"#),
    ("any", "Read", "Read", r#"{"args":{"path":"a.txt"}}"#),
    ("any", "Read", "Read", r#"{"input":{"path":"a.txt"}}"#),
    (
        "any",
        "Bash",
        "Bash",
        r#"{"command":["bash","-lc","ls"],"restart":false,"requires_approval":"False"}"#,
    ),
    ("any", "Bash", "Bash", r#"{"command":"ls","run_in_background":"True","env":null}"#),
    ("any", "Edit", "Edit", r#"{"file":"a.txt","old":"a","new":"b"}"#),
    ("any", "Edit", "Edit", r#"{"file":"a.txt","search":"a","replace":"b"}"#),
    (
        "any",
        "MultiEdit",
        "MultiEdit",
        r#"{"file_path":"a.txt","edits":{"search":"a","replace":"b"}}"#,
    ),
    ("any", "Glob", "Glob", r#"{"query":"*.rs"}"#),
    ("any", "Glob", "Glob", r#"{"pattern":["*.rs","*.toml"],"max_count":5}"#),
    ("any", "Grep", "Grep", r#"{"regex":"x","glob":["*.rs"],"max_count":5,"head_limit":null}"#),
    ("any", "GitAdd", "GitAdd", r#"{"paths":"src/main.rs"}"#),
    ("any", "GitAdd", "GitAdd", r#"{"paths":"[\"a.txt\",\"b.txt\"]"}"#),
    ("any", "GitShow", "GitShow", r#"{"ref":"HEAD:src/main.rs"}"#),
    ("any", "GitDiff", "GitDiff", r#"{"from":"main..feature"}"#),
};

/// Calls that are refused, with the words of the error.
const REFUSED: &[(&str, &str, &str)] = &cases! {
    ("Bash", r#"{"command":["ls","-la"]}"#, "`command` must be a string"),
    ("Glob", r#"{"pattern":"*.rs","include_ignord":true}"#, "Did you mean `include_ignored`?"),
    ("Task", r#"{"prompt":"x","promt":"y"}"#, "unknown key `promt`"),
};

fn decode_arguments(registry: &ToolRegistry, tool: &str, args: &str) -> Result<(), ToolError> {
    registry.find(tool)?.decode_call(args).map(drop)
}

#[cfg(feature = "documents")]
#[test]
fn calls_as_known_agents_write_them_are_taken_or_the_tool_to_use_is_named() {
    let whole = all_tools();
    for (agent, called, tool, args) in TAKEN {
        if let Err(error) = decode_arguments(&whole.registry, tool, args) {
            panic!("{agent}: {tool} {args}: {error}");
        }
        if called != tool && !whole.registry.has_device_tool(called) {
            let unknown =
                decode_arguments(&whole.registry, called, args).expect_err("there is no such tool");
            assert_contains!(unknown.model_text(), tool; "{agent}: {called}");
        }
    }
    for (tool, args, text) in REFUSED {
        let refused = decode_arguments(&whole.registry, tool, args).expect_err(args);
        assert_contains!(refused.model_text(), text; "{tool} {args}");
    }
}

#[test]
fn a_near_key_is_named_without_all_the_others() {
    let whole = all_tools();
    let near = decode_arguments(&whole.registry, "Grep", r#"{"patern":"x"}"#).expect_err("unknown");
    assert_ends_with!(near.model_text(), "Did you mean `pattern` or `path`?");
    let far = decode_arguments(&whole.registry, "Grep", r#"{"zzz":"x"}"#).expect_err("unknown");
    assert_contains!(far.model_text(), "It takes pattern, path");
}

#[test]
fn a_refusal_is_short_and_names_nothing_of_the_program() {
    let whole = all_tools();
    for (tool, args) in [
        ("Bash", r#"{"zzz":1}"#),
        ("Grep", r#"{"pattern":"x","zzz":1}"#),
        ("Grep", r#"{"pattern":7}"#),
        ("Read", r#"{"file_path":{}}"#),
        ("Read", r#"{"path":"a""#),
        ("Edit", r#"{"file_path":"a"}"#),
        ("MultiEdit", r#"{"file_path":"a","edits":["x"]}"#),
        ("MultiEdit", r#"{"file_path":"a","edits":[["x","y"]]}"#),
        ("AskUserQuestion", r#"{"questions":["x"]}"#),
        ("NoSuchTool", "{}"),
        ("mcp__punie__Nothing", "{}"),
    ] {
        let refused = decode_arguments(&whole.registry, tool, args).expect_err(args);
        let text = refused.model_text();
        assert!(text.len() < 200, "{}: {text}", text.len());
        assert_lacks!(text, "struct", "OneEdit");
    }
    for name in ["mcp__punie__Read", "functions.Read", "punie:read"] {
        let refused = decode_arguments(&whole.registry, name, "{}").expect_err("unknown");
        assert_ends_with!(refused.model_text(), "Did you mean Read?");
    }
}

#[cfg(feature = "documents")]
#[test]
fn a_path_may_be_an_address_or_end_in_a_line() {
    let whole = all_tools();
    let canonical = |args: &str| {
        let entry = whole.registry.find("Read").expect("known");
        entry.tool_spec().canonical_args(args).expect("it is taken")
    };
    let read = canonical(r#"{"path":"src/a.py:12"}"#);
    assert_fields!(read, {"file_path": "src/a.py", "offset": 12});
    let read = canonical(r#"{"path":"src/a.py:12:5","limit":3}"#);
    assert_fields!(read, {"file_path": "src/a.py", "offset": 12, "limit": 3});
    let read = canonical(r#"{"path":"a.py","view_range":[5,9]}"#);
    assert_eq!((&read["offset"], &read["limit"]), (&5.into(), &5.into()));
    assert_eq!(canonical(r#"{"path":"dir:12"}"#)["file_path"], "dir:12");
    assert_eq!(
        canonical(r#"{"path":"a.pdf","pages":[1,"3-4"]}"#)["pages"],
        "1,3-4"
    );
    let path = punie_host::RawPath::from("file:///w/a%20b.txt");
    assert_eq!(path.as_str(), "/w/a b.txt");
}

#[test]
fn the_policy_reads_the_arguments_as_the_tool_does() {
    let whole = all_tools();
    let canonical = |tool: &str, args: &str| {
        whole
            .registry
            .find(tool)
            .expect("known")
            .tool_spec()
            .canonical_args(args)
            .expect("it is taken")
    };
    let shown = canonical("GitShow", r#"{"ref":"HEAD:conf/.env"}"#);
    assert_fields!(shown, {"ref": "HEAD", "path": "conf/.env"});
    assert_eq!(
        canonical("GitShow", r#"{"ref":"main@{10:00}"}"#)["ref"],
        "main@{10:00}"
    );
    assert_eq!(
        canonical("GitAdd", r#"{"paths":".env"}"#)["paths"],
        serde_json::json!([".env"])
    );
    assert_eq!(
        canonical("Bash", r#"{"command":"x","env":{"N":1}}"#)["env"]["N"],
        "1"
    );
    assert!(
        canonical("Bash", r#"{"command":"x","max_output_tokens":5000}"#)["max_chars"] == 20_000
    );
    let range = canonical("GitDiff", r#"{"from":"main...feature"}"#);
    assert_eq!(
        range,
        serde_json::json!({"from":"main","to":"feature","merge_base":true})
    );
}
