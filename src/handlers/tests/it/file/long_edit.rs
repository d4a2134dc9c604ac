//! Edit of long files, and of files that are too large to be edited.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use super::{Bench, counted};
use crate::harness::tools::reply_text;

/// Some megabytes of text.
fn long() -> String {
    counted(50_000, "this is line {} of a file that is not held\n")
}

fn line(n: usize) -> Value {
    json!({"file_path": "f", "old_string": format!("line {n} of"), "new_string": format!("line {n}, new, of")})
}

#[tokio::test]
async fn a_long_file_changes_at_its_place_and_nowhere_else() {
    let bench = Bench::new();
    let before = long();
    let path = bench.put("f", &before);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let held = bench.load("f").await.bytes_sha256();
    let reply = bench.ok("Edit", line(40_000)).await;
    assert_eq!(
        bench.get("f"),
        before.replace("line 40000 of", "line 40000, new, of")
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o751
    );
    let shown = reply_text(&reply);
    assert_contains!(
        shown,
        ": 1 replacement at line 40000.\n 39997\tthis is line 39997 of"
    );
    assert_contains!(
        shown,
        "\n 40000\tthis is line 40000, new, of a file that is not held\n"
    );
    assert_ends_with!(
        shown,
        "\n 40003\tthis is line 40003 of a file that is not held\n"
    );
    let change = &reply.meta.files[0];
    assert_eq!(change.before.as_ref(), Some(&held));
    assert_eq!(change.after, Some(bench.load("f").await.bytes_sha256()));
    assert_eq!(reply.meta.sha256, change.after);
    // Again: no line tells whether it is done already.
    let again = bench.refused("Edit", line(40_000)).await;
    assert_error!(again, NoMatch: "new_string stands at line 40000; whether");
    bench.assert_tidy();
}

#[tokio::test]
async fn a_long_file_is_refused_what_a_short_one_is() {
    let bench = Bench::new();
    let before = long();
    bench.put("f", &before);
    let edit = |more: Value| {
        let mut args = json!({"file_path": "f", "old_string": "line 777", "new_string": "line"});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    let error = bench.refused("Edit", edit(json!({}))).await;
    assert_error!(error, Ambiguous: "stands at 11 places in", "lines 777, 7770, 7771");
    assert_contains!(
        error.model_text(),
        "and 1 more",
        "   776\tthis is line 776 of"
    );
    let error = bench
        .refused("Edit", edit(json!({"expected_count": 4})))
        .await;
    assert_error!(error, Ambiguous);
    let error = bench
        .refused("Edit", edit(json!({"expected_sha256": "0".repeat(64)})))
        .await;
    assert_error!(error, Stale);
    let error = bench
        .refused("Edit", edit(json!({"old_string": "lime 12345 of a file"})))
        .await;
    assert_error!(error, NoMatch: "in line 12345:"; "the nearest is shown");
    assert_eq!(bench.get("f"), before);

    // What stands across itself.
    bench.put("f", format!("{before}\na\na\na\n"));
    let args = json!({"file_path": "f", "old_string": "a\na", "new_string": "b"});
    let error = bench.refused("Edit", args).await;
    assert_contains!(error.model_text(), "overlap", "lines 50002, 50003");
    bench.assert_tidy();
}

#[tokio::test]
async fn every_place_of_a_long_file_is_replaced() {
    let bench = Bench::new();
    let before = long().replace('\n', "\r\n");
    bench.put("f", format!("\u{FEFF}{before}"));
    let known = bench.load("f").await.bytes_sha256();
    let mut args = json!({
        "file_path": "f", "old_string": " of a file", "new_string": "\n of a file", "replace_all": true,
        "expected_sha256": known, "dry_run": true,
    });
    let reply = bench.ok("Edit", args.clone()).await;
    let shown = reply_text(&reply);
    assert_starts_with!(
        shown,
        "Dry run, nothing was written: 50000 replacements at lines 1-2, 3-4"
    );
    assert_contains!(shown, "\n@@ -1,", "[... 49800 more changed places]");
    assert_eq!(bench.load("f").await.bytes_sha256(), known);
    args.as_object_mut().unwrap().remove("dry_run");
    let reply = bench.ok("Edit", args).await;
    assert_contains!(reply_text(&reply), "and 49990 more");
    let after = before.replace(" of a file", "\r\n of a file");
    assert_eq!(bench.get("f"), format!("\u{FEFF}{after}"));
}

#[tokio::test]
async fn a_long_file_is_edited_where_the_text_is_only_nearly_there() {
    let bench = Bench::new();
    let before = long().replace('\n', "\r\n");
    bench.put("f", &before);
    let reply = bench
        .ok(
            "Edit",
            json!({"file_path": "f", "old_string": "held\nthis is line 30000 of", "new_string": "x\ny"}),
        )
        .await;
    assert_contains!(reply_text(&reply), "line endings");
    assert_eq!(
        bench.get("f"),
        before.replace("held\r\nthis is line 30000 of", "x\r\ny")
    );

    let wide: Vec<u8> = before.encode_utf16().flat_map(u16::to_le_bytes).collect();
    bench.put("f", [b"\xFF\xFE", wide.as_slice()].concat());
    bench.ok("Edit", line(30_000)).await;
    let after = before.replace("line 30000 of", "line 30000, new, of");
    let wide: Vec<u8> = after.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(fs::read(bench.root.join("f")).unwrap() == [b"\xFF\xFE", wide.as_slice()].concat());

    // Text of another encoding, which only its end tells.
    let latin = |text: &str| {
        text.chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect::<Vec<u8>>()
    };
    let end = "Le caf\u{e9} du th\u{e9}\u{e2}tre est ferm\u{e9} \u{e0} midi.\n".repeat(9);
    bench.put("f", latin(&format!("{before}{end}")));
    let args = json!({"file_path": "f", "old_string": "line 7 of", "new_string": "l\u{ef}ne"});
    bench.ok("Edit", args).await;
    let after = latin(&format!("{before}{end}").replace("line 7 of", "l\u{ef}ne"));
    assert!(fs::read(bench.root.join("f")).unwrap() == after);
}

#[tokio::test]
async fn a_file_over_64_mb_is_refused_with_the_command_to_type() {
    let bench = Bench::new();
    let path = bench.put("it's large", "a\n");
    let large = fs::OpenOptions::new().append(true).open(path).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    let edit = json!({"file_path": "it's large", "old_string": "a", "new_string": "b"});
    let many =
        json!({"file_path": "it's large", "edits": [{"old_string": "a", "new_string": "b"}]});
    for (tool, args) in [("Edit", edit), ("MultiEdit", many)] {
        let error = bench.refused(tool, args).await;
        assert_error!(error, TooLarge);
        assert_contains!(
            error.model_text(),
            "edited up to 64 MB. Change it with Bash: sed -i 's/old/new/' '"
        );
        assert_ends_with!(error.model_text(), "/it'\\''s large'");
    }
    bench.assert_tidy();
}

#[tokio::test]
async fn a_mask_is_not_written_into_a_long_file() {
    let bench = Bench::new();
    let before = long();
    bench.put("f", &before);
    let mask = punie_text::redact::MASK;
    let args = json!({"file_path": "f", "old_string": "line 9 of", "new_string": mask});
    assert_error!(bench.refused("Edit", args).await, InvalidArgs);
    assert_eq!(bench.get("f"), before);
}

/// Returns the most memory that this process had, in bytes: VmHWM in /proc/self/status, proc(5).
#[cfg(target_os = "linux")]
fn highest() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

/// Runs in a process of its own, because the memory of other tests would count too.
#[cfg(target_os = "linux")]
#[test]
fn an_edit_of_50_mb_holds_the_file_once() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "--test-threads=1",
            "file::long_edit::only_by_name_alone_an_edit_of_50_mb",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(
        status.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "run by an_edit_of_50_mb_holds_the_file_once"]
async fn only_by_name_alone_an_edit_of_50_mb() {
    let bench = Bench::new();
    bench.put("small", "a\n");
    let args = json!({"file_path": "small", "old_string": "a", "new_string": "b"});
    bench.ok("Edit", args).await;
    let mut file = fs::File::create(bench.root.join("f")).unwrap();
    let block = counted(1_000, "this is line {} of a file that is not held\n");
    while file.metadata().unwrap().len() < 50 << 20 {
        file.write_all(block.as_bytes()).unwrap();
    }
    file.write_all(b"the only place\n").unwrap();
    drop((file, block));
    let before = highest();
    let args = json!({"file_path": "f", "old_string": "only place", "new_string": "place"});
    bench.ok("Edit", args).await;
    let grown = highest() - before;
    assert!(grown <= 70 << 20, "it grew by {grown} bytes");
    let many = json!({"file_path": "f", "old_string": "line 1", "new_string": "LINE", "replace_all": true});
    let reply = bench.ok("Edit", many).await;
    assert_contains!(reply_text(&reply), " replacements at lines ");
    let grown = highest() - before;
    assert!(
        grown <= 90 << 20,
        "many places made it grow by {grown} bytes"
    );
}
