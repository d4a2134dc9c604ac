//! Overrides for programs that a repository's settings name under arbitrary keys. Not here: settings with fixed
//! names.

use super::command::{Answer, Git};
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// Overrides the programs and returns the names of the filters among them, which then change nothing.
pub(super) async fn disarm(cx: &ToolCx, git: &mut Git) -> Result<Vec<String>, ToolError> {
    let answer = git.run(cx, &["config", "--list", "-z", "--name-only", "--includes"]).await?;
    if !answer.worked() || answer.cut {
        return Err(unreadable(&answer));
    }
    let keys = String::from_utf8(answer.output).map_err(|_| {
        ToolError::new(
            ErrorCode::PolicyDenied,
            "The repository's settings have names that are not valid text; it is not asked.",
        )
    })?;
    let mut filters: Vec<String> = Vec::new();
    for key in keys.split('\0') {
        let Some((section, name, variable)) = parts(key) else { continue };
        match (section, variable) {
            ("filter", "clean" | "smudge" | "process") => {
                // An empty value means "no filter". A required filter that does nothing would be an error.
                git.set(key.to_owned(), "");
                git.set(format!("filter.{name}.required"), "false");
                if !filters.iter().any(|known| known == name) {
                    filters.push(name.to_owned());
                }
            }
            ("diff", "command" | "textconv")
            | ("merge", "driver")
            | ("tar", "command")
            | ("remote", "uploadpack" | "receivepack" | "vcs" | "proxy")
            | ("trailer", "command" | "cmd")
            | ("credential", "helper") => git.set(key.to_owned(), "false"),
            // Since git 2.54, settings can name hooks too. Those of a commit run together with its hook files.
            ("hook", "command") => {
                git.set_but_for_hooks(key.to_owned(), "true");
                git.set_but_for_hooks(format!("hook.{name}.enabled"), "false");
            }
            _ => {}
        }
    }
    Ok(filters)
}

fn unreadable(answer: &Answer) -> ToolError {
    let why = if answer.complaint.is_empty() { "there are too many" } else { &answer.complaint };
    ToolError::new(ErrorCode::Io, format!("The repository's settings cannot be read: {why}"))
}

/// Splits `filter.a.b.clean` into `filter`, `a.b`, `clean`.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (name, variable) = rest.rsplit_once('.')?;
    Some((section, name, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_any_dots_in_its_middle() {
        assert_eq!(parts("filter.a.b=c.clean"), Some(("filter", "a.b=c", "clean")));
        assert_eq!(parts("core.pager"), None);
        assert_eq!(parts(""), None);
    }
}
