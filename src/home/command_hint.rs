//! The commands that messages tell people to type, with the flags that this command was given: typed without them, they
//! would act on another home or backend. Variables need nothing, because they are still set.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The flags of this command that another one needs too.
#[derive(Debug, Clone, Default)]
pub struct GivenFlags {
    /// `--home`.
    pub home: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--backend-url`.
    pub backend_url: Option<String>,
    /// `--workspace`.
    pub workspaces: Vec<PathBuf>,
}

static GIVEN: Mutex<GivenFlags> = Mutex::new(GivenFlags {
    home: None,
    config: None,
    backend_url: None,
    workspaces: Vec::new(),
});

/// Changes the flags that hints repeat: set at the start, and cleared when a file has their values.
pub fn change_hint_flags(change: impl FnOnce(&mut GivenFlags)) {
    change(&mut GIVEN.lock());
}

/// Returns the command line to type for a subcommand with its arguments; for an empty text, of the program alone.
pub fn command_to_type(arguments: &str) -> String {
    GIVEN.lock().command_line(arguments)
}

impl GivenFlags {
    fn command_line(&self, arguments: &str) -> String {
        let subcommand = arguments.split(' ').next().unwrap_or_default();
        // The service keeps the flags of its installation.
        let is_install = arguments == "service install";
        let mut line = "punie-runner".to_owned();
        let mut add = |flag: &str, value: &str| {
            line.extend([" ", flag, " ", &shell_word(value)]);
        };
        let absolute = |path: &Path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            absolute.display().to_string()
        };
        if let Some(home) = &self.home {
            add("--home", &absolute(home));
        }
        if let Some(config) = &self.config {
            add("--config", &absolute(config));
        }
        if let Some(url) = &self.backend_url
            && (is_install
                || matches!(
                    subcommand,
                    "" | "run" | "pair" | "send" | "cancel" | "operator" | "status"
                ))
        {
            add("--backend-url", url);
        }
        if is_install || matches!(subcommand, "" | "run" | "dev" | "call" | "init" | "undo") {
            for folder in &self.workspaces {
                add("--workspace", &absolute(folder));
            }
        }
        if !arguments.is_empty() {
            line.extend([" ", arguments]);
        }
        line
    }
}

/// Quotes a word for a shell, if it needs that.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    if cfg!(windows) {
        let needs_none = word.chars().all(|c| is_plain(c) || c == '\\');
        return if needs_none {
            word.into()
        } else {
            format!("\"{word}\"").into()
        };
    }
    if word.chars().all(is_plain) && !word.is_empty() {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_word_with_blanks_and_quotes_can_be_pasted() {
        assert_eq!(shell_word("/home/me/.punie"), "/home/me/.punie");
        assert_eq!(shell_word("/it's here"), r"'/it'\''s here'");
    }

    #[test]
    #[cfg(unix)]
    fn a_command_repeats_the_flags_that_matter_to_it() {
        let given = GivenFlags {
            home: Some("/my home".into()),
            config: None,
            backend_url: Some("http://127.0.0.1:1".to_owned()),
            workspaces: vec!["/work".into()],
        };
        for (arguments, line) in [
            (
                "",
                "punie-runner --home '/my home' --backend-url http://127.0.0.1:1 --workspace /work",
            ),
            (
                "pair CODE",
                "punie-runner --home '/my home' --backend-url http://127.0.0.1:1 pair CODE",
            ),
            ("history ID", "punie-runner --home '/my home' history ID"),
        ] {
            assert_eq!(given.command_line(arguments), line);
        }
        assert_eq!(GivenFlags::default().command_line(""), "punie-runner");
    }
}
