//! Reminders of macOS: their number in each list.

use std::path::PathBuf;

use super::collect_lines;
use crate::file_access::{list_folder, listing_problem};
use crate::foreign_rows::{for_each_row, has_columns, read_count, read_text, require_columns};
use crate::plain_text::clean_title;
use crate::{Budget, SignalPlaces, SourceReport, SourceState, System};

const MAX_LISTS: usize = 30;
const MAX_STORES: usize = 10;

/// Counts reminders, open and done. Each account has a store of its own.
pub(super) fn collect(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let (paths, mut problems) = find_stores(places, budget);
    let report = collect_lines(
        "reminders",
        "Reminders",
        &paths,
        (places, budget),
        |database, lines| {
            require_columns(
                database,
                "ZREMCDREMINDER",
                &["ZLIST", "ZCOMPLETED", "ZMARKEDFORDELETION"],
            )?;
            // In newer versions, lists have a table of their own. Before, all kinds of objects had one.
            let lists = if has_columns(database, "ZREMCDBASELIST", &["Z_PK"]) {
                "ZREMCDBASELIST"
            } else {
                "ZREMCDOBJECT"
            };
            require_columns(database, lists, &["Z_PK", "ZMARKEDFORDELETION"])?;
            // In the common table, the name of a list is one of several columns, another in each version.
            let names = ["ZNAME", "ZNAME1", "ZNAME2", "ZNAME3"];
            let names: Vec<String> = names
                .into_iter()
                .filter(|name| has_columns(database, lists, &[name]))
                .map(|name| format!("l.{name}"))
                .collect();
            if names.is_empty() {
                return Err(format!("the lists in its table {lists} have no known name"));
            }
            let sql = format!(
            "SELECT substr(COALESCE({}, NULL), 1, 2000), SUM(COALESCE(r.ZCOMPLETED, 0) = 0), SUM(r.ZCOMPLETED = 1)
            FROM ZREMCDREMINDER r JOIN {lists} l ON l.Z_PK = r.ZLIST
            WHERE COALESCE(r.ZMARKEDFORDELETION, 0) = 0 AND COALESCE(l.ZMARKEDFORDELETION, 0) = 0
            GROUP BY l.Z_PK ORDER BY COUNT(*) DESC, l.Z_PK LIMIT {MAX_LISTS}",
            names.join(", ")
        );
            for_each_row(database, budget, &sql, [], |row| {
                let list = clean_title(&read_text(row, 0));
                let list = if list.is_empty() {
                    "A list without a name"
                } else {
                    &list
                };
                lines.push(format!(
                    "- {list}: {} open, {} done",
                    read_count(row, 1),
                    read_count(row, 2)
                ));
            })
        },
    );
    if problems.is_empty() {
        return report;
    }
    if report.state == SourceState::Absent {
        return SourceReport::failed("reminders", problems.join("; "));
    }
    problems.extend(report.problems);
    SourceReport { problems, ..report }
}

/// Returns the stores, and why a folder of stores cannot be listed.
fn find_stores(places: &SignalPlaces, budget: &Budget) -> (Vec<PathBuf>, Vec<String>) {
    if places.system != System::MacOs {
        return (Vec::new(), Vec::new());
    }
    let library = places.user_home.join("Library");
    let folders = [
        "Group Containers/group.com.apple.reminders/Container_v1/Stores",
        "Reminders/Container_v1/Stores",
    ]
    .map(|folder| library.join(folder));
    let problems = folders.iter().filter_map(|folder| listing_problem(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| list_folder(folder, budget).unwrap_or_default());
    let is_store = |name: &str| name.starts_with("Data-") && name.ends_with(".sqlite");
    let stores = entries
        .filter(|entry| entry.name.to_str().is_some_and(is_store))
        .map(|entry| entry.path)
        .take(MAX_STORES);
    (stores.collect(), problems.collect())
}

#[cfg(test)]
mod tests {
    use super::super::test_places::{make_database, only_text, places};
    use super::*;
    use crate::test_places::{budget, schema};

    #[cfg(unix)]
    #[test]
    fn stores_that_cannot_be_listed_are_not_absent() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = "Library/Reminders/Container_v1";
        make_database(home.path(), &format!("{folder}/x"), "");
        let stores = home.path().join(folder).join("Stores");
        std::os::unix::fs::symlink(&stores, &stores).expect("a link");
        let report = collect(&places(home.path(), System::MacOs), &budget());
        assert!(matches!(report.state, SourceState::Failed(_)), "{report:?}");
    }

    const REMINDERS: &str = "
        INSERT INTO ZREMCDREMINDER (ZTITLE, ZCOMPLETED, ZMARKEDFORDELETION, ZLIST) VALUES
            ('a secret', 0, 0, 1), ('b', 1, 0, 1), ('c', 0, 0, 1), ('gone', 0, 1, 1), ('d', 1, NULL, 2), ('e', 0, 0, 3);";

    #[test]
    fn reminders_are_counted_in_each_schema_and_place() {
        let folders = [
            "Library/Group Containers/group.com.apple.reminders/Container_v1/Stores",
            "Library/Reminders/Container_v1/Stores",
        ];
        for (schema, lists) in [
            (
                schema!("reminders_10_15"),
                "INSERT INTO ZREMCDOBJECT (Z_PK, Z_ENT, ZNAME, ZNAME1, ZMARKEDFORDELETION) VALUES
                    (1, 24, NULL, 'Groceries', 0), (2, 24, 'Work', NULL, 0), (3, 24, NULL, 'Gone', 1)",
            ),
            (
                schema!("reminders_13"),
                "INSERT INTO ZREMCDBASELIST (Z_PK, Z_ENT, ZNAME, ZMARKEDFORDELETION) VALUES
                    (1, 3, 'Groceries', 0), (2, 3, 'Work', 0), (3, 3, 'Gone', 1)",
            ),
        ] {
            for folder in folders {
                let home = tempfile::tempdir().expect("a folder");
                let path = format!("{folder}/Data-1F2E.sqlite");
                make_database(home.path(), &path, &format!("{schema}{REMINDERS}{lists}"));
                let report = collect(&places(home.path(), System::MacOs), &budget());
                let expected = "- Groceries: 2 open, 1 done\n- Work: 0 open, 1 done";
                assert_eq!(only_text(&report), expected, "{schema}");
            }
        }
    }
}
