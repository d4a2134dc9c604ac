//! Replays the seeds of the fuzz targets. Not here: the targets (`fuzz/`), and the properties, which are beside the
//! code.

type Target = fn(&[u8]);

#[test]
fn every_seed_keeps_the_laws() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let targets: [(&str, Target); 6] = [
        ("patch", punie_handlers::file::fuzzing::patch),
        ("edit", punie_handlers::file::fuzzing::edit),
        ("hygiene", punie_text::fuzzing::hygiene),
        ("frontmatter", punie_home::fuzzing::head),
        ("wire", punie_engine::backend::fuzzing::replies),
        ("wire", punie_tool::fuzzing::arguments),
    ];
    for (name, target) in targets {
        let seeds = std::fs::read_dir(corpus.join(name)).expect("a folder of seeds");
        let replayed = seeds.map(|seed| {
            target(&std::fs::read(seed.expect("a seed").path()).expect("it can be read"));
        });
        assert!(replayed.count() >= 3, "{name}");
    }
}
