//! The decoder of tool arguments: it accepts common mistakes of models, and answers other mistakes with an error.

use punie_tool::{
    AllowScope, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolRegistry, ToolSet,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::tools::{call_tool, reply_text};
use crate::harness::whole::all_tools;

/// Returns its arguments as text. It has a key of every kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "its fields are shown by Debug")]
struct EchoTool {
    /// A text.
    file_path: String,
    /// A number of either sign.
    offset: Option<i64>,
    /// A number.
    #[serde(default)]
    limit: u64,
    /// A fraction.
    share: Option<f64>,
    /// A switch.
    #[serde(default)]
    replace_all: bool,
    /// A choice.
    #[serde(default)]
    order: SortOrder,
    /// Texts.
    #[serde(default)]
    words: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SortOrder {
    #[default]
    ByName,
    ByTime,
}

impl Tool for EchoTool {
    const NAME: &'static str = "Echo";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("path", "file_path"), ("-n", "limit")];
    type Deps = ();
    type Output = String;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.file_path.as_str()])
    }

    async fn run(self, _cx: &ToolContext, (): &()) -> Result<String, ToolError> {
        Ok(format!("{self:?}"))
    }
}

fn echo_registry() -> ToolRegistry {
    ToolRegistry::new([ToolSet::new("echo", ())
        .with_tool::<EchoTool>()
        .into_entries()])
    .expect("one tool")
}

async fn echo_arguments(args: Value) -> String {
    let reply = call_tool(&echo_registry(), "Echo", args.clone())
        .await
        .unwrap_or_else(|error| panic!("{args}: {error}"));
    reply_text(&reply).to_owned()
}

/// The error text for these arguments.
fn argument_error(args: &str) -> String {
    let registry = echo_registry();
    let error = registry
        .find("Echo")
        .expect("there")
        .decode_call(args)
        .map(drop)
        .expect_err(args);
    assert_error!(error, InvalidArgs; "{args}");
    error.model_text().to_owned()
}

#[tokio::test]
async fn what_is_meant_is_taken() {
    let plain = echo_arguments(json!({"file_path": "a"})).await;
    for (args, shows) in cases! {
        (json!({"filePath": "a"}), "file_path: \"a\""),
        (json!({"path": "a"}), "file_path: \"a\""),
        (json!({"file-path": "a"}), "file_path: \"a\""),
        (json!({"path": "a", "offset": "12"}), "offset: Some(12)"),
        (json!({"path": "a", "offset": " -12 "}), "offset: Some(-12)"),
        (json!({"path": "a", "offset": 12.0}), "offset: Some(12)"),
        (json!({"path": "a", "limit": "7"}), "limit: 7"),
        (json!({"path": "a", "-n": 7}), "limit: 7"),
        (json!({"path": "a", "share": "0.5"}), "share: Some(0.5)"),
        (json!({"path": "a", "share": 1}), "share: Some(1.0)"),
        (json!({"path": "a", "replaceAll": "true"}), "replace_all: true"),
        (json!({"path": "a", "order": "by_time"}), "order: ByTime"),
        (json!({"path": "a", "words": ["b"]}), "words: [\"b\"]"),
        (json!({"path": "12"}), "file_path: \"12\""),
    } {
        let shown = echo_arguments(args.clone()).await;
        assert_contains!(shown, shows; "{args}");
    }
    let nothing = json!({"file_path": "a", "offset": null, "limit": null, "replace_all": null, "order": null});
    assert_eq!(echo_arguments(nothing).await, plain, "null is absent");
}

#[test]
fn a_value_of_another_kind_is_refused_with_what_it_must_be() {
    for (args, words) in cases! {
        (json!({"file_path": 5}), "`file_path` must be a string, not a number 5."),
        (json!({"file_path": ["a"]}), "`file_path` must be a string, not an array [\"a\"]."),
        (
            json!({"path": "a", "offset": "many"}),
            "`offset` must be an integer, not a string \"many\".",
        ),
        (
            json!({"path": "a", "offset": "12.0"}),
            "`offset` must be an integer, not a string \"12.0\".",
        ),
        (json!({"path": "a", "offset": 1.5}), "`offset` must be an integer, not a number 1.5."),
        (json!({"path": "a", "offset": true}), "`offset` must be an integer, not a boolean true."),
        (json!({"path": "a", "limit": -1}), "`limit` must be 0 or more, not -1."),
        (json!({"path": "a", "share": "nan"}), "`share` must be a number, not a string \"nan\"."),
        (
            json!({"path": "a", "replace_all": 1}),
            "`replace_all` must be true or false, not a number 1.",
        ),
        (json!({"path": "a", "replace_all": "yes"}), "`replace_all` must be true or false"),
        (
            json!({"path": "a", "order": 1}),
            "`order` must be one of \"by_name\", \"by_time\", not a number 1.",
        ),
        (json!({"path": "a", "order": "size"}), "`order`: unknown variant `size`"),
        (json!({"path": "a", "words": 7}), "`words` must be an array, not a number 7."),
        (json!({"path": "a", "words": ["b", 3]}), "`words[1]`"),
        (json!({"path": {"a": 1}}), "`file_path` must be a string, not an object"),
    } {
        let said = argument_error(&args.to_string());
        assert_starts_with!(said, "Echo: "; "{args}");
        assert_contains!(said, words; "{args}");
    }
    assert_lacks!(
        argument_error(&json!({"file_path": 1, "offset": "x".repeat(500)}).to_string()),
        "xxxx"
    );
}

#[test]
fn keys_that_are_not_there_and_keys_that_nobody_knows() {
    assert_contains!(argument_error("{}"), "missing field `file_path`");
    assert!(
        argument_error(r#"{"file_path": null}"#).contains("missing field `file_path`"),
        "null is absent"
    );
    for (key, hint) in [
        ("file_pth", "Did you mean `file_path`?"),
        ("Offset_", "Did you mean `offset`?"),
        ("replaceal", "Did you mean `replace_all`?"),
    ] {
        let said = argument_error(&json!({"file_path": "a", key: 1}).to_string());
        assert_eq!(said, format!("Echo: unknown key `{key}`. {hint}"));
    }
    let said = argument_error(r#"{"file_path": "a", "zzz": 1}"#);
    assert_contains!(said, "unknown key `zzz`.");
    assert_lacks!(said, "mean");
}

#[test]
fn a_key_that_is_given_twice_is_refused() {
    assert_contains!(
        argument_error(r#"{"file_path": "a", "file_path": "b"}"#),
        "\"file_path\" is there twice"
    );
    assert_contains!(
        argument_error(r#"{"file_path": "a", "path": "b"}"#),
        "`file_path` is given twice"
    );
    assert_contains!(
        argument_error(r#"{"filePath": "a", "file_path": "b"}"#),
        "given twice"
    );
    assert!(
        argument_error(r#"{"file_path": "a", "words": [{"x": 1, "x": 2}]}"#)
            .contains("is there twice"),
        "within"
    );
}

#[test]
fn text_that_no_two_readers_agree_about_is_refused() {
    let deep = format!("{}{}", r#"{"words":"#.repeat(5_000), "]".repeat(10));
    let cases = [
        (deep.as_str(), "nested more than 64 deep"),
        (r#"{"file_path": "a", "share": 1e400}"#, "out of range"),
        (r#"{"file_path": "\ud800"}"#, "not usable JSON"),
        (r#"{"file_path": "a"} {}"#, "not usable JSON"),
        (r#"{"file_path": "a""#, "not usable JSON"),
        ("{'file_path': 'a'}", "not usable JSON"),
        ("[1]", "must be a JSON object, not an array"),
        ("\"a\"", "must be a JSON object, not a string"),
        ("7", "must be a JSON object, not a number"),
        ("null", "must be a JSON object, not null"),
        ("true", "must be a JSON object, not a boolean"),
    ];
    for (args, words) in cases {
        let said = argument_error(args);
        assert_contains!(said, words; "{args:.60}");
    }
    assert_contains!(argument_error(""), "missing field"; "no text is an empty object");
}

#[test]
fn an_unknown_tool_is_answered_with_what_was_meant() {
    let whole = all_tools();
    let said = |name: &str| {
        let error = whole.registry.find(name).map(drop).expect_err(name);
        assert_error!(error, UnknownTool);
        error.model_text().to_owned()
    };
    assert_eq!(
        said("read"),
        "There is no tool called \"read\". Did you mean Read?"
    );
    assert_contains!(said("ReadFile"), "Did you mean");
    assert_contains!(
        said("xyzzy"),
        "This device has ApplyPatch, AskUserQuestion, Bash, Edit, "
    );
}

#[test]
fn refusals_of_real_tools_read_well() {
    let whole = all_tools();
    let cases = cases! {
        ("Read", r#"{"file_pth":"a"}"#),
        ("Read", r#"{"file_path":"a","offset":"last"}"#),
        ("Write", r#"{"file_path":"a","content":"x","overwrite":true}"#),
        ("Bash", r#"{"cmd":"ls","timeout":-1}"#),
        ("KillShell", r#"{"shell_id":"sh_1","signal":"SIGSTOP"}"#),
        ("SqliteQuery", r#"{"db":"a","params":5}"#),
        ("Task", "[]"),
    };
    let said: Vec<String> = cases
        .iter()
        .map(|(tool, args)| {
            let error = whole
                .registry
                .find(tool)
                .expect("there")
                .decode_call(args)
                .map(drop)
                .expect_err(args);
            format!("{tool} {args}\n{}\n", error.model_text())
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_title_says_what_a_call_would_do_and_is_never_json() {
    let whole = all_tools();
    let cases = cases! {
        ("run_command", json!({ "command": "ls", "args": ["-l"] }), "Run `ls -l`"),
        ("Read", json!({ "file_path": "/work/src/main.rs" }), "Read src/main.rs"),
        ("list_files", json!({}), "List the files in ."),
        (
            "SqliteQuery",
            json!({ "database_path": "a.db", "query": "SELECT 1" }),
            "Query a.db: `SELECT 1`",
        ),
        ("ApplyPatch", json!({ "patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" }), "Edit x"),
        ("ApplyPatch", json!({ "patch": "nothing" }), "Apply a patch"),
        (
            "Task",
            json!({ "tool": "ide_rename", "args": { "to": "x" } }),
            "Start a task: Call ide_rename with to `x`",
        ),
        ("GitStatus", json!({}), "Call GitStatus"),
        (
            "ide_rename",
            json!({ "to": "x", "all": true, "in": [1] }),
            "Call ide_rename with to `x`, all true",
        ),
        ("Edit", json!({ "edits": [{}] }), "Call Edit"),
        ("Bash", json!(null), "Call Bash"),
    };
    for (tool, args, wanted) in cases {
        let title = whole
            .registry
            .describe_call(tool, &args)
            .title
            .expect("a title");
        assert_eq!(title.render(&["/work".into()]), wanted);
    }
}

#[test]
fn a_yes_for_the_session_is_wider_only_where_a_tool_says_so() {
    let whole = all_tools();
    let scope = |tool: &str, args: Value| whole.registry.describe_call(tool, &args).scope;
    assert_eq!(
        scope("Bash", json!({ "command": "ls", "timeout": 5_000 })),
        AllowScope::SameCommand
    );
    for beside in [
        json!({ "run_in_background": true }),
        json!({ "working_directory": "/" }),
        json!({ "tty": true }),
    ] {
        let mut args = beside.clone();
        args["command"] = json!("ls");
        assert_eq!(scope("Bash", args), AllowScope::SameCall, "{beside}");
    }
    let wider = ["Bash", "Edit", "MultiEdit", "Write", "write_file"];
    for spec in whole
        .registry
        .device_specs()
        .filter(|spec| !wider.contains(&spec.name.as_ref()))
    {
        for example in spec.examples {
            let args = serde_json::from_str(example).expect("JSON");
            assert_eq!(
                scope(&spec.name, args),
                AllowScope::SameCall,
                "{} {example}",
                spec.name
            );
        }
    }
}
