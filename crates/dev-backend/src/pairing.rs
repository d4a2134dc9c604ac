//! The pairing code, which each new device shows once: its terms, its use, and the operator's functions for it.
//! Not here: how a device proves its key (`devices::session`).

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::args::{WireNumber, optional};
use super::commit_transaction::CommitTransaction;
use super::credentials::{matches_pairing_code, new_pairing_code};
use super::failure::{FailureCode, FunctionFailure, FunctionResult};
use super::function_traits::MutationFunction;
use super::sql_calls::SqlCalls as _;

const MINUTE_MS: f64 = 60_000.0;

/// What a new pairing code is good for: one device within 15 minutes, unless the operator says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairingTerms {
    /// The number of devices.
    pub uses: u32,
    /// The minutes until it ends.
    pub minutes: u32,
}

impl Default for PairingTerms {
    fn default() -> Self {
        Self {
            uses: 1,
            minutes: 15,
        }
    }
}

impl PairingTerms {
    /// The most that a code may be good for: 10,000 devices within a week.
    pub const LARGEST: Self = Self {
        uses: 10_000,
        minutes: 7 * 24 * 60,
    };
}

struct StandingCode {
    code: String,
    uses_left: u32,
}

/// Returns the code with which a device could be paired now.
fn find_standing_code(db: &Connection, now_ms: f64) -> rusqlite::Result<Option<StandingCode>> {
    db.find_row(
        "SELECT code, uses_left FROM pairing WHERE closed = 0 AND uses_left > 0 AND expires_at_ms >= ?1",
        [now_ms],
        |row| {
            Ok(StandingCode {
                code: row.get(0)?,
                uses_left: row.get(1)?,
            })
        },
    )
}

/// Puts a new code in place of the last one, and opens pairing.
pub(super) fn renew_code(
    db: &Connection,
    terms: PairingTerms,
    now_ms: f64,
) -> FunctionResult<RenewedPairing> {
    let pairing_code = new_pairing_code()?;
    let expires_at_ms = now_ms + f64::from(terms.minutes) * MINUTE_MS;
    db.execute_cached(
        "INSERT INTO pairing (only, code, closed, expires_at_ms, uses_left) VALUES (1, ?1, 0, ?2, ?3) \
         ON CONFLICT DO UPDATE SET code = excluded.code, closed = 0, \
         expires_at_ms = excluded.expires_at_ms, uses_left = excluded.uses_left",
        (&pairing_code, expires_at_ms, terms.uses),
    )?;
    Ok(RenewedPairing {
        pairing_code,
        uses: terms.uses.into(),
        expires_at_ms,
    })
}

/// Returns the code that stands, or a new one on the usual terms; `None` while the operator lets no new device in.
pub(super) fn standing_or_new_code(db: &Connection, now_ms: f64) -> FunctionResult<Option<String>> {
    if let Some(standing) = find_standing_code(db, now_ms)? {
        return Ok(Some(standing.code));
    }
    let closed = db.find_row("SELECT closed FROM pairing", [], |row| row.get(0))?;
    if closed == Some(true) {
        return Ok(None);
    }
    let renewed = renew_code(db, PairingTerms::default(), now_ms)?;
    Ok(Some(renewed.pairing_code))
}

/// Uses the code for one new device. Refuses one that does not stand.
pub(super) fn use_code(db: &CommitTransaction<'_>, typed: Option<&str>) -> FunctionResult<()> {
    let standing = find_standing_code(db, db.now_ms)?;
    let fits = |standing: &StandingCode| {
        typed.is_some_and(|typed| matches_pairing_code(typed, &standing.code))
    };
    let Some(standing) = standing.filter(fits) else {
        return Err(FunctionFailure::with_code(
            FailureCode::PairingRequired,
            "this device is new here: show the pairing code of the backend's operator. A code ends after its minutes and \
             its devices",
        ));
    };
    db.execute_cached(
        "UPDATE pairing SET uses_left = ?1",
        [standing.uses_left - 1],
    )?;
    Ok(())
}

/// The arguments of `pairing:renew`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewPairing {
    #[serde(default, deserialize_with = "optional")]
    uses: Option<WireNumber>,
    #[serde(default, deserialize_with = "optional")]
    minutes: Option<WireNumber>,
}

/// The value of `pairing:renew`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenewedPairing {
    pub pairing_code: String,
    uses: f64,
    expires_at_ms: f64,
}

impl RenewPairing {
    fn requested_terms(&self) -> FunctionResult<PairingTerms> {
        let usual = PairingTerms::default();
        let largest = PairingTerms::LARGEST;
        Ok(PairingTerms {
            uses: whole_within("uses", self.uses, usual.uses, largest.uses)?,
            minutes: whole_within("minutes", self.minutes, usual.minutes, largest.minutes)?,
        })
    }
}

/// Returns the given number, from 1 to the largest one, or the usual one if none is given.
fn whole_within(
    field: &str,
    given: Option<WireNumber>,
    usual: u32,
    largest: u32,
) -> FunctionResult<u32> {
    let Some(given) = given else {
        return Ok(usual);
    };
    u32::try_from(given.whole_value(field)?)
        .ok()
        .filter(|number| (1..=largest).contains(number))
        .ok_or_else(|| {
            FunctionFailure::invalid_argument(format!(
                "{field} must be a whole number from 1 to {largest}"
            ))
        })
}

impl MutationFunction for RenewPairing {
    const PATH: &'static str = "pairing:renew";
    type Reply = RenewedPairing;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<RenewedPairing> {
        renew_code(db, self.requested_terms()?, db.now_ms)
    }
}

/// The arguments of `pairing:close`: none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClosePairing {}

impl MutationFunction for ClosePairing {
    const PATH: &'static str = "pairing:close";
    type Reply = ();

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<()> {
        db.execute("UPDATE pairing SET closed = 1", [])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_code_that_has_ended_is_replaced_and_a_closed_pairing_stays_closed() {
        let mut db = testing::database();
        let first = standing_or_new_code(&db, 0.0).expect("made");
        assert_eq!(
            standing_or_new_code(&db, 15.0 * MINUTE_MS).expect("read"),
            first
        );
        let second = standing_or_new_code(&db, 15.0 * MINUTE_MS + 1.0).expect("made");
        assert_ne!(second, first);

        let commit = CommitTransaction::begin(&mut db, 16.0 * MINUTE_MS).expect("begun");
        use_code(&commit, second.as_deref()).expect("it stands");
        use_code(&commit, second.as_deref()).expect_err("it was used");
        commit.finish().expect("committed");
        let third = standing_or_new_code(&db, 16.0 * MINUTE_MS).expect("made");
        assert_ne!(third, second);

        db.execute("UPDATE pairing SET closed = 1", [])
            .expect("closed");
        assert_eq!(
            standing_or_new_code(&db, 60.0 * MINUTE_MS).expect("read"),
            None
        );
    }

    #[test]
    fn a_code_from_before_the_terms_is_good_no_more() {
        let db = testing::database();
        db.execute("INSERT INTO pairing (only, code) VALUES (1, 'OLD')", [])
            .expect("stored");
        assert!(find_standing_code(&db, 0.0).expect("read").is_none());
    }
}
