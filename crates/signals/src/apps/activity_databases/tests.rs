//! Databases as macOS and Windows make them, with made-up rows.

use super::*;
use crate::epoch::days_before;
use crate::test_places::{NOW_SECONDS, TestPlaces, budget, open_database};

/// The columns of `ZOBJECT` in macOS 10.14 to 13, as the module `knowledge_app_usage` of APOLLO (mac4n6) documents them.
const KNOWLEDGE: &str = "CREATE TABLE ZOBJECT (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZUUIDHASH INTEGER, \
    ZEVENT INTEGER, ZSOURCE INTEGER, ZSECONDSFROMGMT INTEGER, ZVALUEINTEGER INTEGER, ZSTRUCTUREDMETADATA INTEGER, \
    ZCREATIONDATE TIMESTAMP, ZENDDATE TIMESTAMP, ZSTARTDATE TIMESTAMP, ZCONFIDENCE FLOAT, ZSTREAMNAME VARCHAR, \
    ZVALUESTRING VARCHAR, ZUUID VARCHAR);";
/// The columns of `Activity` in Windows 10 1803 to 11, as the database's own schema names them.
const ACTIVITIES: &str = "CREATE TABLE Activity (Id GUID PRIMARY KEY NOT NULL, AppId TEXT NOT NULL, PackageIdHash TEXT, \
    AppActivityId TEXT, ActivityType INT NOT NULL, ActivityStatus INT NOT NULL, ParentActivityId GUID, Tag TEXT, \
    [Group] TEXT, MatchId TEXT, LastModifiedTime DATETIME NOT NULL, ExpirationTime DATETIME, Payload BLOB, Priority INT, \
    IsLocalOnly INT, PlatformDeviceId TEXT, CreatedInCloud DATETIME, StartTime DATETIME, EndTime DATETIME, \
    LastModifiedOnClient DATETIME, ETag INT NOT NULL);";

fn usage(test: &TestPlaces) -> (Option<Vec<(String, u64)>>, Vec<String>) {
    let since = days_before(test.places.now, 7);
    let mut problems = Vec::new();
    let usage = read_usage(&test.places, since, &budget(), &mut problems);
    let sorted = usage.map(|usage| {
        let mut usage: Vec<_> = usage.into_iter().collect();
        usage.sort();
        usage
    });
    (sorted, problems)
}

fn named(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = |(name, seconds): &(&str, u64)| ((*name).to_owned(), *seconds);
    expected.iter().map(owned).collect()
}

#[test]
fn w82_the_use_of_programs_on_mac_os_is_counted_from_2001() {
    let test = TestPlaces::new(System::MacOs);
    assert_eq!(usage(&test), (None, Vec::new()));
    let path = test.write("Library/Application Support/Knowledge/knowledgeC.db", "");
    let database = open_database(&path);
    database.execute_batch(KNOWLEDGE).expect("a table");
    let now = NOW_SECONDS - 978_307_200;
    let day = 86_400;
    for (stream, bundle, start, end) in [
        ("/app/usage", "com.apple.mail", now - day, now - day + 60),
        (
            "/app/usage",
            "com.apple.mail",
            now - 2 * day,
            now - 2 * day + 30,
        ),
        (
            "/app/usage",
            "com.apple.mail",
            now - 8 * day,
            now - 8 * day + 1000,
        ),
        (
            "/app/usage",
            "com.figma.Desktop",
            now - 6 * day,
            now - 6 * day + 7,
        ),
        (
            "/app/usage",
            "com.figma.Desktop",
            now - day,
            now - day - 500,
        ),
        ("/app/inFocus", "com.apple.mail", now - day, now - day + 500),
    ] {
        let row = "INSERT INTO ZOBJECT (ZSTREAMNAME, ZVALUESTRING, ZSTARTDATE, ZENDDATE) VALUES (?1, ?2, ?3 + 0.25, ?4 + 0.25)";
        let (start, end) = (start.cast_signed(), end.cast_signed());
        database
            .execute(row, (stream, bundle, start, end))
            .expect("a row");
    }
    assert_eq!(
        usage(&test),
        (Some(named(&[("Desktop", 7), ("Mail", 90)])), Vec::new())
    );
}

#[test]
fn w82_the_use_of_programs_on_windows_is_counted_from_1970() {
    let test = TestPlaces::new(System::Windows);
    assert_eq!(usage(&test), (None, Vec::new()));
    let folder = "AppData/Local/ConnectedDevicesPlatform";
    test.write(&format!("{folder}/CDPGlobalSettings.cdp"), "{}");
    let path = test.write(&format!("{folder}/L.someone/ActivitiesCache.db"), "");
    let database = open_database(&path);
    database.execute_batch(ACTIVITIES).expect("a table");
    let code = r#"[{"application":"{6D809377-6AF0-444B-8957-A3773F02200E}\\Microsoft VS Code\\Code.exe","platform":"x_exe_path"}]"#;
    let calculator = r#"[{"application":"Microsoft.WindowsCalculator_8wekyb3d8bbwe!App","platform":"windows_win32"}]"#;
    let day = 86_400;
    for (id, (app, kind, ago, seconds)) in [
        (code, 6, day, 100),
        (code, 6, 2 * day, 20),
        (code, 6, 8 * day, 1000),
        (code, 5, day, 1000),
        (calculator, 6, day, 5),
        (calculator, 6, day, -50),
        ("no JSON", 6, day, 50),
    ]
    .into_iter()
    .enumerate()
    {
        let start = NOW_SECONDS.cast_signed() - ago;
        let end = if seconds < 0 { 0 } else { start + seconds };
        let row = "INSERT INTO Activity (Id, AppId, ActivityType, ActivityStatus, LastModifiedTime, StartTime, EndTime, ETag) \
            VALUES (?1, ?2, ?3, 1, ?4, ?4, ?5, 1)";
        let id = id.to_string();
        database
            .execute(row, (id, app, kind, start, end))
            .expect("a row");
    }
    let expected = named(&[("Code", 120), ("WindowsCalculator", 5)]);
    assert_eq!(usage(&test), (Some(expected), Vec::new()));
}

#[test]
fn a_database_of_another_form_is_a_problem() {
    let test = TestPlaces::new(System::MacOs);
    let path = test.write("Library/Application Support/Knowledge/knowledgeC.db", "");
    let database = open_database(&path);
    database
        .execute_batch("CREATE TABLE ZOBJECT (ZSTREAMNAME)")
        .expect("a table");
    let (found, problems) = usage(&test);
    assert_eq!(found, Some(Vec::new()));
    assert!(
        problems[0].starts_with("knowledgeC.db: its table ZOBJECT"),
        "{problems:?}"
    );
}
