//! File systems without hard links, or without a rename that replaces nothing: tools create new files there too.

use super::absence::OtherKernel;

#[test]
fn a_new_file_is_made_where_there_are_no_hard_links_and_none_is_replaced() {
    for lacking in ["links", "flags"] {
        let bare = OtherKernel::under("without", &[lacking], "");
        let answer = bare.run_json(&["call", "Write", r#"{"file_path":"new","content":"made\n"}"#]);
        assert_starts_with!(answer["result"].as_str().unwrap_or_default(), "Created "; "{lacking}");
        assert_eq!(
            std::fs::read_to_string(bare.path("work/new")).expect("it is there"),
            "made\n"
        );
        let answer = bare.run_json(&[
            "call",
            "Write",
            r#"{"file_path":"file","content":"x","overwrite":"never"}"#,
        ]);
        assert!(
            answer["error"]
                .as_str()
                .unwrap_or_default()
                .contains("exists already"),
            "{lacking}: {answer}"
        );
        assert_eq!(
            std::fs::read_to_string(bare.path("work/file")).expect("it is there"),
            "there"
        );
        let mut left: Vec<_> = std::fs::read_dir(bare.path("work"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["file", "new"], "{lacking}");
    }
}
