//! PDF documents whose streams are compressed, some more than once: a process with bounded memory reads them.

use serde_json::json;

use super::Bench;
use super::read_documents::{PLAIN, deflate_bytes, make_pdf, pdf_of, pdf_stream};

fn encode_base85(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for group in bytes.chunks(4) {
        let mut whole = [0; 4];
        whole[..group.len()].copy_from_slice(group);
        let number = u32::from_be_bytes(whole);
        let digits = [52_200_625, 614_125, 7_225, 85, 1]
            .map(|power| b'!' + u8::try_from(number / power % 85).unwrap());
        out.extend(&digits[..=group.len()]);
    }
    out.extend(b"~>");
    out
}

fn encode_hex(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| format!("{byte:02x}").into_bytes())
        .chain([b'>'])
        .collect()
}

/// Encodes bytes as literal runs for RunLengthDecode.
fn encode_runs(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(128)
        .flat_map(|part| [&[u8::try_from(part.len() - 1).unwrap()], part].concat())
        .chain([128])
        .collect()
}

/// Encodes one byte, repeated, for LZWDecode: each code is the previous one and a byte more. One round unpacks to seven
/// megabytes.
fn encode_lzw(rounds: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut held = 0_u64;
    let mut bits = 0;
    let mut put = |code: u64, width: u32| {
        held = held << width | code;
        bits += width;
        while bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xFF).unwrap());
        }
        held &= (1 << bits) - 1;
    };
    put(256, 9);
    for _ in 0..rounds {
        put(u64::from(b' '), 9);
        for code in 258..4_095 {
            put(code, (code + 1).ilog2().clamp(8, 11) + 1);
        }
        put(256, 12);
    }
    out
}

#[tokio::test]
async fn a_page_that_unpacks_to_more_than_the_memory_is_refused() {
    let bench = Bench::new();
    // Unpacks to seven hundred megabytes.
    for (filters, data) in [
        ("/Filter /LZWDecode", encode_lzw(100)),
        (
            "/Filter [/ASCII85Decode /LZWDecode]",
            encode_base85(&encode_lzw(100)),
        ),
    ] {
        bench.put(
            "bomb.pdf",
            pdf_of(&[pdf_stream(filters, &data)], PLAIN, &[]),
        );
        let error = bench
            .refused("Read", json!({ "file_path": "bomb.pdf" }))
            .await;
        assert_error!(error, TooLarge: "512 MB of memory", "qpdf"; "{filters}");
    }
    bench.put(
        "d.pdf",
        make_pdf(&["BT /F1 12 Tf 10 10 Td (Good morning) Tj ET"], PLAIN, &[]),
    );
    let text = bench.read(json!({ "file_path": "d.pdf" })).await;
    assert_contains!(text, "Good morning");
}

#[tokio::test]
async fn what_is_packed_in_a_document_and_is_no_text_keeps_nobody_from_reading_it() {
    let bench = Bench::new();
    let bomb = deflate_bytes(&vec![b' '; 40 << 20]);
    for (filters, data) in [
        ("/Filter [/FlateDecode /FlateDecode]", deflate_bytes(&bomb)),
        ("/Filter [/ASCIIHexDecode /FlateDecode]", encode_hex(&bomb)),
        ("/Filter 7 0 R", b"x".to_vec()),
        ("/Filter [/LZWDecode /FlateDecode]", b"x".to_vec()),
    ] {
        let more = [pdf_stream(filters, &data), b"/FlateDecode".to_vec()];
        bench.put(
            "odd.pdf",
            make_pdf(
                &["BT /F1 12 Tf 10 10 Td (Good morning) Tj ET"],
                PLAIN,
                &more,
            ),
        );
        let shown = bench.read(json!({ "file_path": "odd.pdf" })).await;
        assert_contains!(shown, "Good morning"; "{filters}");
    }
}

#[tokio::test]
async fn a_document_packed_twice_as_programs_do_it_is_read() {
    let bench = Bench::new();
    let text = deflate_bytes(b"BT /F1 12 Tf 10 10 Td (Good morning) Tj ET");
    for (filters, data) in cases! {
        ("/Filter [ /ASCII85Decode /FlateDecode ]", encode_base85(&text)),
        ("/Filter [/ASCIIHexDecode /FlateDecode]", encode_hex(&text)),
        ("/Filter [/FlateDecode /FlateDecode]", deflate_bytes(&text)),
        ("/Filter [/RunLengthDecode /FlateDecode]", encode_runs(&text)),
    } {
        let file = pdf_stream("/Type /EmbeddedFile", b"attached");
        let more = [
            file,
            b"<< /Type /Filespec /F (a.txt) /EF << /F 6 0 R >> >>".to_vec(),
        ];
        bench.put("d.pdf", pdf_of(&[pdf_stream(filters, &data)], PLAIN, &more));
        let shown = bench.read(json!({ "file_path": "d.pdf" })).await;
        assert_contains!(shown, "Good morning"; "{filters}");
    }
}

#[tokio::test]
async fn the_text_of_one_line_is_bounded() {
    let bench = Bench::new();
    let run = format!("({}) Tj ", "a".repeat(1_000));
    let content = format!("BT /F1 12 Tf 10 10 Td {}ET", run.repeat(3_000));
    bench.put("line.pdf", make_pdf(&[&content], PLAIN, &[]));
    let shown = bench.read(json!({"file_path": "line.pdf"})).await;
    assert_contains!(shown, "Page 1 has 2,09", " characters of text");
}
