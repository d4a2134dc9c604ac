//! Read: images, PDF documents, notebooks and archives, also damaged and hostile ones. The tests make every file byte
//! by byte.

use std::fs;
use std::io::Write as _;

use base64::Engine as _;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use punie_tool::request::ReplyBody;
use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::reply_text;

// Images.

/// Returns a PNG with this number of bytes for its pixels.
pub(super) fn make_png(width: u32, height: u32, pixels: usize) -> Vec<u8> {
    let header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let chunks = [
        (b"IHDR", [header.as_slice(), &[8, 6, 0, 0, 0]].concat()),
        (b"IDAT", vec![7; pixels]),
        (b"IEND", vec![]),
    ];
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, body) in chunks {
        let named = [name.as_slice(), &body].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&named);
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(named);
        bytes.extend(crc.sum().to_be_bytes());
    }
    bytes
}

async fn read_image(bench: &Bench, name: &str) -> Value {
    match bench.ok("Read", json!({"file_path": name})).await.body {
        ReplyBody::Json(value) => value,
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn an_image_comes_whole_with_its_dimensions() {
    let bench = Bench::new();
    let png = make_png(640, 480, 1_000);
    bench.put("a.png", &png);
    let value = read_image(&bench, "a.png").await;
    let expect = json!({"type": "image", "mime_type": "image/png", "width": 640, "height": 480, "size": png.len(),
        "encoding": "base64", "path": "a.png"});
    for (key, expect) in expect.as_object().unwrap() {
        assert_eq!(&value[key], expect, "{key}");
    }
    let data = base64::engine::general_purpose::STANDARD
        .decode(value["data"].as_str().unwrap())
        .unwrap();
    assert_eq!(data, png);

    let gif = b"GIF89a\x40\x01\xc8\0\0\0\0;";
    let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x0b\x08\0\x10\0\x20\x01\x01\x11\0\xff\xd9";
    let webp = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x63\0\0\x31\0\0";
    for (name, bytes, mime, width, height) in [
        ("a.gif", gif.as_slice(), "image/gif", 320, 200),
        ("a.jpg", jpeg, "image/jpeg", 32, 16),
        ("a.webp", webp, "image/webp", 100, 50),
    ] {
        bench.put(name, bytes);
        let value = read_image(&bench, name).await;
        assert_fields!(value, {"mime_type": mime, "width": width, "height": height});
    }
    bench.put("a.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n");
    let text = bench.read(json!({"file_path": "a.svg"})).await;
    assert_contains!(text, "     1\t<svg ");
}

#[tokio::test]
async fn a_big_image_says_how_to_see_it() {
    let bench = Bench::new();
    bench.put("fits.png", make_png(9, 9, (700 << 10) / 4 * 3 - 60));
    assert!(
        read_image(&bench, "fits.png").await["data"]
            .as_str()
            .unwrap()
            .len()
            <= 700 << 10
    );
    bench.put("big.png", make_png(9_000, 8_000, 700 << 10));
    let reply = bench.ok("Read", json!({"file_path": "big.png"})).await;
    assert!(reply.meta.truncated);
    let value = read_image(&bench, "big.png").await;
    assert_fields!(value, {"width": 9_000, "data": null});
    assert_contains!(value["note"].as_str().unwrap(), "magick");
    bench.put("cut.png", b"\x89PNG\r\n\x1a\n\0\0");
    let error = bench.refused("Read", json!({"file_path": "cut.png"})).await;
    assert_error!(error, NotText: "dimensions cannot be read");
}

#[tokio::test]
async fn an_image_that_is_cut_off_or_damaged_is_refused() {
    let bench = Bench::new();
    let png = make_png(64, 48, 500);
    let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x0b\x08\0\x10\0\x20\x01\x01\x11\0\xff\xda\0\x02ab\xff\0cd\xff\xd9";
    let gif = b"GIF89a\x40\x01\xc8\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02ab\0;";
    let webp = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x63\0\0\x31\0\0EXIF\0\0\0\0";
    for (name, bytes) in [
        ("a.png", png.as_slice()),
        ("a.jpg", jpeg.as_slice()),
        ("a.gif", gif.as_slice()),
        ("a.webp", webp.as_slice()),
    ] {
        bench.put(name, bytes);
        assert!(read_image(&bench, name).await["data"].is_string(), "{name}");
        for kept in bytes.len() - if name == "a.gif" { 12 } else { 1 }..bytes.len() {
            bench.put(name, &bytes[..kept]);
            let error = bench.refused("Read", json!({"file_path": name})).await;
            assert_error!(error, NotText: "is cut off"; "{name}");
        }
    }
    let mut damaged = png;
    damaged[100] ^= 1;
    bench.put("a.png", damaged);
    let error = bench.refused("Read", json!({"file_path": "a.png"})).await;
    assert_contains!(
        error.model_text(),
        "its part IDAT at byte 33 has a wrong checksum"
    );
}

// PDF documents.

pub(super) fn deflate_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a document with these content streams, compressed. `font` is the font's dictionary, and `more` holds more
/// objects.
pub(super) fn make_pdf(pages: &[&str], font: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let packed = pages
        .iter()
        .map(|content| pdf_stream("/Filter /FlateDecode", &deflate_bytes(content.as_bytes())));
    pdf_of(&packed.collect::<Vec<_>>(), font, more)
}

/// Returns a document with these streams as they are.
pub(super) fn pdf_of(pages: &[Vec<u8>], font: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len())
        .map(|n| format!("{} 0 R", 4 + 2 * n))
        .collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!(
            "<< /Type /Pages /Count {} /Kids [{}] >>",
            pages.len(),
            kids.join(" ")
        )
        .into_bytes(),
        font.as_bytes().to_vec(),
    ];
    for (n, content) in pages.iter().enumerate() {
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * n
        );
        objects.push(page.into_bytes());
        objects.push(content.clone());
    }
    objects.extend_from_slice(more);
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut table: Vec<String> = Vec::new();
    for (n, object) in (1..).zip(&objects) {
        table.push(format!("{:010} 00000 n \n", bytes.len()));
        bytes.extend(format!("{n} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let start = bytes.len();
    let count = objects.len() + 1;
    let table = table.concat();
    bytes.extend(
        format!(
            "xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
        )
        .bytes(),
    );
    bytes
}

pub(super) fn pdf_stream(keys: &str, data: &[u8]) -> Vec<u8> {
    let mut object = format!("<< /Length {} {keys} >>\nstream\n", data.len()).into_bytes();
    object.extend(data);
    object.extend(b"\nendstream");
    object
}

pub(super) const PLAIN: &str =
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

#[tokio::test]
async fn lines_of_a_document_and_entries_of_a_folder_are_shown_as_asked() {
    let bench = Bench::new();
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";
    let page =
        |n: u32| format!("BT /F1 12 Tf 72 700 Td (first {n}) Tj 0 -20 Td (second {n}) Tj ET");
    bench.put("a.pdf", make_pdf(&[&page(1), &page(2)], font, &[]));
    let shown = bench
        .read(json!({"file_path": "a.pdf", "offset": 2, "limit": 3}))
        .await;
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    let expect = [
        "     2\tfirst 1",
        "     3\tsecond 1",
        "     4\t--- Page 2 of 2 ---",
        "",
    ];
    assert_eq!(lines[..4], expect, "{shown}");
    assert_contains!(shown, "Showing lines 2-4. Continue with offset=5.");
    let shown = bench.read(json!({"file_path": "a.pdf", "offset": 5})).await;
    assert_contains!(shown, "     6\tsecond 2\n\nShowing lines 5-6, to the end.");

    for n in 0..7 {
        bench.put(&format!("many/f{n}"), "");
    }
    let shown = bench
        .read(json!({"file_path": "many", "offset": 3, "limit": 2}))
        .await;
    assert_contains!(
        shown,
        "7 entries)\nf2 (0 bytes)\nf3 (0 bytes)\n\nShowing 3-4 of 7. Continue with offset=5."
    );
    let shown = bench.read(json!({"file_path": "many", "offset": -2})).await;
    assert_contains!(
        shown,
        "\nf5 (0 bytes)\nf6 (0 bytes)\n\nShowing 6-7 of 7, to the end."
    );
    let shown = bench.read(json!({"file_path": "many", "offset": 9})).await;
    assert_contains!(shown, "There is no entry 9: there are 7.");
}

#[tokio::test]
async fn a_document_is_read_by_page() {
    let bench = Bench::new();
    let contents: Vec<String> = (1..=12)
        .map(|n| {
            format!(
                "BT /F1 12 Tf 72 700 Td (This is page {n}) Tj 0 -14 Td [(second) -300 (line ca) 20 (f\\351)] TJ ET"
            )
        })
        .collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    bench.put("d.pdf", make_pdf(&contents, PLAIN, &[]));
    let reply = bench.ok("Read", json!({"file_path": "d.pdf"})).await;
    let shown = reply_text(&reply);
    assert_contains!(shown, "(PDF document, ", ", 12 pages)\n");
    assert_contains!(
        shown,
        "\n--- Page 1 of 12 ---\nThis is page 1\nsecond line café\n"
    );
    assert_contains!(shown, "--- Page 10 of 12 ---");
    assert_lacks!(shown, "page 11\n");
    assert_ends_with!(
        shown,
        "Showing 10 pages of 12. Continue with pages=\"11-12\".\n"
    );
    assert!(reply.meta.truncated);
    let shown = bench
        .read(json!({"file_path": "d.pdf", "pages": "2,11-12"}))
        .await;
    let heads: Vec<_> = shown
        .lines()
        .filter(|line| line.starts_with("--- "))
        .collect();
    assert_eq!(
        heads,
        [
            "--- Page 2 of 12 ---",
            "--- Page 11 of 12 ---",
            "--- Page 12 of 12 ---"
        ]
    );
    assert_lacks!(shown, "Continue");
    // An answer has whole pages; the next call begins with those that did not fit.
    let shown = bench
        .read(json!({"file_path": "d.pdf", "max_chars": 1_000}))
        .await;
    assert!(
        shown.chars().count() <= 1_000 && shown.contains("Continue with pages=\""),
        "{shown}"
    );
    for (pages, words) in [
        ("13", "has 12 pages"),
        ("0", "not a list of pages"),
        ("x", "not a list of pages"),
    ] {
        let error = bench
            .refused("Read", json!({"file_path": "d.pdf", "pages": pages}))
            .await;
        assert_error!(error, InvalidArgs: words);
    }
    bench.put("plain", "text\n");
    let error = bench
        .refused("Read", json!({"file_path": "plain", "pages": "1"}))
        .await;
    assert_error!(error, InvalidArgs);
}

#[tokio::test]
async fn letters_are_what_the_fonts_own_table_says() {
    let bench = Bench::new();
    let font = "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [7 0 R] >>";
    let table = b"2 beginbfchar <0003> <0020> <0024> <1F980> endbfchar 1 beginbfrange <0041> <0043> <0391> endbfrange";
    let below = b"<< /Type /Font /Subtype /CIDFontType2 /DW 600 /W [65 [700 700 700]] >>".to_vec();
    let content =
        "BT /F1 10 Tf 1 0 0 1 50 500 Tm <004100420043> Tj 1 0 0 1 50 480 Tm <00430099> Tj ET";
    bench.put(
        "d.pdf",
        make_pdf(&[content], font, &[pdf_stream("", table), below]),
    );
    let shown = bench.read(json!({"file_path": "d.pdf"})).await;
    assert_contains!(shown, "\nΑΒΓ\nΓ\u{FFFD}\n", "stand as U+FFFD");
}

#[tokio::test]
async fn scanned_damaged_and_hostile_documents_are_said() {
    let bench = Bench::new();
    bench.put("scan.pdf", make_pdf(&["q 1 0 0 1 0 0 cm Q"], PLAIN, &[]));
    let shown = bench.read(json!({"file_path": "scan.pdf"})).await;
    assert_contains!(shown, "(no text on this page)", "OCR");

    let whole = make_pdf(&["BT /F1 12 Tf (x) Tj ET"], PLAIN, &[]);
    bench.put("broken.pdf", b"%PDF-1.4\nnothing of a document\n\0\0");
    let error = bench
        .refused("Read", json!({"file_path": "broken.pdf"}))
        .await;
    assert_error!(error, NotText: "damaged", "pdftotext");

    let trailer = b"/Root 1 0 R >>";
    let at = whole
        .windows(trailer.len())
        .position(|window| window == trailer)
        .unwrap();
    let mut locked = whole[..at].to_vec();
    locked.extend(b"/ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /O <");
    locked.extend("00".repeat(32).bytes());
    locked.extend(b"> /U <");
    locked.extend("11".repeat(32).bytes());
    locked.extend(b"> /P -4 >> ");
    locked.extend(&whole[at..]);
    bench.put("locked.pdf", locked);
    let error = bench
        .refused("Read", json!({"file_path": "locked.pdf"}))
        .await;
    assert_contains!(error.model_text(), "encrypted");

    // The end of the file is missing, and the text with it: this is not a scanned page.
    let at = whole
        .windows(7)
        .position(|window| window == b"5 0 obj")
        .unwrap();
    bench.put("cut.pdf", &whole[..at + 30]);
    let shown = bench.read(json!({"file_path": "cut.pdf"})).await;
    assert_contains!(shown, "damaged: its end is missing");
    assert_lacks!(shown, "OCR");

    // A document that is cut anywhere gives an answer or an error, and nothing else.
    for cut in (9..whole.len()).step_by(37) {
        bench.put("cut.pdf", &whole[..cut]);
        if let Err(error) = bench.call("Read", json!({"file_path": "cut.pdf"})).await {
            assert_error!(error, NotText; "{cut}");
        }
    }
}

#[tokio::test]
async fn a_form_that_draws_itself_comes_to_an_end() {
    let bench = Bench::new();
    let content = "BT /F1 12 Tf 10 10 Td (before) Tj ET /X Do";
    let form = pdf_stream(
        "/Type /XObject /Subtype /Form /Resources << /XObject << /X 6 0 R >> >>",
        b"/X Do /X Do /X Do",
    );
    let bytes = make_pdf(&[content], PLAIN, &[form]);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert_contains!(text, "/Font << /F1 3 0 R >>");
    // This makes the offsets wrong, so the reader must find the objects by itself.
    let needle = b"/Font << /F1 3 0 R >>";
    let at = bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap();
    let mut with = bytes[..at].to_vec();
    with.extend(b"/XObject << /X 6 0 R >> ");
    with.extend(&bytes[at..]);
    bench.put("d.pdf", with);
    let shown = bench.read(json!({"file_path": "d.pdf"})).await;
    assert_contains!(shown, "before");
}

// Notebooks.

#[tokio::test]
async fn a_notebook_is_shown_by_cell_and_read_by_line() {
    let bench = Bench::new();
    let notebook = json!({
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "execution_count": 1, "source": "for n in range(100):\n    print(n)", "outputs": [
                {"output_type": "stream", "name": "stdout", "text": (0..100).map(|n| format!("{n}\n")).collect::<Vec<_>>()},
                {"output_type": "display_data", "data": {"image/png": "QUJD".repeat(1_000)}}]},
        ],
        "metadata": {"language_info": {"name": "python"}}, "nbformat": 4,
    });
    bench.put("n.ipynb", notebook.to_string());
    let shown = bench.read(json!({"file_path": "n.ipynb"})).await;
    assert_contains!(
        shown,
        "2 cells, python)\n     1\t[cell 1: markdown]\n     2\t# Title\n"
    );
    assert_contains!(shown, "[... 80 lines of this output more ...]");
    assert_contains!(shown, "[display_data: image/png, 2.9 KB, not shown]");
    assert_lacks!(shown, "QUJD");
    let shown = bench
        .read(json!({"file_path": "n.ipynb", "offset": 2, "limit": 2}))
        .await;
    assert_contains!(
        shown,
        ")\n     2\t# Title\n     3\twords\n\nShowing 2-3 of "
    );
    assert_contains!(shown, "Continue with offset=4.");
    let raw = bench
        .read(json!({"file_path": "n.ipynb", "encoding": "utf-8"}))
        .await;
    assert_contains!(raw, "\"cell_type\"");

    bench.put("broken.ipynb", "{\"cells\": [\n");
    let reply = bench.ok("Read", json!({"file_path": "broken.ipynb"})).await;
    assert_contains!(reply_text(&reply), "     1\t{\"cells\": [");
    assert!(
        reply
            .meta
            .warnings
            .iter()
            .any(|warning| warning.contains("not as a notebook")),
        "{:?}",
        reply.meta
    );
    fs::create_dir(bench.root.join("folder.ipynb")).unwrap();
    let text = bench.read(json!({"file_path": "folder.ipynb"})).await;
    assert_contains!(text, "(folder, ");
}

// Archives.

/// Returns a ZIP archive whose files are empty, although the archive declares these sizes.
pub(super) fn make_zip(entries: &[(&str, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, size) in entries {
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let at = u32::try_from(bytes.len()).unwrap();
        bytes.extend(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(size.to_le_bytes());
        bytes.extend(length);
        bytes.extend([0, 0]);
        bytes.extend(name.bytes());
        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0");
        directory.extend(size.to_le_bytes());
        directory.extend(length);
        directory.extend([0; 12]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.bytes());
    }
    let start = u32::try_from(bytes.len()).unwrap();
    let length = u32::try_from(directory.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend(length.to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

pub(super) fn tar_header(name: &str, size: u64, kind: u8) -> [u8; 512] {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

/// Returns a tar archive with a folder and files full of zeros, one of them with a long name.
pub(super) fn make_tar() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(tar_header("src/", 0, b'5'));
    bytes.extend(tar_header("src/main.rs", 700, b'0'));
    bytes.extend([0; 1_024]);
    let long = format!("{}/deep.txt", "n".repeat(200));
    bytes.extend(tar_header("././@LongLink", long.len() as u64 + 1, b'L'));
    let mut record = long.into_bytes();
    record.resize(512, 0);
    bytes.extend(record);
    bytes.extend(tar_header("cut", 3, b'0'));
    bytes.extend([0; 512]);
    bytes.extend([0; 1_024]);
    bytes
}

#[tokio::test]
async fn an_archive_is_listed_and_never_unpacked() {
    let bench = Bench::new();
    bench.put(
        "a.zip",
        make_zip(&[
            ("docs/", 0),
            ("docs/a.txt", 1_234),
            ("bomb", u32::MAX - 1),
            ("../../etc/passwd\u{1b}[2J\u{202e}", 5),
        ]),
    );
    let shown = bench.read(json!({"file_path": "a.zip"})).await;
    assert_contains!(shown, "(ZIP archive, ", ", 4 entries, 4 GB unpacked)\n");
    assert_contains!(
        shown,
        "     1\tdocs/\n     2\tdocs/a.txt (1.2 KB)\n     3\tbomb (3.9 GB)\n"
    );
    assert_contains!(shown, "passwd\\u{1b}[2J\\u{202e} (5 bytes)\n");
    assert_contains!(shown, "lead out of the folder", "unzip -p");

    bench.put(
        "w.docx",
        make_zip(&[("[Content_Types].xml", 5), ("word/document.xml", 10)]),
    );
    let text = bench.read(json!({"file_path": "w.docx"})).await;
    assert_contains!(text, "(Word document (a ZIP archive), ");

    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&make_tar()).unwrap();
    bench.put("a.tar", make_tar());
    bench.put("a.tgz", packed.finish().unwrap());
    for (name, kind) in [
        ("a.tar", "(tar archive, "),
        ("a.tgz", "(tar archive packed with gzip, "),
    ] {
        let shown = bench.read(json!({"file_path": name})).await;
        assert_contains!(shown, kind, ", 3 entries, 703 bytes unpacked)\n");
        assert_contains!(
            shown,
            "     1\tsrc/\n     2\tsrc/main.rs (700 bytes)\n     3\tnnn"
        );
        assert_contains!(shown, "nnn/deep.txt (3 bytes)\n");
    }
}

#[tokio::test]
async fn a_long_archive_is_listed_by_pages() {
    let bench = Bench::new();
    let names: Vec<String> = (1..=1_200).map(|n| format!("f{n}")).collect();
    let entries: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    bench.put("a.zip", make_zip(&entries));
    let reply = bench.ok("Read", json!({"file_path": "a.zip"})).await;
    assert_contains!(
        reply_text(&reply),
        "Showing 1-500 of 1,200. Continue with offset=501."
    );
    assert!(reply.meta.truncated);
    let shown = bench
        .read(json!({"file_path": "a.zip", "offset": 1_001}))
        .await;
    assert_contains!(
        shown,
        "  1001\tf1001 (1 byte)\n",
        "Showing 1001-1200 of 1,200, to the end."
    );
}

#[tokio::test]
async fn packed_and_damaged_archives_are_bounded_answers() {
    let bench = Bench::new();
    // Less than a megabyte, which unpacks to seventy.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..70 {
        bomb.write_all(&zeros).unwrap();
    }
    bench.put("bomb.gz", bomb.finish().unwrap());
    let shown = bench.read(json!({"file_path": "bomb.gz"})).await;
    assert_contains!(shown, "more than 64 MB unpacked)", "gzip -dc");
    let mut log = GzEncoder::new(Vec::new(), Compression::fast());
    log.write_all(b"one line\n").unwrap();
    bench.put("log.gz", log.finish().unwrap());
    let text = bench.read(json!({"file_path": "log.gz"})).await;
    assert_contains!(text, ", 9 bytes unpacked)");

    let whole = make_zip(&[("a", 1), ("b", 2)]);
    bench.put("cut.zip", &whole[..whole.len() - 30]);
    let error = bench.refused("Read", json!({"file_path": "cut.zip"})).await;
    assert_error!(error, NotText: "cannot be listed");
    let mut bad = make_tar();
    bad[512] ^= 1;
    bench.put("bad.tar", bad);
    let error = bench.refused("Read", json!({"file_path": "bad.tar"})).await;
    assert_contains!(error.model_text(), "headers is damaged");
}

#[tokio::test]
async fn what_cannot_be_shown_is_named_with_its_first_bytes() {
    let bench = Bench::new();
    bench.put("base.db", b"SQLite format 3\0\x10\0");
    bench.put("blob", b"\0\x01\x02\x03");
    for (name, words) in [
        (
            "base.db",
            ["an SQLite database", "18 bytes", "SqliteQuery", "53 51 4c"],
        ),
        ("blob", ["NUL bytes", "4 bytes", "xxd", "00 01 02 03"]),
    ] {
        let error = bench.refused("Read", json!({"file_path": name})).await;
        assert_error!(error, NotText);
        assert!(
            words.iter().all(|word| error.model_text().contains(word)),
            "{error}"
        );
    }
}
