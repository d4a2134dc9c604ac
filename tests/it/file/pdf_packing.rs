//! PDF documents whose streams are packed more than once: read where what they unpack to is known to be little.

use punie_runner::tool::ErrorCode;
use serde_json::json;

use super::Bench;
use super::read_documents::{PLAIN, packed, pdf, pdf_of, stream};

fn base85(bytes: &[u8]) -> Vec<u8> {
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

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).chain([b'>']).collect()
}

/// Runs of one byte each, as RunLengthDecode has bytes as they are.
fn runs(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(128)
        .flat_map(|part| [&[u8::try_from(part.len() - 1).unwrap()], part].concat())
        .chain([128])
        .collect()
}

/// One byte over and over, as LZW has it: each code is the one before and a byte more. Seven megabytes a round.
fn lzw(rounds: usize) -> Vec<u8> {
    let (mut out, mut held, mut bits) = (Vec::new(), 0_u64, 0);
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
async fn what_is_packed_behind_another_filter_is_bounded_too() {
    let bench = Bench::new();
    let bomb = packed(&vec![b' '; 40 << 20]);
    let headless = &bomb[2..];
    for (filters, data) in [
        ("/Filter [/FlateDecode /FlateDecode]", packed(&bomb)),
        ("/Filter [/Fl#61teDecode%\n/Fl]", packed(&bomb)),
        ("/Filter [/ASCIIHexDecode /FlateDecode]", hex(&bomb)),
        ("/Filter [/ASCII85Decode /FlateDecode]", base85(&bomb)),
        ("/F [/A85 /Fl]", base85(&bomb)),
        ("/Filter [/RunLengthDecode /FlateDecode]", runs(&bomb)),
        ("/Filter /FlateDecode", headless.to_vec()),
        ("/Filter /LZWDecode", lzw(5)),
        ("/Filter [/ASCII85Decode /LZWDecode]", base85(&lzw(5))),
    ] {
        bench.put("bomb.pdf", pdf(&["BT ET"], PLAIN, &[stream(filters, &data)]));
        let error = bench.refused("Read", json!({ "file_path": "bomb.pdf" })).await;
        assert_eq!(error.code(), ErrorCode::TooLarge, "{filters}: {error}");
        assert!(
            error.text().contains("is more than 32 MB") && error.text().contains("qpdf"),
            "{filters}: {error}"
        );
    }
}

#[tokio::test]
async fn filters_that_cannot_be_followed_are_refused_and_say_why() {
    let bench = Bench::new();
    for (filters, why) in [
        ("/Filter 7 0 R", "by references"),
        ("/Filter [/FlateDecode 7 0 R]", "by references"),
        ("/Filter [/LZWDecode /FlateDecode]", "behind an LZWDecode filter"),
    ] {
        bench.put("odd.pdf", pdf(&["BT ET"], PLAIN, &[stream(filters, b"x"), b"/FlateDecode".to_vec()]));
        let error = bench.refused("Read", json!({ "file_path": "odd.pdf" })).await;
        assert_eq!(error.code(), ErrorCode::TooLarge, "{filters}: {error}");
        assert!(error.text().contains(why) && error.text().contains("qpdf"), "{filters}: {error}");
    }
}

#[tokio::test]
async fn a_document_packed_twice_as_programs_do_it_is_read() {
    let bench = Bench::new();
    let text = packed(b"BT /F1 12 Tf 10 10 Td (Good morning) Tj ET");
    for (filters, data) in [
        ("/Filter [ /ASCII85Decode /FlateDecode ]", base85(&text)),
        ("/Filter [/ASCIIHexDecode /FlateDecode]", hex(&text)),
        ("/Filter [/FlateDecode /FlateDecode]", packed(&text)),
        ("/Filter [/RunLengthDecode /FlateDecode]", runs(&text)),
    ] {
        let file = stream("/Type /EmbeddedFile", b"attached");
        let more = [file, b"<< /Type /Filespec /F (a.txt) /EF << /F 6 0 R >> >>".to_vec()];
        bench.put("d.pdf", pdf_of(&[stream(filters, &data)], PLAIN, &more));
        let shown = bench.read(json!({ "file_path": "d.pdf" })).await;
        assert!(shown.contains("Good morning"), "{filters}: {shown}");
    }
}
