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
                &[
                    "Z_PK",
                    "ZTITLE2",
                    "ZFOLDERTYPE",
                    "ZNOTEDATA",
                    "ZMARKEDFORDELETION",
                ],
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
            // A folder of type 1 is the trash.
            let sql = format!(
            "SELECT substr(f.ZTITLE2, 1, 2000), COUNT(*)
            FROM {table} n {in_folders}
            WHERE n.ZNOTEDATA IS NOT NULL AND COALESCE(n.ZMARKEDFORDELETION, 0) = 0 AND COALESCE(f.ZFOLDERTYPE, 0) != 1
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
    use crate::test_places::{budget, schema};

    const PATH: &str = "Library/Group Containers/group.com.apple.notes/NoteStore.sqlite";
    const ROWS: &str = "
        INSERT INTO ZICCLOUDSYNCINGOBJECT (Z_PK, Z_ENT, ZTITLE2, ZFOLDERTYPE) VALUES
            (1, 14, 'Notes', 0), (2, 14, 'Recipes', NULL), (3, 14, 'Trash', 1);
        INSERT INTO ZICCLOUDSYNCINGOBJECT (Z_PK, Z_ENT, ZNOTEDATA, ZTITLE1, ZMARKEDFORDELETION) VALUES
            (10, 11, 1, 'a secret', 0), (11, 11, 2, 'b', 0), (12, 11, 3, 'c', NULL), (13, 11, 4, 'gone', 1),
            (14, 11, 5, 'thrown away', 0), (15, 11, 6, 'loose', 0);
        CREATE TEMP TABLE inside (folder, note);
        INSERT INTO inside VALUES (1, 10), (2, 11), (2, 12), (2, 13), (3, 14);";

    #[test]
    fn notes_are_counted_in_each_schema() {
        let set_folder = "UPDATE ZICCLOUDSYNCINGOBJECT SET ZFOLDER = (SELECT folder FROM inside WHERE note = Z_PK)";
        for (schema, put_into_folders) in [
            (
                schema!("notes_10_11"),
                "INSERT INTO Z_12NOTES SELECT * FROM inside",
            ),
            (
                schema!("notes_10_12"),
                "INSERT INTO Z_11NOTES SELECT * FROM inside",
            ),
            (schema!("notes_10_13"), set_folder),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let script = format!("{schema}{ROWS}{put_into_folders}");
            make_database(home.path(), PATH, &script);
            let report = collect(&places(home.path(), System::MacOs), &budget());
            let expected = "- Recipes: 2 notes\n- In no folder: 1 note\n- Notes: 1 note";
            assert_eq!(only_text(&report), expected, "{schema}");
        }
    }
}
