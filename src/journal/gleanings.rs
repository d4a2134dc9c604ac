//! Requests and their answers from single pages of a damaged journal, where its tables do not lead to them any more.
//! Such a row may be older than the last that was written: what has effects is taken for begun, never for waiting, so
//! that it is answered as in doubt and not run again. Not here: reading the pages (leaves).

use std::collections::HashMap;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Transaction, params_from_iter};

use super::salvage::is_sound;
use super::{JournalError, debris, leaves};

/// How many columns a request had in the first version; later ones have more behind them.
const FEWEST: usize = 22;

/// Adds what only single pages show to what was carried over. How many requests that are.
pub(super) fn add(path: &Path, target: &Transaction<'_>) -> Result<u32, JournalError> {
    let failed = |cause| JournalError::File { path: path.display().to_string(), cause };
    let columns = debris::columns(target, "request")?;
    let mut newest: HashMap<String, (u8, Vec<Value>)> = HashMap::new();
    let mut note = |row: Vec<Value>| {
        let Some((id, rank)) = request(&columns, &row) else { return };
        let known = newest.entry(id).or_insert((0, Vec::new()));
        if known.0 < rank {
            *known = (rank, row);
        }
    };
    leaves::rows(path, &mut note).map_err(failed)?;
    let mut added = 0;
    for (_, row) in newest.into_values() {
        let names = &columns[..row.len()];
        let sql = format!(
            "insert or ignore into request ({}) values ({})",
            names.join(", "),
            vec!["?"; names.len()].join(", ")
        );
        added += target.prepare_cached(&sql)?.execute(params_from_iter(in_doubt(names, row))).unwrap_or(0);
    }
    let mut answers = target.prepare(
        "insert or ignore into result (request_id, payload) \
         select ?1, ?2 where exists (select 1 from request where id = ?1 and state = 'finished')",
    )?;
    let mut answer = |row: Vec<Value>| {
        if let [Value::Text(_), Value::Text(_)] = &row[..] {
            // One that is refused is an answer that is not known, as all that are not found.
            let _ = answers.execute(params_from_iter(row));
        }
    };
    leaves::rows(path, &mut answer).map_err(failed)?;
    Ok(u32::try_from(added).unwrap_or(u32::MAX))
}

/// The id of a row that can be read as a request, and how far it had come.
fn request(columns: &[String], row: &[Value]) -> Option<(String, u8)> {
    if row.len() < FEWEST || row.len() > columns.len() || !is_sound(&columns[..row.len()], row) {
        return None;
    }
    let rank = match text(columns, row, "state")? {
        "accepted" => 1,
        "started" => 2,
        "finished" => 3,
        "delivered" | "undeliverable" => 4,
        _ => return None,
    };
    Some((text(columns, row, "id")?.to_owned(), rank))
}

fn text<'a>(columns: &[String], row: &'a [Value], name: &str) -> Option<&'a str> {
    match row.get(columns.iter().position(|column| column == name)?)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// What waits and has effects has perhaps begun since the row was written.
fn in_doubt(columns: &[String], mut row: Vec<Value>) -> Vec<Value> {
    let at = |name: &str| columns.iter().position(|column| column == name);
    let waits = text(columns, &row, "state") == Some("accepted");
    if waits
        && text(columns, &row, "effect") != Some("reads")
        && let (Some(state), Some(attempt)) = (at("state"), at("attempt"))
    {
        row[state] = Value::Text("started".to_owned());
        row[attempt] = Value::Integer(1);
    }
    row
}
