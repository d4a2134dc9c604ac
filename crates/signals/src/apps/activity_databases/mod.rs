//! The time for which programs were used, as macOS and Windows record it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::Connection;

use crate::epoch::{apple_seconds, unix_micros};
use crate::file_access::{list_folder, may_exist};
use crate::foreign_rows::{for_each_row, read_count, read_text, require_columns, with_database};
use crate::{Budget, SignalPlaces, System};

/// The seconds for which each program was used.
pub(super) type Usage = HashMap<String, u64>;

/// Reads the use of programs since a moment. Returns `None` where the system has no record of it.
pub(super) fn read_usage(
    places: &SignalPlaces,
    since: SystemTime,
    budget: &Budget,
    problems: &mut Vec<String>,
) -> Option<Usage> {
    let mut usage = Usage::new();
    let mut is_found = false;
    for database in activity_databases(places, budget) {
        if !may_exist(&database) {
            continue;
        }
        is_found = true;
        let read = with_database(&database, places, budget, |database| match places.system {
            System::Windows => add_activities(database, since, budget, &mut usage),
            _ => add_knowledge(database, since, budget, &mut usage),
        });
        let name = database.file_name().unwrap_or_default().to_string_lossy();
        let problem = match read {
            Ok(problem) => problem,
            Err(reason) => Some(reason),
        };
        problems.extend(problem.map(|problem| format!("{name}: {problem}")));
    }
    is_found.then_some(usage)
}

fn activity_databases(places: &SignalPlaces, budget: &Budget) -> Vec<PathBuf> {
    match places.system {
        System::Linux => Vec::new(),
        System::MacOs => {
            let knowledge = "Library/Application Support/Knowledge/knowledgeC.db";
            vec![places.user_home.join(knowledge)]
        }
        System::Windows => {
            let Some(local) = &places.local_app_data else {
                return Vec::new();
            };
            // One folder for each account.
            let folder = local.join("ConnectedDevicesPlatform");
            let accounts = list_folder(&folder, budget).unwrap_or_default();
            accounts
                .iter()
                .map(|account| account.path.join("ActivitiesCache.db"))
                .collect()
        }
    }
}

/// Adds the use of programs from `knowledgeC.db` of macOS, which has seconds since 2001.
fn add_knowledge(
    database: &Connection,
    since: SystemTime,
    budget: &Budget,
    usage: &mut Usage,
) -> Result<(), String> {
    let columns = ["ZSTREAMNAME", "ZVALUESTRING", "ZSTARTDATE", "ZENDDATE"];
    require_columns(database, "ZOBJECT", &columns)?;
    let sql = "SELECT ZVALUESTRING, CAST(SUM(ZENDDATE - ZSTARTDATE) AS INTEGER) FROM ZOBJECT \
        WHERE ZSTREAMNAME = '/app/usage' AND ZSTARTDATE >= ?1 AND ZENDDATE > ZSTARTDATE GROUP BY ZVALUESTRING";
    for_each_row(database, budget, sql, [apple_seconds(since)], |row| {
        let bundle = read_text(row, 0);
        let name = bundle.rsplit('.').next().unwrap_or_default();
        add_seconds(usage, &capitalized(name), read_count(row, 1));
    })
}

/// The kind of an activity in which a program had the user's attention.
const IN_FOCUS: i64 = 6;

/// Adds the use of programs from `ActivitiesCache.db` of Windows, which has seconds since 1970.
fn add_activities(
    database: &Connection,
    since: SystemTime,
    budget: &Budget,
    usage: &mut Usage,
) -> Result<(), String> {
    let columns = ["AppId", "ActivityType", "StartTime", "EndTime"];
    require_columns(database, "Activity", &columns)?;
    let sql = "SELECT AppId, CAST(SUM(EndTime - StartTime) AS INTEGER) FROM Activity \
        WHERE ActivityType = ?1 AND StartTime >= ?2 AND EndTime > StartTime GROUP BY AppId";
    let since = unix_micros(since) / 1_000_000;
    for_each_row(database, budget, sql, [IN_FOCUS, since], |row| {
        if let Some(name) = windows_app_name(&read_text(row, 0)) {
            add_seconds(usage, &name, read_count(row, 1));
        }
    })
}

/// Returns the name of a program from a list of its identifiers in JSON: a path, or the name of a package.
fn windows_app_name(identifiers: &str) -> Option<String> {
    let identifiers: serde_json::Value = serde_json::from_str(identifiers).ok()?;
    let application = identifiers.get(0)?.get("application")?.as_str()?;
    let name = application.rsplit(['\\', '/']).next()?;
    let is_program = Path::new(name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("exe"));
    let name = if is_program {
        &name[..name.len() - ".exe".len()]
    } else {
        // PUBLISHER.NAME_HASH!PART
        let package = name.split(['_', '!']).next()?;
        package.rsplit('.').next()?
    };
    Some(capitalized(name))
}

fn capitalized(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

fn add_seconds(usage: &mut Usage, name: &str, seconds: u64) {
    if !name.is_empty() {
        let sum = usage.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(seconds);
    }
}

#[cfg(test)]
mod tests;
