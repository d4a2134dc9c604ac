//! Fits the catalog of one kind into the limits of the wire: what is too long is published with less text and says so.
//! The home keeps the whole.

use std::path::Path;

use serde_json::Value;

use super::home_document::CatalogEntry;
use super::home_problem::{HomeProblem, ProblemEffect};

/// The most bytes of one entry.
const ENTRY_LIMIT: usize = 900 << 10;
/// The most bytes of all entries of one kind, which a backend returns in one reply.
const KIND_LIMIT: usize = 6 << 20;

/// Cuts the texts of entries that are too long, and then those of the longest entries until all fit. `folder` is that of
/// the documents.
pub fn fit_catalog(items: &mut [CatalogEntry], folder: &Path) -> Vec<HomeProblem> {
    let mut problems = Vec::new();
    let mut cut = |item: &mut CatalogEntry, limit: usize, why: &str| {
        let kept = cut_text(item, limit);
        problems.push(HomeProblem {
            path: folder.join(&item.key),
            message: format!(
                "{why}, so {} of its text are published. Shorten it, or move parts to other files of its folder",
                if kept == 0 { "0 bytes".to_owned() } else { format!("the first {} KiB", kept >> 10) }
            ),
            effect: ProblemEffect::Warning,
        });
    };
    for item in items
        .iter_mut()
        .filter(|item| item.body.len() > ENTRY_LIMIT)
    {
        cut(item, ENTRY_LIMIT, "it is longer than a backend accepts");
    }
    let mut total: usize = items.iter().map(|item| item.body.len()).sum();
    if total > KIND_LIMIT {
        let mut longest: Vec<&mut CatalogEntry> = items.iter_mut().collect();
        // By key where two are of one length, so that the choice is always the same.
        longest.sort_by(|a, b| (b.body.len(), &a.key).cmp(&(a.body.len(), &b.key)));
        for item in longest {
            if total <= KIND_LIMIT {
                break;
            }
            total -= item.body.len();
            cut(
                item,
                0,
                "all together are longer than the 6 MiB that a backend accepts",
            );
            total += item.body.len();
        }
    }
    problems
}

/// Cuts the text so that the entry fits, and marks it. Returns the bytes of text that stay.
fn cut_text(item: &mut CatalogEntry, limit: usize) -> usize {
    let Ok(mut document) = serde_json::from_str::<Value>(&item.body) else {
        return 0;
    };
    let text = document["body"].as_str().unwrap_or_default().to_owned();
    let mut keep = text.len();
    while item.body.len() > limit && keep > 0 {
        // Proportionally, because escapes make the JSON longer than the text.
        keep = text.floor_char_boundary((keep - 1).min(keep * 99 / 100 * limit / item.body.len()));
        document["body"] = text[..keep].into();
        document["bodyTruncated"] = true.into();
        item.body = document.to_string();
    }
    item.hash = super::home_document::hash_body(&item.body);
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, text: &str) -> CatalogEntry {
        let body = serde_json::json!({"id": key, "body": text});
        CatalogEntry::from_serializable(key, &body)
    }

    #[test]
    fn a_document_that_is_too_long_is_published_in_part_and_says_so() {
        let whole = item("long", &"\u{1}é".repeat(200_000));
        let mut items = [whole.clone(), item("s", "x")];
        let problems = fit_catalog(&mut items, Path::new("/skills"));
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0]
                .to_string()
                .starts_with("/skills/long: it is longer"),
            "{problems:?}"
        );
        let length = items[0].body.len();
        assert!(
            length <= ENTRY_LIMIT && length > ENTRY_LIMIT / 2,
            "{length}"
        );
        assert_ne!(items[0].hash, whole.hash, "another text has another hash");
        let document: Value = serde_json::from_str(&items[0].body).expect("JSON");
        assert_eq!(document["bodyTruncated"], true);
        assert_eq!(items[1], item("s", "x"));
    }

    #[test]
    fn the_longest_lose_their_text_until_all_fit() {
        let mut items: Vec<_> = (0..9)
            .map(|n| item(&format!("k{n}"), &"x".repeat((800 << 10) + n)))
            .chain([item("small", "text")])
            .collect();
        let problems = fit_catalog(&mut items, Path::new("/skills"));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].to_string().contains("/skills/k8: all together"),
            "{problems:?}"
        );
        assert!(items.iter().map(|item| item.body.len()).sum::<usize>() <= KIND_LIMIT);
        assert_eq!(items[9], item("small", "text"));
    }
}
