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
    use crate::test_places::budget;

    #[test]
    fn notes_are_counted_in_both_schemas() {
        let path = "AppData/Local/Packages/Microsoft.MicrosoftStickyNotes_8wekyb3d8bbwe/LocalState/plum.sqlite";
        let schemas = [
            // Version 3 and later: times are ticks of a ten millionth of a second.
            (
                "Text varchar, Id varchar PRIMARY KEY NOT NULL, CreatedAt bigint, DeletedAt bigint, UpdatedAt bigint",
                2,
            ),
            (
                "Text varchar, Id varchar PRIMARY KEY NOT NULL, CreatedAt bigint, UpdatedAt bigint",
                3,
            ),
        ];
        for (columns, count) in schemas {
            let home = tempfile::tempdir().expect("a folder");
            let mut script = format!("CREATE TABLE Note ({columns}); INSERT INTO Note (Text, Id) VALUES ('a secret', 'a'),
                ('b', 'b'), ('c', 'c');");
            if count == 2 {
                script += "UPDATE Note SET DeletedAt = 638000000000000000 WHERE Id = 'c';";
            }
            make_database(home.path(), path, &script);
            let report = collect(&places(home.path(), System::Windows), &budget());
            assert_eq!(only_text(&report), format!("- {count} notes"));
        }
    }
}
