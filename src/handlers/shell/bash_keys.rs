//! Further keys that Bash and SkillBash accept, and the text of their limits. Not here: the main keys (Bash).

use serde_json::{Map, Value};

/// Names that models use for the arguments.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("cmd", "command"),
    ("script", "command"),
    ("cwd", "working_directory"),
    ("workdir", "working_directory"),
    ("directory", "working_directory"),
    ("dir_path", "working_directory"),
    ("timeout_ms", "timeout"),
    ("background", "run_in_background"),
    ("is_background", "run_in_background"),
    ("yield_time_ms", "yield_ms"),
    ("environment", "env"),
    ("input", "stdin"),
    ("pty", "tty"),
    ("max_output_chars", "max_chars"),
];

/// Keys of other agents' shell tools that are accepted and ignored.
pub(super) const ACCEPTED: &[&str] = &["max_output_tokens", "justification", "login", "shell"];

/// Converts a limit in tokens to one in characters, at four characters per token.
pub(super) fn convert_token_limit(arguments: &mut Map<String, Value>) {
    let tokens = arguments.get("max_output_tokens").and_then(Value::as_u64);
    if let Some(tokens) = tokens.filter(|_| !arguments.contains_key("max_chars")) {
        let chars = tokens.saturating_mul(4).clamp(1_000, 200_000);
        arguments.insert("max_chars".to_owned(), Value::from(chars));
    }
}

/// The limits of a command.
pub(super) const LIMITS: &[&str] = &[
    "a command line of 131,071 bytes; larger data on stdin",
    "120,000 ms a command, 600,000 ms at most; none in the background",
    "yield_ms 250 to 60,000",
    "30,000 characters an answer, 200,000 at most; all of it, up to 256 MB, through ReadOutput",
];
