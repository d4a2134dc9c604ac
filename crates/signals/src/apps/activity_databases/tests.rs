//! Databases as macOS and Windows make them, with made-up rows.

use super::*;
use crate::epoch::days_before;
use crate::test_places::{NOW_SECONDS, TestPlaces, budget, open_database, schema};

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
fn the_use_of_programs_on_mac_os_is_counted_from_2001_in_each_schema() {
    for schema in [schema!("knowledge_10_14"), schema!("knowledge_26")] {
        let test = TestPlaces::new(System::MacOs);
        assert_eq!(usage(&test), (None, Vec::new()));
        let path = test.write("Library/Application Support/Knowledge/knowledgeC.db", "");
        let database = open_database(&path);
        database.execute_batch(schema).expect("a table");
        for (stream, bundle, days, seconds) in [
            ("/app/usage", "com.apple.mail", 1, 60),
            ("/app/usage", "com.apple.mail", 2, 30),
            ("/app/usage", "com.apple.mail", 8, 1000),
            ("/app/usage", "com.figma.Desktop", 6, 7),
            ("/app/usage", "com.figma.Desktop", 1, -500),
            ("/app/inFocus", "com.apple.mail", 1, 500),
        ] {
            let row = "INSERT INTO ZOBJECT (ZSTREAMNAME, ZVALUESTRING, ZSTARTDATE, ZENDDATE) VALUES (?1, ?2, ?3 + 0.25, ?4 + 0.25)";
            let start = NOW_SECONDS.cast_signed() - 978_307_200 - days * 86_400;
            let row = database.execute(row, (stream, bundle, start, start + seconds));
            row.expect("a row");
        }
        let expected = named(&[("Desktop", 7), ("Mail", 90)]);
        assert_eq!(usage(&test), (Some(expected), Vec::new()), "{schema}");
    }
}

#[test]
fn the_use_of_programs_on_windows_is_counted_from_1970_in_each_schema() {
    let code = r#"[{"application":"{6D809377-6AF0-444B-8957-A3773F02200E}\\Microsoft VS Code\\Code.exe","platform":"x_exe_path"}]"#;
    let calculator = r#"[{"application":"Microsoft.WindowsCalculator_8wekyb3d8bbwe!App","platform":"windows_win32"}]"#;
    let day = 86_400;
    for schema in [
        schema!("activities_cache_1803"),
        schema!("activities_cache_1903"),
    ] {
        let test = TestPlaces::new(System::Windows);
        assert_eq!(usage(&test), (None, Vec::new()));
        let folder = "AppData/Local/ConnectedDevicesPlatform";
        test.write(&format!("{folder}/CDPGlobalSettings.cdp"), "{}");
        let path = test.write(&format!("{folder}/L.someone/ActivitiesCache.db"), "");
        let database = open_database(&path);
        database.execute_batch(schema).expect("a table");
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
            let row = database.execute(row, (id.to_string(), app, kind, start, end));
            row.expect("a row");
        }
        let expected = named(&[("Code", 120), ("WindowsCalculator", 5)]);
        assert_eq!(usage(&test), (Some(expected), Vec::new()), "{schema}");
    }
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
