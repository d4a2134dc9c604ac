//! The versions of packages, in the order of Semantic Versioning.

use std::cmp::Ordering;

const MAX_VERSION: usize = 64;

/// Checks that a version is up to three numbers with dots, and perhaps a pre-release and a build.
pub(super) fn check_version(version: &str) -> Result<(), String> {
    if is_version(version) {
        return Ok(());
    }
    let shown: String = version.chars().take(MAX_VERSION + 16).collect();
    Err(format!(
        "version {shown:?} is not a version such as 1.2.3 or 1.2.3-beta.1"
    ))
}

/// Returns whether a text is a version.
pub(super) fn is_version(version: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let (numbers, pre, build) = split_version(version);
    let parts: Vec<&str> = numbers.split('.').collect();
    version.len() <= MAX_VERSION
        && parts.len() <= 3
        && parts
            .iter()
            .all(|part| part.parse::<u64>().is_ok_and(|_| is_digits(part)))
        && [pre, build]
            .into_iter()
            .flatten()
            .all(|text| !text.is_empty() && text.chars().all(is_word))
}

/// Compares two versions; a missing number is 0, and builds do not count.
pub(super) fn compare_versions(one: &str, other: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u64> {
        let parts = split_version(version).0.split('.');
        let mut numbers: Vec<u64> = parts.map(|part| part.parse().unwrap_or(0)).collect();
        numbers.resize(3, 0);
        numbers
    };
    let by_numbers = numbers(one).cmp(&numbers(other));
    by_numbers.then_with(|| match (split_version(one).1, split_version(other).1) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => compare_pre_releases(one, other),
    })
}

fn compare_pre_releases(one: &str, other: &str) -> Ordering {
    let part = |text: &str| match text.parse::<u64>() {
        Ok(number) if is_digits(text) => (0, number, String::new()),
        _ => (1, 0, text.to_owned()),
    };
    one.split('.').map(part).cmp(other.split('.').map(part))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a version into its numbers, its pre-release and its build.
fn split_version(version: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, build) = match version.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (version, None),
    };
    match rest.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre), build),
        None => (rest, None, build),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_semantic_versioning() {
        let ascending = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1",
            "1.0.1",
            "1.2",
            "1.10.0",
            "2",
        ];
        for pair in ascending.windows(2) {
            assert_eq!(
                compare_versions(pair[0], pair[1]),
                Ordering::Less,
                "{pair:?}"
            );
            assert_eq!(
                compare_versions(pair[1], pair[0]),
                Ordering::Greater,
                "{pair:?}"
            );
        }
        assert_eq!(compare_versions("1.0", "1.0.0+build"), Ordering::Equal);
        for bad in [
            "",
            "v1",
            "1.2.3.4",
            "1..2",
            "+1",
            "1-",
            "1.2.3-a b",
            "latest",
            "1.x",
        ] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }
}
