//! The parts that a build may leave out: it says which, and what one is asked for that is not there is refused by the
//! part's name. Each test holds for this build, whatever it has.

use super::CliUser;

/// The parts, each with its command and a table of the configuration that nothing else reads.
const PARTS: [(&str, bool, &str, &str); 7] = [
    ("bridges", cfg!(feature = "bridges"), "bridges", ""),
    ("documents", cfg!(feature = "documents"), "", ""),
    (
        "packages",
        cfg!(feature = "packages"),
        "packages",
        "[store]\nenabled = true\n",
    ),
    ("people", cfg!(feature = "people"), "people", ""),
    (
        "signals",
        cfg!(feature = "signals"),
        "signals",
        "[signals]\ndocuments = false\n",
    ),
    (
        "updates",
        cfg!(feature = "updates"),
        "update",
        "[update]\nurl = \"https://example.com\"\n",
    ),
    (
        "websocket",
        cfg!(feature = "websocket"),
        "",
        "[backend.websocket]\nping_ms = 1000\n",
    ),
];

#[tokio::test]
async fn the_version_names_the_parts_that_were_left_out() {
    let left_out: Vec<&str> = PARTS
        .iter()
        .filter(|part| !part.1)
        .map(|part| part.0)
        .collect();
    let build = match left_out.len() {
        0 => String::new(),
        7 => "+small".to_owned(),
        _ => format!("+without.{}", left_out.join(".")),
    };
    let expected = format!("punie-runner {}{build}\n", env!("CARGO_PKG_VERSION"));
    let version = CliUser::new().run_cli(&["--version"]).await.done().out;
    assert_eq!(version, expected);
}

#[tokio::test]
async fn a_command_of_a_part_is_there_with_the_part() {
    let user = CliUser::new();
    let help = user.run_cli(&["--help"]).await.done().out;
    for (_, is_built, command, _) in PARTS.iter().filter(|part| !part.2.is_empty()) {
        let is_shown = help.contains(&format!("\n  {command} "));
        let code = user.run_cli(&[command, "--help"]).await.code;
        assert_eq!((is_shown, code == 0), (*is_built, *is_built), "{command}");
    }
}

#[tokio::test]
async fn a_table_of_a_part_that_was_left_out_is_refused_by_the_parts_name() {
    for (part, is_built, _, table) in PARTS.iter().filter(|part| !part.3.is_empty()) {
        let user = CliUser::new();
        let head = table.lines().next().expect("a line");
        user.write("home/config.toml", &format!("{head}\n"));
        user.run_cli(&["config", "get"]).await.done();
        user.write("home/config.toml", table);
        let answer = user.run_cli(&["config", "get"]).await;
        if *is_built {
            answer.done();
        } else {
            answer.refused(78, &format!("built without the part {part:?}"));
        }
    }
    let user = CliUser::new();
    user.write(
        "home/config.toml",
        "[backend]\nkind = \"websocket\"\nurl = \"wss://example.com\"\n",
    );
    let answer = user.run_cli(&["config", "get"]).await;
    if cfg!(feature = "websocket") {
        answer.done();
    } else {
        answer.refused(78, "built without the part \"websocket\"");
    }
}

#[tokio::test]
async fn a_document_is_shown_or_the_reason_why_not() {
    let user = CliUser::new();
    let icon = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\
                 \0\0\0\nIDAT\x78\x9c\x63\xf8\x0f\0\x01\x01\x01\0\xb1\x38\xf6\x14\
                 \0\0\0\0IEND\xae\x42\x60\x82";
    std::fs::write(user.path("work/icon.png"), icon).expect("written");
    let answer = user
        .run_cli(&["call", "Read", r#"{"file_path":"icon.png"}"#])
        .await;
    if cfg!(feature = "documents") {
        assert_contains!(answer.done().out, "image/png");
    } else {
        let answer = answer.ended(1);
        assert_contains!(
            answer.out + &answer.err,
            "built without the part `documents`"
        );
    }
    let notebook = r#"{"cells":[{"cell_type":"code","source":"x = 1","outputs":[],"metadata":{}}],"metadata":{},"nbformat":4,"nbformat_minor":5}"#;
    user.write("work/one.ipynb", notebook);
    let answer = user
        .run_cli(&["call", "Read", r#"{"file_path":"one.ipynb"}"#])
        .await
        .done();
    let is_text = answer.out.contains("nbformat");
    assert_eq!(is_text, cfg!(not(feature = "documents")), "{answer:?}");
}
