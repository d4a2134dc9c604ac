//! What the fuzz targets call: one function a target, each with the law that it checks. Absent from every normal
//! build; unit tests replay the targets' seeds. Not here: the targets themselves (`fuzz/`).

/// Between the parts of an input.
const BETWEEN: u8 = 0x1E;

/// A text and a patch of it.
pub fn patch(data: &[u8]) {
    let (text, patch) = halves(data);
    crate::handlers::file::fuzzing::patch(text, &String::from_utf8_lossy(patch));
}

/// A text, what is quoted of it, and what shall come there.
pub fn edit(data: &[u8]) {
    let (text, rest) = halves(data);
    let (old, new) = halves(rest);
    crate::handlers::file::fuzzing::edit(
        text,
        &String::from_utf8_lossy(old),
        &String::from_utf8_lossy(new),
    );
}

fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == BETWEEN) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests read the seeds")]

    use std::path::Path;

    use super::*;

    type Target = fn(&[u8]);

    #[test]
    fn every_seed_keeps_the_laws() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let targets: [(&str, Target); 2] = [("patch", patch), ("edit", edit)];
        for (name, target) in targets {
            let mut seeds = 0;
            for seed in std::fs::read_dir(corpus.join(name)).expect("a folder of seeds") {
                target(&std::fs::read(seed.expect("a seed").path()).expect("it can be read"));
                seeds += 1;
            }
            assert!(seeds >= 3, "{name} has {seeds} seeds");
        }
    }
}
