//! Whether an edit leaves a file that programs could read before so that they cannot.

use std::path::Path;

use serde::de::IgnoredAny;

/// The largest text that is checked.
const MAX_BYTES: usize = 4 << 20;

/// Returns a note if the old text of this file is valid in the format that its name says, and the new one is not.
pub(super) fn describe_broken_format<T: AsRef<[u8]>>(
    path: &Path,
    old: &[u8],
    new: impl FnOnce() -> T,
) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let check: fn(&str) -> Result<(), String> = match extension.as_str() {
        "json" | "geojson" | "webmanifest" | "ipynb" => check_json,
        "toml" => check_toml,
        "yaml" | "yml" => check_yaml,
        _ => return None,
    };
    if old.len() > MAX_BYTES {
        return None;
    }
    let new = new();
    let why = check(str::from_utf8(new.as_ref()).ok()?).err()?;
    check(str::from_utf8(old).ok()?).ok()?;
    Some(format!(
        "The file could be read before and no longer can: {why}."
    ))
}

fn check_json(text: &str) -> Result<(), String> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str::<IgnoredAny>(text)
        .map(drop)
        .map_err(|cause| format!("it is no valid JSON, {cause}"))
}

fn check_toml(text: &str) -> Result<(), String> {
    text.parse::<toml::Table>().map(drop).map_err(|cause| {
        let line = cause
            .span()
            .map(|span| text[..span.start].lines().count().max(1));
        let at = line.map_or_else(String::new, |line| format!(" at line {line}"));
        format!("it is no valid TOML, {}{at}", cause.message())
    })
}

fn check_yaml(text: &str) -> Result<(), String> {
    let read = serde_saphyr::from_multiple::<IgnoredAny>(text);
    // The further lines show the place once more.
    read.map(drop).map_err(|cause| {
        let cause = cause.to_string();
        let first = cause.lines().next().unwrap_or_default();
        format!("it is no valid YAML, {}", first.trim_end_matches('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_read_before_is_told() {
        let told = |name: &str, old: &str, new: &str| {
            describe_broken_format(Path::new(name), old.as_bytes(), || new)
        };
        for (name, good, bad, format) in [
            ("a.json", "{\"a\": [1]}", "{\"a\": [1}", "JSON"),
            ("a.ipynb", "{}", "{", "JSON"),
            ("a.toml", "[a]\nb = 1\n", "[a]\nb = \n", "TOML"),
            (
                "a.yaml",
                "a: 1\n---\nb: [2]\n",
                "a: 1\n---\nb: [2\n",
                "YAML",
            ),
            ("A.YML", "a:\n  b: 1\n", "a:\n\tb: 1\n", "YAML"),
        ] {
            let note = told(name, good, bad).unwrap_or_else(|| panic!("{name}"));
            assert!(note.contains(format) && note.len() < 200, "{note}");
            assert_eq!(told(name, good, good), None);
            assert_eq!(told(name, bad, bad), None);
            assert_eq!(told(name, bad, good), None);
        }
        assert_eq!(told("a.rs", "{}", "{"), None);
    }
}
