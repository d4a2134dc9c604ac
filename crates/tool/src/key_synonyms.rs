//! The names by which models call the arguments of tools like ours, as other agents' tools have them. Not here: names that
//! mean something in one tool only (`Tool::ALIASES`).

/// Names of one meaning. A name that is no key of a tool stands for the key of that tool in the first group that has both.
const SYNONYMS: &[&[&str]] = &[
    &[
        "file_path",
        "path",
        "filename",
        "file_name",
        "filepath",
        "file",
        "absolute_path",
        "target_file",
        "relative_path",
        "uri",
        "database_path",
    ],
    &[
        "path",
        "directory",
        "dir",
        "dir_path",
        "directory_path",
        "target_directory",
        "folder",
        "cwd",
        "repo_path",
        "working_directory",
        "workdir",
    ],
    &["paths", "files", "file_paths", "path", "file_path"],
    &[
        "old_string",
        "old_str",
        "old_text",
        "old_content",
        "old",
        "search",
        "find",
    ],
    &[
        "new_string",
        "new_str",
        "new_text",
        "new_content",
        "new",
        "replace",
        "replacement",
        "replace_with",
    ],
    &["content", "text", "contents", "file_text"],
    &[
        "pattern",
        "query",
        "regex",
        "regexp",
        "search",
        "glob",
        "glob_pattern",
        "search_term",
    ],
    &["glob", "include", "include_pattern", "file_pattern", "-g"],
    &["query", "sql", "statement"],
    &["command", "cmd", "script", "shell_command"],
    &[
        "limit",
        "max_results",
        "head_limit",
        "max_count",
        "count",
        "n",
        "max_rows",
        "num_results",
    ],
    &["offset", "skip"],
    &["timeout_ms", "timeout"],
    &["wait_ms", "wait", "timeout", "timeout_ms", "yield_time_ms"],
    &["yield_ms", "yield_time_ms"],
    &["message", "msg", "commit_message"],
    &["ref", "revision", "commit", "sha", "hash"],
    &["shell_id", "bash_id", "id", "shell", "session_id"],
    &["terminal_id", "id", "terminal"],
    &["task_id", "id", "task", "agent_id"],
    &["skill_id", "skill", "skill_name", "id"],
    &["type", "file_type", "-t"],
    &["sort", "sort_by"],
    &["include_ignored", "no_ignore"],
    &["case_insensitive", "ignore_case", "-i"],
    &["context_lines", "context", "-C"],
    &["before_context", "-B"],
    &["after_context", "-A"],
    &["only_matching", "-o"],
    &["literal", "fixed_strings", "-F"],
    &["multiline", "-U"],
    &["run_in_background", "background", "is_background"],
    &["env", "environment"],
    &["args", "arguments"],
    &["staged", "cached"],
    &["stat_only", "stat"],
    &["since", "cursor"],
    &["stdin", "input"],
    &["tty", "pty"],
    &["max_chars", "max_output_chars"],
    &["edits", "changes", "replacements"],
];

/// Keys that models add for the reason of a call, or for another agent's way of working. They change nothing.
pub(super) const IGNORED_KEYS: &[&str] = &[
    "explanation",
    "description",
    "instruction",
    "instructions",
    "requires_approval",
    "restart",
];

/// Returns the key of a tool for which a name stands.
pub(super) fn synonymous_key(name: &str, is_key: impl Fn(&str) -> bool) -> Option<&'static str> {
    let groups = SYNONYMS.iter().filter(|group| group.contains(&name));
    groups
        .flat_map(|group| group.iter())
        .copied()
        .find(|key| is_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_key_that_the_tool_has() {
        let key = |name: &str, keys: &[&str]| synonymous_key(name, |key| keys.contains(&key));
        assert_eq!(key("filepath", &["file_path", "offset"]), Some("file_path"));
        assert_eq!(
            key("cwd", &["command", "working_directory"]),
            Some("working_directory")
        );
        assert_eq!(key("glob", &["pattern", "path"]), Some("pattern"));
        assert_eq!(key("search", &["pattern", "path"]), Some("pattern"));
        assert_eq!(
            key("search", &["old_string", "new_string"]),
            Some("old_string")
        );
        assert_eq!(key("cwd", &["command"]), None);
        assert_eq!(key("nothing", &["command"]), None);
    }
}
