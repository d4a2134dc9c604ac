//! The format of git's configuration files.

/// One value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConfigEntry {
    /// The section in lower case, without its subsection.
    pub section: String,
    /// The key in lower case.
    pub key: String,
    /// The value, without quotes and comments.
    pub value: String,
}

/// Returns the values of a configuration. A line that git would refuse is left out, and no file is included.
pub(super) fn parse_git_config(bytes: &[u8]) -> Vec<ConfigEntry> {
    let text = String::from_utf8_lossy(bytes);
    let mut entries = Vec::new();
    let mut section = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim().to_owned();
        // A value goes on after a backslash at the end.
        while line.ends_with('\\')
            && let Some(next) = lines.next()
        {
            line.pop();
            line.push_str(next.trim_end());
        }
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split([']', ' ', '\t', '.']).next();
            section = name.unwrap_or_default().to_ascii_lowercase();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((&line, ""));
        let key = key.trim().to_ascii_lowercase();
        let is_key = key.starts_with(|first: char| first.is_ascii_alphabetic())
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_key && !section.is_empty() {
            entries.push(ConfigEntry {
                section: section.clone(),
                key,
                value: plain_value(value.trim()),
            });
        }
    }
    entries
}

fn plain_value(value: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_git_is_read() {
        let text = b"key = outside\n[User]\n\tname = \"Ann # B\" ; comment\n email=a@b.example\n\
            [alias]\n\tco = checkout \\\n  -q\n lg\n[submodule \"a b\"]\npath = x/y\n[core.x] bad\n1x = y\n# c = d\n\xff = e";
        let entries = parse_git_config(text);
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| {
                (
                    entry.section.as_str(),
                    entry.key.as_str(),
                    entry.value.as_str(),
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                ("user", "name", "Ann # B"),
                ("user", "email", "a@b.example"),
                ("alias", "co", "checkout   -q"),
                ("alias", "lg", ""),
                ("submodule", "path", "x/y"),
            ]
        );
    }
}
