//! Paths and counts as they are written in a report.

use std::path::Path;

use super::plain_text::clean_title;

/// Writes a path with `~` for the user's folder.
pub(crate) fn show_path(path: &Path, user_home: &Path) -> String {
    let text = match path.strip_prefix(user_home) {
        Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Ok(below) => {
            // The same on every system.
            let parts = below.iter().map(|part| part.to_string_lossy());
            format!("~/{}", parts.collect::<Vec<_>>().join("/"))
        }
        Err(_) => path.display().to_string(),
    };
    clean_title(&text)
}

/// Orders by descending count, then by name, and takes the first.
pub(crate) fn top_counts(
    counts: impl IntoIterator<Item = (String, u64)>,
    max: usize,
) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts.truncate(max);
    counts
}

/// Writes names with their counts on one line.
pub(crate) fn join_counts(counts: &[(String, u64)]) -> String {
    let items: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_does_not_name_the_user() {
        let home = Path::new("/home/someone");
        assert_eq!(
            show_path(Path::new("/home/someone/code/x"), home),
            "~/code/x"
        );
        assert_eq!(show_path(home, home), "~");
        assert_eq!(show_path(Path::new("/srv/x"), home), "/srv/x");
    }
}
