//! Splits long messages for clients that join the parts.

/// The size over which a Transition is split. On the wire the parts are a little longer, because quotes are escaped.
pub(super) const CHUNK_BYTES: usize = 5_000_000;

/// Splits a text into parts of at most this many bytes, between characters. No part is empty, and none is too long
/// unless a single character is.
pub(super) fn split_into_parts(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match rest.floor_char_boundary(most) {
            0 => rest.chars().next().map_or(0, char::len_utf8),
            end => end,
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(
            split_into_parts("aé€😀", 4).collect::<Vec<_>>(),
            ["aé", "€", "😀"]
        );
        assert_eq!(
            split_into_parts("😀😀", 1).collect::<Vec<_>>(),
            ["😀", "😀"]
        );
        assert_eq!(split_into_parts("abc", 3).collect::<Vec<_>>(), ["abc"]);
        assert_eq!(split_into_parts("", 3).count(), 0);
    }

    proptest! {
        #[test]
        fn the_parts_are_the_text(text in "\\PC{0,60}", most in 4_usize..20) {
            let cut: Vec<_> = split_into_parts(&text, most).collect();
            prop_assert_eq!(cut.concat(), &*text);
            prop_assert!(cut.iter().all(|part| part.len() <= most));
        }
    }
}
