//! Read: archives that are cut off, consist of several frames, or hold more names than are shown.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::Bench;
use super::read_documents::{make_tar, make_zip, tar_header};
use crate::harness::tools::reply_text;

#[tokio::test]
async fn a_header_for_the_whole_archive_is_no_entry() {
    let bench = Bench::new();
    // `git archive` writes the commit into a header before the files.
    let mut archive = tar_header("pax_global_header", 52, b'g').to_vec();
    archive.extend(b"52 comment=0123456789012345678901234567890123456789\n");
    archive.resize(1_024, 0);
    archive.extend(tar_header("src/main.rs", 0, b'0'));
    archive.resize(archive.len() + 1_024, 0);
    bench.put("a.tar", archive);
    let shown = bench.read(json!({"file_path": "a.tar"})).await;
    assert_contains!(
        shown,
        ", 1 entry, 0 bytes unpacked)\n     1\tsrc/main.rs (0 bytes)\n"
    );
}

/// Returns a Zstandard frame that stores these bytes uncompressed.
fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap();
    let mut frame = b"\x28\xb5\x2f\xfd\xa0".to_vec();
    frame.extend(size.to_le_bytes());
    frame.extend(&(size << 3 | 1).to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}

#[tokio::test]
async fn all_frames_of_packed_data_are_read() {
    let bench = Bench::new();
    let skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd".as_slice();
    let whole = make_tar();
    let (first, rest) = whole.split_at(700);
    // `pzstd` writes the size of a frame into another frame before it.
    let packed = [skippable, &zstd_frame(first), skippable, &zstd_frame(rest)].concat();
    bench.put("a.tar.zst", packed);
    let shown = bench.read(json!({"file_path": "a.tar.zst"})).await;
    assert_contains!(shown, ", 3 entries, 703 bytes unpacked)\n");
    let log = [zstd_frame(b"one line\n"), zstd_frame(b"another\n")].concat();
    bench.put("log.zst", log);
    let shown = bench.read(json!({"file_path": "log.zst"})).await;
    assert_contains!(shown, ", 17 bytes unpacked)");
}

#[tokio::test]
async fn an_archive_that_is_cut_off_is_listed_up_to_there() {
    let bench = Bench::new();
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(&make_tar()).unwrap();
    let packed = packed.finish().unwrap();
    // In a header, in the content of a file, and in the header of a long name.
    for end in [700, 1_400, 2_248] {
        for (name, bytes) in [("a.tar", &make_tar()), ("a.tgz", &packed)] {
            // The bytes before the data of the packed archive are not counted.
            bench.put(name, &bytes[..end + (bytes.len() - make_tar().len()) / 2]);
            let reply = bench.ok("Read", json!({ "file_path": name })).await;
            let shown = reply_text(&reply);
            assert_contains!(shown, "     1\tsrc/\n", "The archive is cut off"; "{name} {end}");
            assert!(reply.meta.truncated, "{name} {end}: {shown}");
        }
    }
    bench.put("a.tar", make_tar());
    let shown = bench.read(json!({"file_path": "a.tar"})).await;
    assert_lacks!(shown, "cut off");
}

#[tokio::test]
async fn a_name_that_occurs_twice_is_said() {
    let bench = Bench::new();
    bench.put("a.zip", make_zip(&[("a", 1), ("b", 2), ("a", 3)]));
    let shown = bench.read(json!({"file_path": "a.zip"})).await;
    assert_contains!(shown, "names occur more than once");
    bench.put("a.zip", make_zip(&[("a", 1), ("b", 2)]));
    let shown = bench.read(json!({"file_path": "a.zip"})).await;
    assert_lacks!(shown, "more than once");
}

#[tokio::test]
async fn the_names_of_an_archive_are_bounded_by_their_bytes() {
    let bench = Bench::new();
    // Each control character becomes longer when it is shown.
    let rest = "aaaaaa\x7f".repeat(4_090 / 7);
    let names: Vec<String> = (0..2_500).map(|n| format!("{n:08}{rest}")).collect();
    let entries: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    bench.put("a.zip", make_zip(&entries));
    let reply = bench
        .ok("Read", json!({"file_path": "a.zip", "limit": 1}))
        .await;
    let shown = reply_text(&reply);
    assert_contains!(
        shown,
        ", 2,500 entries, ",
        "Only the first 2,048 of its names can be shown."
    );
    assert!(reply.meta.truncated);
}
