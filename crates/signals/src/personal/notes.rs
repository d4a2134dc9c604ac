//! Notes of macOS: their number in each folder.

use super::{collect_lines, format_count};
use crate::foreign_rows::{for_each_row, has_columns, read_count, read_text, require_columns};
use crate::plain_text::clean_title;
use crate::{Budget, SignalPlaces, SourceReport, System};

const MAX_FOLDERS: usize = 30;
/// The tables that join notes and folders in older versions, each with its columns of notes and of folders.
const FOLDER_JOINS: [(&str, &str, &str); 2] = [
    ("Z_12NOTES", "Z_9NOTES", "Z_12FOLDERS"),
    ("Z_11NOTES", "Z_8NOTES", "Z_11FOLDERS"),
];

/// Counts notes, those in the trash not.
pub(super) fn collect(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let path = "Library/Group Containers/group.com.apple.notes/NoteStore.sqlite";
    let paths = match places.system {
        System::MacOs => vec![places.user_home.join(path)],
        System::Linux | System::Windows => Vec::new(),
    };
    collect_lines(
        "notes",
        "Notes",
        &paths,
        (places, budget),
        |database, lines| {
            let table = "ZICCLOUDSYNCINGOBJECT";
            require_columns(
                database,
                table,
                &["Z_PK", "ZTITLE2", "ZNOTEDATA", "ZMARKEDFORDELETION"],
            )?;
            // Before macOS 10.13, a note could be in several folders.
            let joins = FOLDER_JOINS
                .iter()
                .find(|(join, note, folder)| has_columns(database, join, &[note, folder]));
            let in_folders = if let Some((join, note, folder)) = joins {
                format!(
                    "LEFT JOIN {join} j ON j.{note} = n.Z_PK LEFT JOIN {table} f ON f.Z_PK = j.{folder}"
                )
            } else {
                require_columns(database, table, &["ZFOLDER"])?;
                format!("LEFT JOIN {table} f ON f.Z_PK = n.ZFOLDER")
            };
            // Type 1 is the trash. Before it had a type, notes in it were marked for deletion.
            let in_trash = if has_columns(database, table, &["ZFOLDERTYPE"]) {
                "COALESCE(f.ZFOLDERTYPE, 0) = 1"
            } else {
                "0"
            };
            let sql = format!(
            "SELECT substr(f.ZTITLE2, 1, 2000), COUNT(*)
            FROM {table} n {in_folders}
            WHERE n.ZNOTEDATA IS NOT NULL AND COALESCE(n.ZMARKEDFORDELETION, 0) = 0 AND NOT {in_trash}
            GROUP BY f.Z_PK ORDER BY COUNT(*) DESC, f.Z_PK LIMIT {MAX_FOLDERS}"
        );
            for_each_row(database, budget, &sql, [], |row| {
                let folder = clean_title(&read_text(row, 0));
                let folder = if folder.is_empty() {
                    "In no folder"
                } else {
                    &folder
                };
                lines.push(format!(
                    "- {folder}: {}",
                    format_count(read_count(row, 1), "note")
                ));
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_places::{make_database, only_text, places};
    use super::*;
    use crate::test_places::budget;

    const PATH: &str = "Library/Group Containers/group.com.apple.notes/NoteStore.sqlite";
    // One table has notes (ZTITLE1, ZNOTEDATA) and folders (ZTITLE2). The type of folders is not in all versions.
    const COLUMNS: &str =
        "Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, ZMARKEDFORDELETION INTEGER, ZFOLDER INTEGER,
        ZNOTEDATA INTEGER, ZTITLE1 VARCHAR, ZTITLE2 VARCHAR, ZSNIPPET VARCHAR";
    const ROWS: &str = "
        INSERT INTO ZICCLOUDSYNCINGOBJECT (Z_PK, Z_ENT, ZTITLE2) VALUES (1, 14, 'Notes'), (2, 14, 'Recipes'), (3, 14, 'Trash');
        INSERT INTO ZICCLOUDSYNCINGOBJECT (Z_PK, Z_ENT, ZFOLDER, ZNOTEDATA, ZTITLE1, ZMARKEDFORDELETION) VALUES
            (10, 11, 1, 1, 'a secret', 0), (11, 11, 2, 2, 'b', 0), (12, 11, 2, 3, 'c', NULL), (13, 11, 2, 4, 'gone', 1),
            (14, 11, 3, 5, 'thrown away', 0), (15, 11, NULL, 6, 'loose', 0);";

    #[test]
    fn w82_notes_are_counted_in_both_schemas() {
        let schemas = [
            (
                format!("{COLUMNS}, ZFOLDERTYPE INTEGER"),
                "UPDATE ZICCLOUDSYNCINGOBJECT SET ZFOLDERTYPE = 1 WHERE Z_PK = 3",
            ),
            (
                COLUMNS.to_owned(),
                "UPDATE ZICCLOUDSYNCINGOBJECT SET ZMARKEDFORDELETION = 1 WHERE ZFOLDER = 3",
            ),
        ];
        for (columns, trash) in schemas {
            let home = tempfile::tempdir().expect("a folder");
            let script = format!("CREATE TABLE ZICCLOUDSYNCINGOBJECT ({columns}); {ROWS} {trash}");
            make_database(home.path(), PATH, &script);
            let report = collect(&places(home.path(), System::MacOs), &budget());
            assert_eq!(
                only_text(&report),
                "- Recipes: 2 notes\n- In no folder: 1 note\n- Notes: 1 note"
            );
        }
    }
}
