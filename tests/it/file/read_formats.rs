//! Read: documents that other programs made, as described in `fixtures/documents/make_documents.py`.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::Bench;
use crate::harness::tools::reply_text;

/// Creates a workspace with this document in it.
fn bench_with(name: &str) -> Bench {
    let bench = Bench::new();
    let made = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fixtures/documents")
        .join(name);
    bench.put(name, fs::read(made).unwrap());
    bench
}

async fn read_fixture(name: &str) -> String {
    bench_with(name).read(json!({ "file_path": name })).await
}

// PDF documents.

#[tokio::test]
async fn the_labels_of_a_figure_are_in_its_text() {
    let shown = read_fixture("figure.pdf").await;
    for label in [
        "0.0 0.2 0.4 0.6 0.8 1.0",
        "100",
        "Time in seconds",
        "Speed over ground",
        "First attempt",
    ] {
        assert!(shown.lines().any(|line| line == label), "{label}: {shown}");
    }
    assert!(!shown.contains('\u{FFFD}'), "{shown}");
}

#[tokio::test]
async fn text_from_right_to_left_stands_in_the_order_in_which_it_is_read() {
    let shown = read_fixture("right_to_left.pdf").await;
    for line in [
        "שלום עולם",
        "גרסה 12.5 (שנייה) של Read היום",
        "The title שלום עולם is Hebrew",
        "السلام عليكم",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
    }
}

// Office documents.

#[tokio::test]
async fn a_word_document_is_read_as_paragraphs_and_rows() {
    let bench = bench_with("report.docx");
    let shown = bench.read(json!({"file_path": "report.docx"})).await;
    assert_contains!(shown, "(Word document, 35 KB, ");
    assert_contains!(
        shown,
        "     1\tQuarterly report\n",
        "     2\tSales rose by 4 % & costs fell.\n",
        "\tRegion\tUnits\tPrice\n",
        "\tNorth\t12\t3.50\n",
        "\tBefore the tab\tafter it\n",
        "\ton a new line\n"
    );
    let shown = bench
        .read(json!({"file_path": "report.docx", "offset": 2, "limit": 1}))
        .await;
    assert_contains!(shown, "     2\tSales rose");
    assert_lacks!(shown, "Quarterly report");
    assert_contains!(shown, "Continue with offset=3.");
}

#[tokio::test]
async fn a_workbook_is_read_by_sheet() {
    let shown = read_fixture("book.xlsx").await;
    assert_contains!(shown, "(Excel workbook, ", ", 2 sheets)\n");
    assert_contains!(
        shown,
        "\t[sheet 1: Sales]\n",
        "\tRegion\tUnits\tPrice\n",
        "\tNorth & South\t12\t3.5\n",
        "\t\t\t\t\tTRUE\n",
        "\t[sheet 2: Notes]\n",
        "\t\tSecond sheet\n",
        "\tA\tB\tC\tD\tE\n"
    );
}

#[tokio::test]
async fn slides_are_read_one_after_the_other() {
    let shown = read_fixture("slides.pptx").await;
    assert_contains!(shown, "(PowerPoint presentation, ", ", 2 slides)\n");
    let parts = [
        "\t[slide 1]\n",
        "\tWelcome\n",
        "\tFirst point\n",
        "\tSecond point\n",
        "\t[slide 2]\n",
        "\tNumbers\n",
        "\tAll is well\n",
        "\t[notes]\n",
        "\tSay this slowly\n",
    ];
    let mut from = 0;
    for part in parts {
        let at = shown[from..].find(part);
        from += at.unwrap_or_else(|| panic!("{part:?}: {shown}"));
    }
}

#[tokio::test]
async fn open_documents_are_read_as_text_and_rows() {
    let shown = read_fixture("letter.odt").await;
    assert_contains!(
        shown,
        "(OpenDocument text, ",
        "     1\tDear reader\n     2\tOne paragraph.\n"
    );
    let shown = read_fixture("costs.ods").await;
    assert_contains!(
        shown,
        "(OpenDocument spreadsheet, ",
        "\t[sheet 1: Costs]\n     2\tItem\tCost\n     3\tPaper\t7\n"
    );
}

/// Returns a Word document with this XML as its text.
fn word_document(body: &[u8]) -> Vec<u8> {
    office_archive(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("word/document.xml", body),
    ])
}

/// Returns an archive of these parts.
fn office_archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn a_document_that_is_damaged_or_unpacks_without_end_is_a_bounded_answer() {
    let bench = Bench::new();
    // The XML is not well-formed: the answer shows the text before the fault, and names the fault.
    bench.put(
        "broken.docx",
        word_document(b"<w:document><w:p><w:t>First words</w:t></w:p><w:p></w:oops>"),
    );
    let shown = bench.read(json!({"file_path": "broken.docx"})).await;
    assert_contains!(shown, "\tFirst words\n", "its XML is damaged");

    let mut bomb = b"<w:document>".to_vec();
    bomb.extend(b"<w:p><w:t>bomb</w:t></w:p>".repeat(1 << 20));
    let packed = word_document(&bomb);
    drop(bomb);
    assert!(packed.len() < 1 << 20);
    bench.put("bomb.docx", packed);
    let reply = bench.ok("Read", json!({"file_path": "bomb.docx"})).await;
    assert!(
        reply_text(&reply).contains("first 4 MB of its text") && reply.meta.truncated,
        "{}",
        reply_text(&reply)
    );

    let args = json!({"file_path": "bomb.docx", "max_chars": 1_000});
    let reply = bench.ok("Read", args).await;
    assert!(reply_text(&reply).chars().count() <= 1_000);
}

#[tokio::test]
async fn a_part_that_is_not_read_to_its_end_is_said() {
    let bench = Bench::new();
    let start = b"<w:document><w:p><w:t>First words</w:t></w:p>".as_slice();
    let spaces = vec![b' '; 1 << 20];
    let long = [start, &[spaces.as_slice(), b"<w:x/>"].concat().repeat(66)].concat();
    for (name, body, why) in [
        ("cut.docx", start, "it is cut off"),
        ("long.docx", &long, "over 64 MB"),
    ] {
        bench.put(name, word_document(body));
        let reply = bench.ok("Read", json!({ "file_path": name })).await;
        let shown = reply_text(&reply);
        assert!(
            shown.contains("\tFirst words\n") && shown.contains(why) && reply.meta.truncated,
            "{shown}"
        );
    }

    // Without the text that the cells share, the answer shows no cell.
    let book = office_archive(&[
        ("xl/workbook.xml", b"<workbook><sheets><sheet name=\"A\" r:id=\"r1\"/></sheets></workbook>"),
        (
            "xl/_rels/workbook.xml.rels",
            b"<Relationships><Relationship Id=\"r1\" Type=\"x/worksheet\" Target=\"sheet1.xml\"/></Relationships>",
        ),
        ("xl/sharedStrings.xml", b"<sst><si><t>North</t></si>"),
        (
            "xl/sheet1.xml",
            b"<worksheet><row><c t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c><c><v>7</v></c></row></worksheet>",
        ),
    ]);
    bench.put("cut.xlsx", book);
    let shown = bench.read(json!({"file_path": "cut.xlsx"})).await;
    assert_contains!(shown, "Its text could not be read: ", "cut off");
    assert_lacks!(shown, "North");
}

#[tokio::test]
async fn a_repeated_row_is_repeated() {
    let bench = Bench::new();
    let row = |count: u32, text: &str| {
        format!(
            "<t:table-row t:number-rows-repeated=\"{count}\"><t:table-cell><p>{text}</p></t:table-cell></t:table-row>"
        )
    };
    let content = format!(
        "<d><t:table t:name=\"A\">{}{}{}</t:table></d>",
        row(3, "same"),
        row(1_000_000, ""),
        row(5_000, "more"),
    );
    let sheet = b"application/vnd.oasis.opendocument.spreadsheet";
    bench.put(
        "a.ods",
        office_archive(&[("mimetype", sheet), ("content.xml", content.as_bytes())]),
    );
    let shown = bench.read(json!({"file_path": "a.ods"})).await;
    assert_contains!(
        shown,
        "     2\tsame\n     3\tsame\n     4\tsame\n     5\tmore\n"
    );
    assert_eq!(shown.matches("\tmore\n").count(), 1_000);
    assert_contains!(shown, "\t[the row above stands here 4,000 more times]\n");
}

// Archives.

#[tokio::test]
async fn an_archive_is_listed_however_it_is_packed() {
    for (name, kind) in [
        ("files.tar.xz", "(tar archive packed with xz, "),
        ("files.tar.bz2", "(tar archive packed with bzip2, "),
        ("files.tar.zst", "(tar archive packed with zstd, "),
    ] {
        let shown = read_fixture(name).await;
        assert_contains!(shown, kind, ", 2 entries, 703 bytes unpacked)\n");
        assert_contains!(
            shown,
            "     1\tsrc/main.rs (700 bytes)\n     2\tnotes/today.txt (3 bytes)\n"
        );
        assert_contains!(shown, "`tar ", "NAME`");
        let bench = bench_with(name);
        let whole = fs::read(bench.root.join(name)).unwrap();
        bench.put(name, &whole[..20]);
        let error = bench.refused("Read", json!({ "file_path": name })).await;
        assert_error!(error, NotText);
    }
}

#[tokio::test]
async fn a_sheet_shows_dates_and_percentages_as_they_stand_there() {
    let bench = Bench::new();
    let styles = b"<styleSheet><numFmts><numFmt numFmtId=\"164\" formatCode=\"yyyy\\-mm\\-dd\\ hh:mm:ss\"/></numFmts>
        <cellStyleXfs><xf numFmtId=\"9\"/></cellStyleXfs>
        <cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"164\"/><xf numFmtId=\"10\"/><xf numFmtId=\"46\"/></cellXfs></styleSheet>";
    let sheet = b"<worksheet><row r=\"1\"><c s=\"0\"><v>46024</v></c><c s=\"1\"><v>46024</v></c><c s=\"2\"><v>46024.12783564815</v></c>
        <c s=\"3\"><v>0.25</v></c><c s=\"4\"><v>1.5</v></c><c s=\"1\" t=\"str\"><v>46024</v></c></row></worksheet>";
    let parts = |workbook: &'static [u8]| {
        office_archive(&[
            ("xl/workbook.xml", workbook),
            (
                "xl/_rels/workbook.xml.rels",
                b"<Relationships><Relationship Id=\"r1\" Type=\"x/worksheet\" Target=\"sheet1.xml\"/></Relationships>",
            ),
            ("xl/styles.xml", styles),
            ("xl/sheet1.xml", sheet),
        ])
    };
    bench.put(
        "a.xlsx",
        parts(b"<workbook><sheets><sheet name=\"A\" state=\"hidden\" r:id=\"r1\"/></sheets></workbook>"),
    );
    let shown = bench.read(json!({"file_path": "a.xlsx"})).await;
    assert_contains!(
        shown,
        "\t[sheet 1: A, hidden]\n",
        "\tA\tB\tC\tD\tE\tF\n",
        "\t46024\t2026-01-02\t2026-01-02 03:04:05\t25.00%\t36:00:00\t46024\n"
    );
    bench.put(
        "mac.xlsx",
        parts(b"<workbook><workbookPr date1904=\"1\"/><sheets><sheet name=\"A\" r:id=\"r1\"/></sheets></workbook>"),
    );
    let shown = bench.read(json!({"file_path": "mac.xlsx"})).await;
    assert_contains!(shown, "\t2030-01-03\t");
}

#[tokio::test]
async fn a_document_shows_its_headers_once_and_no_empty_notes() {
    let bench = Bench::new();
    let paragraph = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let part = |text: &str| format!("<w:x>{}</w:x>", paragraph(text)).into_bytes();
    let body = part("Body");
    let head = part("Company");
    let foot = part("Page");
    let empty = part("");
    bench.put(
        "a.docx",
        office_archive(&[
            ("word/document.xml", &body),
            ("word/header1.xml", &head),
            ("word/header2.xml", &head),
            ("word/footer1.xml", &foot),
            ("word/footnotes.xml", &empty),
            ("word/endnotes.xml", &empty),
        ]),
    );
    let shown = bench.read(json!({"file_path": "a.docx"})).await;
    let lines: Vec<&str> = shown
        .lines()
        .filter_map(|line| Some(line.split_once('\t')?.1))
        .collect();
    assert_eq!(
        lines,
        ["Body", "", "[header]", "Company", "", "[footer]", "Page"]
    );
    assert_contains!(shown, "This is its text");
    let rest = bench
        .read(json!({"file_path": "a.docx", "offset": 4}))
        .await;
    assert_lacks!(rest, "This is its text");
}
