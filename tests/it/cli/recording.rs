//! The recording of the demonstration that README shows: `UPDATE_DOCS=1 cargo test --test it recording` runs `demo` on
//! a terminal of 80 columns and writes docs/demo.svg, each line at the time at which it appeared.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use regex::Regex;

use super::CliUser;
use crate::harness::terminal::open_terminal;

/// The height of a line, in pixels, for a font of 14 pixels.
const LINE: usize = 20;
/// The width of 80 characters of that font, in pixels.
const COLUMNS: usize = 675;
const MARGIN: usize = 16;

/// A line and the time at which it appeared.
struct ShownLine {
    text: String,
    after: Duration,
}

/// Runs the demonstration on a terminal and returns its lines.
async fn record_demonstration() -> Vec<ShownLine> {
    let user = CliUser::new();
    let (ours, theirs) = open_terminal();
    let mut command = user.command(&["demo"]);
    command
        .env("TMPDIR", std::env::temp_dir())
        .stdout(theirs.try_clone().expect("a copy"))
        .stderr(theirs);
    let begun = Instant::now();
    let reader = std::thread::spawn(move || {
        // Reading ends with an error when the last copy of the terminal's other side is closed.
        let lines = BufReader::new(ours).lines().map_while(Result::ok);
        lines
            .map(|text| ShownLine {
                text: text.trim_end().to_owned(),
                after: begun.elapsed(),
            })
            .collect()
    });
    let mut child = command.spawn().expect("started");
    // The command's own copies of the terminal would keep the screen open.
    drop(command);
    assert!(child.wait().await.expect("waited for").success());
    reader.join().expect("read")
}

/// Draws the lines as a picture that shows them one after the other.
fn draw_recording(lines: &[ShownLine]) -> String {
    let width = COLUMNS + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut picture = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="punie-runner demo on a terminal">
<style>
text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre; animation: appear 1ms both; }}
.ok {{ fill: #a3be8c; }}
@keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#1d2129"/>
"##
    );
    for (number, line) in lines.iter().enumerate() {
        let x = MARGIN;
        let y = MARGIN + number * LINE + LINE * 3 / 4;
        let text = escape_text(&line.text);
        let text = text.strip_prefix("ok  ").map_or_else(
            || text.clone(),
            |rest| format!(r#"<tspan class="ok">ok</tspan>  {rest}"#),
        );
        writeln!(
            picture,
            r#"<text x="{x}" y="{y}" xml:space="preserve" style="animation-delay:{:.2}s">{text}</text>"#,
            line.after.as_secs_f64()
        )
        .expect("a text");
    }
    picture + "</svg>\n"
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The lines that a picture shows.
fn lines_of(picture: &str) -> Vec<String> {
    let line = Regex::new(r"(?m)^<text [^>]*>(.*)</text>$").expect("a pattern");
    let tag = Regex::new("<[^>]*>").expect("a pattern");
    let shown = line.captures_iter(picture).map(|found| {
        let text = tag.replace_all(&found[1], "");
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    });
    shown.collect()
}

/// Replaces the parts of the lines that differ between two runs: times and the name of the folder.
fn without_figures(lines: &[String]) -> Vec<String> {
    let changing = Regex::new(r" +\d+ ms$|\d+\.\d s|/\S*punie-demo-\w+").expect("a pattern");
    let steady = lines
        .iter()
        .map(|line| changing.replace_all(line, "#").into_owned());
    steady.collect()
}

#[tokio::test]
async fn the_recording_shows_what_the_demonstration_prints() {
    let recorded = record_demonstration().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/demo.svg");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&file, draw_recording(&recorded)).expect("the picture is written");
    }
    let picture = std::fs::read_to_string(&file).expect("the picture");
    let printed: Vec<String> = recorded.into_iter().map(|line| line.text).collect();
    for line in &printed {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
    assert_eq!(
        without_figures(&lines_of(&picture)),
        without_figures(&printed),
        "`UPDATE_DOCS=1 cargo test --test it recording` records docs/demo.svg anew"
    );
}
