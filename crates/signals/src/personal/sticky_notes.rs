//! Sticky Notes of Windows: their number.

use super::{collect_lines, format_count};
use crate::foreign_rows::{for_each_row, has_columns, read_count, require_columns};
use crate::{Budget, SignalPlaces, SourceReport, System};

/// Counts the notes that were not thrown away.
pub(super) fn collect(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let package = "Packages/Microsoft.MicrosoftStickyNotes_8wekyb3d8bbwe/LocalState/plum.sqlite";
    let base = places
        .local_app_data
        .as_ref()
        .filter(|_| places.system == System::Windows);
    let paths: Vec<_> = base.map(|base| base.join(package)).into_iter().collect();
    collect_lines(
        "sticky_notes",
        "Sticky Notes",
        &paths,
        (places, budget),
        |database, lines| {
            require_columns(database, "Note", &["Id"])?;
            // Since notes are synchronised, a note that was thrown away stays for a time.
            let sql = if has_columns(database, "Note", &["DeletedAt"]) {
                "SELECT COUNT(*) FROM Note WHERE DeletedAt IS NULL"
            } else {
                "SELECT COUNT(*) FROM Note"
            };
            for_each_row(database, budget, sql, [], |row| {
                lines.push(format!("- {}", format_count(read_count(row, 0), "note")));
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_places::{make_database, only_text, places};
    use super::*;
    use crate::test_places::{budget, schema};

    #[test]
    fn notes_are_counted_in_each_schema() {
        let path = "AppData/Local/Packages/Microsoft.MicrosoftStickyNotes_8wekyb3d8bbwe/LocalState/plum.sqlite";
        for (schema, more, count) in [
            (schema!("sticky_notes_3"), "", 2),
            (schema!("sticky_notes_4"), "", 2),
            // Before notes were synchronised.
            (
                schema!("sticky_notes_3"),
                "ALTER TABLE Note DROP COLUMN DeletedAt",
                3,
            ),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let rows = "INSERT INTO Note (Text, Id, DeletedAt) VALUES
                ('a secret', 'a', NULL), ('b', 'b', NULL), ('c', 'c', 638000000000000000);";
            make_database(home.path(), path, &format!("{schema}{rows}{more}"));
            let report = collect(&places(home.path(), System::Windows), &budget());
            assert_eq!(only_text(&report), format!("- {count} notes"), "{schema}");
        }
    }
}
