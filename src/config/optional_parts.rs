//! The parts that a build of this program may leave out: each is a Cargo feature.

use std::sync::LazyLock;

/// A part that may be left out.
struct OptionalPart {
    /// The Cargo feature.
    name: &'static str,
    is_built: bool,
    /// The tables of the configuration that nothing else reads.
    tables: &'static [&'static str],
}

macro_rules! parts {
    ($($name:literal: $tables:expr,)+) => {
        &[$(OptionalPart {
            name: $name,
            is_built: cfg!(feature = $name),
            tables: &$tables,
        }),+]
    };
}

const PARTS: &[OptionalPart] = parts! {
    "bridges": [],
    "documents": [],
    "packages": ["store", "self_mod"],
    "people": [],
    "signals": ["signals"],
    "updates": ["update"],
    "websocket": ["backend.websocket"],
};

/// The version, with the parts that were left out as its build metadata (semver.org, item 10):
/// `0.1.0+without.documents.signals`, and `0.1.0+small` without all of them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let left_out = PARTS.iter().filter(|part| !part.is_built);
    let names: Vec<&str> = left_out.map(|part| part.name).collect();
    let version = env!("CARGO_PKG_VERSION");
    if names.is_empty() {
        return version.to_owned();
    }
    if names.len() == PARTS.len() {
        return format!("{version}+small");
    }
    format!("{version}+without.{}", names.join("."))
});

/// Returns the version of this build.
pub fn version() -> &'static str {
    &VERSION
}

/// Returns why a table of the configuration has no use in this build, if it has none.
pub fn table_refusal(table: &str) -> Option<String> {
    let part = PARTS.iter().find(|part| part.tables.contains(&table))?;
    (!part.is_built).then(|| left_out_text(part.name))
}

/// Says that a part was left out.
pub fn left_out_text(part: &str) -> String {
    format!("this program was built without the part {part:?}")
}
