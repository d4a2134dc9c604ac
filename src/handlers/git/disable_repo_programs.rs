//! Overrides for programs that a repository's settings name under arbitrary keys. Not here: settings with fixed
//! names.

use super::git_command::GitCommand;
use punie_tool::{ErrorCode, ToolError};

/// Overrides the programs and returns the names of the filters among them, which then change nothing.
pub(super) async fn override_programs(git: &mut GitCommand) -> Result<Vec<String>, ToolError> {
    let answer = git
        .run(&["config", "--list", "-z", "--name-only", "--includes"])
        .await?;
    if !answer.is_success() || answer.cut {
        let why = answer.stderr_or("there are too many");
        return Err(ToolError::new(
            ErrorCode::Io,
            format!("The repository's settings cannot be read: {why}"),
        ));
    }
    let keys = String::from_utf8(answer.output).map_err(|_| {
        ToolError::new(
            ErrorCode::PolicyDenied,
            "The repository's settings have names that are not valid text; it is not asked.",
        )
    })?;
    let mut filters: Vec<String> = Vec::new();
    for key in keys.split('\0') {
        let Some((section, name, variable)) = split_key(key) else {
            continue;
        };
        match (section, variable) {
            ("filter", "clean" | "smudge" | "process") => {
                // An empty value means "no filter". A required filter that does nothing would be an error.
                git.overrides.push((key.to_owned(), ""));
                git.overrides
                    .push((format!("filter.{name}.required"), "false"));
                if !filters.iter().any(|known| known == name) {
                    filters.push(name.to_owned());
                }
            }
            ("diff", "command" | "textconv")
            | ("merge", "driver")
            | ("tar", "command")
            | ("remote", "uploadpack" | "receivepack" | "vcs" | "proxy")
            | ("trailer", "command" | "cmd")
            | ("credential", "helper") => git.overrides.push((key.to_owned(), "false")),
            // Since git 2.54, settings can name hooks too. Those of a commit run together with its hook files.
            ("hook", "command") => {
                git.hook_overrides.push((key.to_owned(), "true"));
                git.hook_overrides
                    .push((format!("hook.{name}.enabled"), "false"));
            }
            _ => {}
        }
    }
    Ok(filters)
}

/// Splits `filter.a.b.clean` into `filter`, `a.b`, `clean`.
fn split_key(key: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (name, variable) = rest.rsplit_once('.')?;
    Some((section, name, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_any_dots_in_its_middle() {
        assert_eq!(
            split_key("filter.a.b=c.clean"),
            Some(("filter", "a.b=c", "clean"))
        );
        assert_eq!(split_key("core.pager"), None);
        assert_eq!(split_key(""), None);
    }
}
