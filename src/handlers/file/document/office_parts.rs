//! The parts of an office document: the XML files in its ZIP archive, each unpacked up to a limit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Take};

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;
use zip::read::ZipFile;

use punie_text::output::number_format::format_size;

/// The most bytes to which one part is unpacked.
const MAX_PART_BYTES: u64 = 64 << 20;

/// The archive of a document.
pub(super) type OfficeArchive = ZipArchive<BufReader<File>>;

/// One part, read sequentially.
pub(super) struct XmlPart<'a> {
    reader: Reader<BufReader<Take<ZipFile<'a, BufReader<File>>>>>,
    buffer: Vec<u8>,
    /// The number of open elements.
    depth: usize,
}

/// One step through a part. Empty elements start and end.
pub(super) enum XmlStep<'b> {
    Start(BytesStart<'b>),
    /// The local name of an element that ends.
    End(String),
    Text(Cow<'b, str>),
    /// A comment or a processing instruction.
    Ignored,
    AtEnd,
}

/// A relation of one part to another, by its id.
pub(super) struct PartRelation {
    pub(super) target: String,
    /// The last segment of its type, such as `slide`.
    pub(super) kind: String,
}

/// Opens a part by its name in the archive.
pub(super) fn open_part<'a>(
    archive: &'a mut OfficeArchive,
    name: &str,
) -> Result<XmlPart<'a>, String> {
    let unpacked = archive
        .by_name(name)
        .map_err(|cause| format!("its part {name} cannot be opened: {cause}"))?;
    let mut reader = Reader::from_reader(BufReader::new(unpacked.take(MAX_PART_BYTES)));
    reader.config_mut().expand_empty_elements = true;
    Ok(XmlPart {
        reader,
        buffer: Vec::new(),
        depth: 0,
    })
}

impl XmlPart<'_> {
    /// Reads the next step.
    ///
    /// # Errors
    /// Malformed XML, damaged data, or a part that ends early, as the end of a sentence.
    pub(super) fn next_step(&mut self) -> Result<XmlStep<'_>, String> {
        self.buffer.clear();
        let event = match self.reader.read_event_into(&mut self.buffer) {
            Ok(Event::Eof) if self.depth > 0 => Err("it is cut off".to_owned()),
            event => event.map_err(|cause| format!("its XML is damaged: {cause}")),
        };
        let is_at_limit = || self.reader.get_ref().get_ref().limit() == 0;
        let event = event.map_err(|fault| {
            if is_at_limit() {
                format!("a part of it is over {}", format_size(MAX_PART_BYTES))
            } else {
                fault
            }
        })?;
        Ok(match event {
            Event::Start(start) => {
                self.depth += 1;
                XmlStep::Start(start)
            }
            Event::End(end) => {
                self.depth = self.depth.saturating_sub(1);
                XmlStep::End(end.local_name().as_ref().to_owned())
            }
            Event::Text(text) => XmlStep::Text(text.into_inner()),
            Event::CData(text) => XmlStep::Text(text.into_inner()),
            Event::GeneralRef(reference) => XmlStep::Text(resolve_reference(&reference).into()),
            Event::Eof => XmlStep::AtEnd,
            _ => XmlStep::Ignored,
        })
    }
}

/// Resolves a character reference or a predefined entity. No other entity is expanded.
fn resolve_reference(reference: &BytesRef<'_>) -> String {
    let name = reference.xml10_content();
    match reference.resolve_char_ref() {
        Ok(Some(letter)) => letter.to_string(),
        _ => resolve_predefined_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned),
    }
}

/// The value of an attribute, found by its local name.
pub(super) fn attribute_value(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = start.attributes().flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found
        .normalized_value(XmlVersion::Implicit1_0)
        .ok()
        .map(Cow::into_owned)
}

/// Reads the relations of a part; empty if it has none.
pub(super) fn read_relations(
    archive: &mut OfficeArchive,
    part: &str,
) -> Result<HashMap<String, PartRelation>, String> {
    let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
    let name = format!("{folder}/_rels/{file}.rels");
    let mut relations = HashMap::new();
    if archive.index_for_name(&name).is_none() {
        return Ok(relations);
    }
    let mut part = open_part(archive, &name)?;
    loop {
        match part.next_step()? {
            XmlStep::Start(start) if start.local_name().as_ref() == "Relationship" => {
                let value = |name| attribute_value(&start, name).unwrap_or_default();
                let kind = value("Type");
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                let target = resolve_target(folder, &value("Target"));
                relations.insert(value("Id"), PartRelation { target, kind });
            }
            XmlStep::AtEnd => return Ok(relations),
            _ => {}
        }
    }
}

/// Resolves a target against the folder of the part that names it.
fn resolve_target(folder: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut path: Vec<&str> = folder.split('/').collect();
    for step in target.split('/') {
        match step {
            ".." => drop(path.pop()),
            "." => {}
            name => path.push(name),
        }
    }
    path.join("/")
}
