//! Masks known secret values in a stream of bytes.

use super::people::AliasStream;
use super::secret_set::{SecretMatches, SecretSet};
use super::{MASK, Redactor};

/// Masks a stream. The output equals that of [`Redactor::mask`] for the whole text, however it was cut into chunks.
/// Only bytes that may still become a secret are held back: at most the longest encoding and one escape sequence.
#[derive(Debug)]
pub struct Masker {
    redactor: Redactor,
    held: Vec<u8>,
    masked: u64,
    /// Replaces people in what is free of secrets.
    people: AliasStream,
    /// All that is held back.
    all_held: Vec<u8>,
}

impl Masker {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: Vec::new(),
            masked: 0,
            people: AliasStream::default(),
            all_held: Vec::new(),
        }
    }

    /// Adds a chunk and appends the bytes that are safe to `out`. Values added meanwhile are masked from here on.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if !self.replaces_people() {
            return self.push_secrets(chunk, out);
        }
        let mut free_of_secrets = Vec::with_capacity(chunk.len());
        self.push_secrets(chunk, &mut free_of_secrets);
        self.replace_people(&free_of_secrets, false, out);
    }

    fn replaces_people(&self) -> bool {
        self.redactor.has_people() || !self.people.held_back().is_empty()
    }

    fn replace_people(&mut self, bytes: &[u8], at_end: bool, out: &mut Vec<u8>) {
        if self.redactor.withholds_text() {
            return;
        }
        let people = self.redactor.current_people();
        self.people.push(people.as_deref(), bytes, at_end, out);
        self.all_held.clear();
        self.all_held.extend_from_slice(self.people.held_back());
        self.all_held.extend_from_slice(&self.held);
    }

    fn push_secrets(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let known = self.redactor.current_set();
        if self.held.is_empty() {
            let done = self.mask_decided(&known, chunk, false, out);
            self.held.extend_from_slice(&chunk[done..]);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(chunk);
            let done = self.mask_decided(&known, &joined, false, out);
            joined.drain(..done);
            self.held = joined;
        }
    }

    /// Appends the bytes that were held back, at the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let known = self.redactor.current_set();
        let held = std::mem::take(&mut self.held);
        if !self.replaces_people() {
            self.mask_decided(&known, &held, true, out);
            return;
        }
        let mut free_of_secrets = Vec::new();
        self.mask_decided(&known, &held, true, &mut free_of_secrets);
        self.replace_people(&free_of_secrets, true, out);
    }

    /// Returns the bytes that are held back because they may become a secret or a person's name.
    pub fn held_back(&self) -> &[u8] {
        if self.people.held_back().is_empty() {
            &self.held
        } else {
            &self.all_held
        }
    }

    /// Returns the number of values masked so far.
    pub fn masked_count(&self) -> u64 {
        self.masked
    }

    /// Masks and appends the decided part of `bytes` and returns its length.
    fn mask_decided(
        &mut self,
        known: &SecretSet,
        bytes: &[u8],
        at_end: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let SecretMatches {
            ranges: places,
            decided,
        } = known.find(bytes, at_end);
        let mut from = 0;
        for place in places.iter().take_while(|place| place.end <= decided) {
            out.extend_from_slice(&bytes[from..place.start]);
            out.extend_from_slice(MASK.as_bytes());
            self.masked += 1;
            from = place.end;
        }
        out.extend_from_slice(&bytes[from..decided]);
        decided
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redact::unescaped::UnescapedBytes;
    use crate::redact::{Secret, encodings};

    fn redactor(values: &[&str]) -> Redactor {
        Redactor::new(values.iter().map(|value| Secret::new((*value).to_owned())))
    }

    fn masked(redactor: &Redactor, chunks: &[&[u8]]) -> (String, u64) {
        let mut masker = redactor.stream_masker();
        let mut out = Vec::new();
        for chunk in chunks {
            masker.push(chunk, &mut out);
        }
        masker.finish(&mut out);
        (
            String::from_utf8(out).expect("text stays text"),
            masker.masked_count(),
        )
    }

    #[test]
    fn a_secret_is_masked_across_chunks() {
        let redactor = redactor(&["hunter2hunter2"]);
        let (text, masked) = masked(&redactor, &[b"pw=hunter2", b"hunt", b"er2;"]);
        assert_eq!((text.as_str(), masked), ("pw=[REDACTED:secret];", 1));
    }

    #[test]
    fn a_secret_is_masked_in_utf_16() {
        let redactor = redactor(&["hunter2hunter2"]);
        for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let text = "pw=hunter2hunter2;".encode_utf16();
            let bytes: Vec<u8> = text.flat_map(to_bytes).collect();
            let (text, count) = masked(&redactor, &[&bytes]);
            assert_eq!((text.contains("h\0u"), count), (false, 1), "{text:?}");
        }
    }

    #[test]
    fn only_what_may_become_a_secret_is_held_back() {
        let redactor = redactor(&["hunter2hunter2"]);
        let mut masker = redactor.stream_masker();
        let mut out = Vec::new();
        masker.push(b"Continue? [y/n] ", &mut out);
        assert_eq!(out, b"Continue? [y/n] ");
        masker.push(b"the hunter", &mut out);
        assert_eq!(out, b"Continue? [y/n] the ");
        masker.push(b"s", &mut out);
        assert_eq!(out, b"Continue? [y/n] the hunters");
    }

    #[test]
    fn the_longest_of_two_secrets_wins_and_waits() {
        let redactor = redactor(&["abcdefgh", "abcdefgh-and-more"]);
        assert_eq!(
            masked(&redactor, &[b"abcdefgh", b"-and-more!"]).0,
            "[REDACTED:secret]!"
        );
        assert_eq!(
            masked(&redactor, &[b"abcdefgh", b"-and-less!"]).0,
            "[REDACTED:secret]-and-less!"
        );
        assert_eq!(masked(&redactor, &[b"abcdefgh"]).0, "[REDACTED:secret]");
    }

    #[test]
    fn a_value_added_later_is_masked_from_then_on() {
        let redactor = Redactor::default();
        let mut masker = redactor.clone().stream_masker();
        let mut out = Vec::new();
        masker.push(b"hunter2hunter2 ", &mut out);
        assert!(redactor.add_secret(&Secret::new("hunter2hunter2".to_owned())));
        assert!(!redactor.add_secret(&Secret::new("short".to_owned())));
        masker.push(b"hunter2hunter2", &mut out);
        masker.finish(&mut out);
        assert_eq!(out, b"hunter2hunter2 [REDACTED:secret]");
    }

    #[test]
    fn a_value_inside_of_a_sequence_takes_it_along_so_that_no_other_text_is_shown_than_before() {
        let redactor = redactor(&["/\"/\"+/\"/"]);
        let text = "a\x1b/\"/\"+/\"//\x1b[1;31m\"/\"+/\"/";
        assert_eq!(
            masked(&redactor, &[text.as_bytes()]).0,
            "a[REDACTED:secret]\x1b[1;31m\"/\"+/\"/"
        );
        let link = "\x1b]8;;http://x/?k=/\"/\"+/\"/&y\x07here";
        assert_eq!(
            masked(&redactor, &[link.as_bytes()]).0,
            "\x1b]8;;http://x/?k=[REDACTED:secret]&y\x07here"
        );
    }

    #[test]
    fn nul_bytes_without_end_are_not_held_back_after_what_may_begin_a_secret() {
        let redactor = redactor(&["hunter2hunter2"]);
        let nuls = vec![0; 100_000];
        let text = [
            b"the hunt".as_slice(),
            &nuls,
            b"er2hunter2 h\0u\0nter2hunter2",
        ]
        .concat();
        for size in [1_000, 4_096, 70_000] {
            let mut masker = redactor.stream_masker();
            let mut out = Vec::new();
            for chunk in text.chunks(size) {
                masker.push(chunk, &mut out);
                assert!(
                    masker.held_back().len() < 10_000,
                    "{} are held by {size}",
                    masker.held_back().len()
                );
            }
            masker.finish(&mut out);
            let expected = [
                b"the hunt".as_slice(),
                &nuls,
                b"er2hunter2 [REDACTED:secret]",
            ]
            .concat();
            assert!(out == expected, "by {size}");
        }
    }

    #[test]
    fn nothing_shows_a_value() {
        let redactor = redactor(&["hunter2hunter2"]);
        assert!(!format!("{redactor:?} {:?}", redactor.stream_masker()).contains("hunter"));
    }

    fn secrets() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[ab\"/é+]{8,14}", 1..5)
    }

    /// Text around a planted secret, and the position of an escape sequence within the secret, if any.
    type Piece = (
        String,
        prop::sample::Index,
        bool,
        Option<prop::sample::Index>,
    );

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let between = "(?:[ab\"/é+\n]|\x1b\\[3?m|\x1b|\0){0,10}";
        let index = any::<prop::sample::Index>;
        prop::collection::vec(
            (between, index(), any::<bool>(), prop::option::of(index())),
            0..12,
        )
    }

    fn planted(secrets: &[String], pieces: &[Piece]) -> String {
        let mut text = String::new();
        for (between, which, plant, split) in pieces {
            text.push_str(between);
            if *plant {
                let secret = which.get(secrets);
                let at = split.map_or(0, |split| {
                    secret.floor_char_boundary(split.index(secret.len()))
                });
                text.push_str(&secret[..at]);
                text.push_str(if split.is_some() { "\x1b[1;31m" } else { "" });
                text.push_str(&secret[at..]);
            }
        }
        text
    }

    fn shown(text: &str) -> String {
        let left = UnescapedBytes::remove_escapes(text.as_bytes(), true);
        left.map_or_else(
            || text.to_owned(),
            |left| String::from_utf8_lossy(&left.bytes).into_owned(),
        )
    }

    proptest! {
        #[test]
        fn no_planted_secret_survives_any_chunking(secrets in secrets(), pieces in pieces()) {
            let values: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let redactor = redactor(&values);
            let text = planted(&secrets, &pieces);
            let (scrubbed, count) = redactor.mask(&text);
            for secret in secrets.iter().map(|secret| secret.trim()).filter(|secret| secret.len() >= 8) {
                prop_assert!(!scrubbed.contains(secret) && !shown(&scrubbed).contains(secret), "{scrubbed:?}");
            }
            for size in 1..=text.len() {
                let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                prop_assert_eq!(masked(&redactor, &chunks), (scrubbed.clone().into_owned(), count), "by {}", size);
            }
        }

        #[test]
        fn every_form_of_a_token_is_masked_at_every_chunking(token in "[!-~]{8,40}", before in "[ -~]{0,5}") {
            let redactor = redactor(&[token.as_str()]);
            for form in encodings::all_encodings(&token) {
                let text = format!("{before}{form}{before}");
                let (whole, _) = redactor.mask(&text);
                prop_assert!(!whole.contains(&form), "{form:?} in {whole:?}");
                for size in 1..=text.len() {
                    let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                    prop_assert_eq!(&masked(&redactor, &chunks).0, whole.as_ref());
                }
            }
        }

        #[test]
        fn text_without_secrets_is_untouched(text in "[c-z0-9 \n]{0,200}", size in 1_usize..50) {
            let redactor = redactor(&["ABABABABAB", "1-2-3-4-5-6-7"]);
            prop_assert!(matches!(redactor.mask(&text), (std::borrow::Cow::Borrowed(same), 0) if same == text));
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(masked(&redactor, &chunks), (text.clone(), 0));
        }
    }
}
