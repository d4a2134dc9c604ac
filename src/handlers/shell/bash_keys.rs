//! Further keys that Bash and SkillBash accept, and the text of their limits.

use serde_json::{Map, Value};

/// Names that models use for the arguments.
pub(super) const ALIASES: &[(&str, &str)] = &[("yield_time_ms", "yield_ms")];

/// Keys of other agents' shell tools that are accepted and ignored.
pub(super) const ACCEPTED: &[&str] = &["max_output_tokens", "justification", "login", "shell"];

/// Brings arguments of other agents' shell tools to this one's.
pub(super) fn convert_arguments(arguments: &mut Map<String, Value>) {
    convert_token_limit(arguments);
    if let Some(line) = arguments.get("command").and_then(shell_line) {
        arguments.insert("command".to_owned(), line);
    }
}

/// Returns the line that a list such as `["bash", "-lc", LINE]` hands to a shell.
fn shell_line(command: &Value) -> Option<Value> {
    let [shell, flag, line] = command.as_array()?.as_slice() else {
        return None;
    };
    let shell = shell.as_str()?.rsplit('/').next();
    let is_shell = matches!(shell, Some("bash" | "sh" | "zsh"));
    let is_flag = matches!(flag.as_str(), Some("-c" | "-lc" | "-cl"));
    (is_shell && is_flag && line.is_string()).then(|| line.clone())
}

/// Converts a limit in tokens to one in characters, at four characters per token.
fn convert_token_limit(arguments: &mut Map<String, Value>) {
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
