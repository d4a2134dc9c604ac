//! Calendars of macOS: the number of events in each.

use super::{collect_lines, format_count};
use crate::file_access::may_exist;
use crate::foreign_rows::{for_each_row, has_columns, read_count, read_text, require_columns};
use crate::plain_text::clean_title;
use crate::{Budget, SignalPlaces, SourceReport, System};

const MAX_CALENDARS: usize = 30;

/// Counts events. A file of an older system stays when a newer one takes over: the newest is read.
pub(super) fn collect(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let paths = [
        // The newest first. The last one is of Core Data, with another schema.
        "Library/Group Containers/group.com.apple.calendar/Calendar.sqlitedb",
        "Library/Calendars/Calendar.sqlitedb",
        "Library/Calendars/Calendar Cache",
    ];
    let mut paths = paths.map(|path| places.user_home.join(path)).into_iter();
    let newest = paths.find(|path| places.system == System::MacOs && may_exist(path));
    let newest: Vec<_> = newest.into_iter().collect();
    collect_lines(
        "calendars",
        "Calendars",
        &newest,
        (places, budget),
        |database, lines| {
            let sql = if has_columns(database, "ZCALENDARITEM", &["ZCALENDAR", "ZRECURRENCERULE"]) {
                require_columns(database, "ZNODE", &["Z_PK", "ZTITLE"])?;
                "SELECT substr(c.ZTITLE, 1, 2000), COUNT(*), SUM(i.ZRECURRENCERULE IS NOT NULL)
            FROM ZCALENDARITEM i JOIN ZNODE c ON c.Z_PK = i.ZCALENDAR GROUP BY c.Z_PK ORDER BY COUNT(*) DESC, c.Z_PK"
            } else {
                require_columns(
                    database,
                    "CalendarItem",
                    &["calendar_id", "has_recurrences"],
                )?;
                require_columns(database, "Calendar", &["title"])?;
                "SELECT substr(c.title, 1, 2000), COUNT(*), SUM(COALESCE(i.has_recurrences, 0) != 0)
            FROM CalendarItem i JOIN Calendar c ON c.ROWID = i.calendar_id GROUP BY c.ROWID ORDER BY COUNT(*) DESC, c.ROWID"
            };
            for_each_row(
                database,
                budget,
                &format!("{sql} LIMIT {MAX_CALENDARS}"),
                [],
                |row| {
                    let name = clean_title(&read_text(row, 0));
                    let name = if name.is_empty() {
                        "A calendar without a name"
                    } else {
                        &name
                    };
                    let events = format_count(read_count(row, 1), "event");
                    lines.push(format!(
                        "- {name}: {events}, of them {} that recur",
                        read_count(row, 2)
                    ));
                },
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_places::{make_database, only_text, places};
    use super::*;
    use crate::test_places::{budget, schema};

    const DATABASE: &str = schema!("calendar_sqlitedb_12");
    const DATABASE_ROWS: &str = "
        INSERT INTO Calendar (ROWID, title) VALUES (1, 'Work'), (2, 'anna@example.org'), (3, 'Empty');
        INSERT INTO CalendarItem (summary, calendar_id, has_recurrences) VALUES
            ('a secret', 1, 1), ('b', 1, 0), ('c', 2, NULL), ('of no calendar', 9, 0);";
    const CACHE: &str = schema!("calendar_cache_10_15");
    const CACHE_ROWS: &str = "
        INSERT INTO ZNODE (Z_PK, ZTITLE) VALUES (1, 'Work'), (2, 'anna@example.org'), (3, 'Empty');
        INSERT INTO ZCALENDARITEM (ZTITLE, ZCALENDAR, ZRECURRENCERULE) VALUES
            ('a secret', 1, 'FREQ=DAILY'), ('b', 1, NULL), ('c', 2, NULL), ('of no calendar', 9, NULL);";

    #[test]
    fn events_are_counted_in_each_schema_and_place() {
        let group = "Library/Group Containers/group.com.apple.calendar/Calendar.sqlitedb";
        for (path, schema, rows) in [
            (group, DATABASE, DATABASE_ROWS),
            (
                "Library/Calendars/Calendar.sqlitedb",
                DATABASE,
                DATABASE_ROWS,
            ),
            ("Library/Calendars/Calendar Cache", CACHE, CACHE_ROWS),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            make_database(home.path(), path, &format!("{schema}{rows}"));
            let report = collect(&places(home.path(), System::MacOs), &budget());
            let expected = "- Work: 2 events, of them 1 that recur\n- [mail address]: 1 event, of them 0 that recur";
            assert_eq!(only_text(&report), expected, "{path}");
        }
    }

    #[test]
    fn the_newest_place_is_read() {
        let home = tempfile::tempdir().expect("a folder");
        make_database(
            home.path(),
            "Library/Calendars/Calendar Cache",
            "CREATE TABLE other (a)",
        );
        let newer = "Library/Calendars/Calendar.sqlitedb";
        make_database(home.path(), newer, &format!("{DATABASE}{DATABASE_ROWS}"));
        let report = collect(&places(home.path(), System::MacOs), &budget());
        assert!(only_text(&report).starts_with("- Work: 2 events"));
    }
}
