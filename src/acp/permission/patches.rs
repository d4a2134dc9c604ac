//! The files that a patch names, for the policy. Not here: what the patch does (handlers::file).

/// Beginnings of lines that name files. A line of a file's text that looks so too counts as one: better one too many.
const HEADS: &[&str] = &[
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
    "+++ ",
    "--- ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
];

/// The paths, as written; none where nothing is named, or one is written in a way that is not read here.
pub(super) fn named_in(patch: &str) -> Option<Vec<String>> {
    let mut named: Vec<String> = Vec::new();
    for line in patch.lines() {
        let line = line.trim_end_matches('\r');
        let Some(head) = HEADS.iter().find(|head| line.starts_with(**head)) else { continue };
        let written = line[head.len()..].split('\t').next().unwrap_or_default().trim();
        if written.starts_with('"') {
            return None;
        }
        if written.is_empty() || written == "/dev/null" {
            continue;
        }
        let bare =
            written.strip_prefix("a/").or_else(|| written.strip_prefix("b/")).filter(|_| head.len() == 4);
        for spelling in std::iter::once(written).chain(bare) {
            if !named.iter().any(|known| known == spelling) {
                named.push(spelling.to_owned());
            }
        }
    }
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn every_file_of_a_patch_is_named_in_both_spellings() {
        let unified = "--- a/x.rs\t2024\n+++ b/y.rs\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ new\n";
        assert_eq!(named_in(unified).expect("files"), ["a/x.rs", "x.rs", "b/y.rs", "y.rs", "new"]);
        let codex =
            "*** Begin Patch\n*** Update File: a/b.rs\n*** Move to: c.rs\r\n@@\n-x\n+y\n*** End Patch";
        assert_eq!(named_in(codex).expect("files"), ["a/b.rs", "c.rs"]);
        assert_eq!(named_in("--- \"a/\\303\\244\"\n"), None);
        assert_eq!(named_in("hello"), None);
    }
}
