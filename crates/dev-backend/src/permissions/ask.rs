//! `permissions:ask`: a device asks if it may run a call. A question that is asked again may get more time, not less.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{PermissionOption, StoredAnswer, StoredPermission};
use crate::args::{self, WireNumber};
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::credentials::{Sha256Hash, hash_fields};
use crate::events::request::RequestStatus;
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::RequestId;

/// The most bytes of a title.
const TITLE_LIMIT: usize = 4 * 1024;
/// The most options of a question.
const MOST_OPTIONS: usize = 8;
/// The most bytes of an option's id, and of its name.
const OPTION_LIMIT: usize = 256;
/// The most bytes of a host with its port.
const HOST_LIMIT: usize = 300;

/// The arguments of `permissions:ask`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AskPermission {
    device_id: String,
    token: String,
    permission_id: String,
    request_id: String,
    title: String,
    #[serde(default, deserialize_with = "args::optional")]
    host: Option<String>,
    options: Vec<PermissionOption>,
    expires_at_ms: WireNumber,
}

/// The value of `permissions:ask`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedPermission {
    created: bool,
    /// True if a caller read `permissions:pending` within the last minute, so that somebody may answer.
    caller_listens: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<StoredAnswer>,
}

impl AskPermission {
    /// Refuses a malformed question.
    fn check_question(&self) -> FunctionResult<()> {
        args::check_payload_size("title", &self.title, TITLE_LIMIT)?;
        args::check_optional_length("host", self.host.as_deref(), HOST_LIMIT)?;
        if !(1..=MOST_OPTIONS).contains(&self.options.len()) {
            return Err(FunctionFailure::invalid_argument(format!(
                "options must be 1 to {MOST_OPTIONS}"
            )));
        }
        for choice in &self.options {
            args::check_text_length("optionId", &choice.option_id, OPTION_LIMIT)?;
            args::check_text_length("name", &choice.name, OPTION_LIMIT)?;
        }
        let ids: HashSet<_> = self
            .options
            .iter()
            .map(|choice| &choice.option_id)
            .collect();
        if ids.len() < self.options.len() || ids.iter().any(|id| id.is_empty()) {
            return Err(FunctionFailure::invalid_argument(
                "each option must have an id of its own",
            ));
        }
        Ok(())
    }

    fn question_hash(&self, options: &str) -> Sha256Hash {
        let mut fields = vec![
            Some(self.device_id.as_str()),
            Some(&self.request_id),
            Some(&self.title),
            Some(options),
        ];
        // Questions without a host keep the hash that they had.
        fields.extend(self.host.as_deref().map(Some));
        hash_fields(&fields)
    }
}

impl MutationFunction for AskPermission {
    const PATH: &'static str = "permissions:ask";
    type Reply = AskedPermission;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<AskedPermission> {
        let device = auth::authenticate_device(db, &self.device_id, &self.token)?;
        let permission = RequestId::parse(&self.permission_id)?;
        let request = RequestId::parse(&self.request_id)?;
        self.check_question()?;
        let expires_at_ms = self.expires_at_ms.finite_value("expiresAtMs")?;
        let options = serde_json::to_string(&self.options)?;
        let hash = self.question_hash(&options);
        let caller_listens = db.has_listening_caller(&device);
        match StoredPermission::find(db, permission.as_str())? {
            Some(stored) if stored.body_hash == hash && stored.expires_at_ms <= expires_at_ms => {
                if stored.answer.is_none() {
                    db.execute_cached(
                        "UPDATE permissions SET expires_at_ms = ?1 WHERE permission_id = ?2",
                        (expires_at_ms, permission.as_str()),
                    )?;
                }
                return Ok(AskedPermission {
                    created: false,
                    caller_listens,
                    answer: stored.answer,
                });
            }
            Some(_) => {
                let message = "a permission of this id with another question is stored already; make a new id";
                return Err(FunctionFailure::with_code(
                    FailureCode::RequestIdReused,
                    message,
                ));
            }
            None => {}
        }
        if RequestStatus::load_device_status(db, &request, &device)?.finished {
            return Err(FunctionFailure::with_code(
                FailureCode::RequestUnknown,
                "the request has its result already",
            ));
        }
        let now_ms = db.now_ms;
        db.execute_cached(
            "INSERT INTO permissions (permission_id, request_id, device_id, body_hash, title, options, asked_at_ms, \
             expires_at_ms, host) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            rusqlite::params![
                permission.as_str(),
                request.as_str(),
                device.as_str(),
                hash,
                self.title,
                options,
                now_ms,
                expires_at_ms,
                self.host,
            ],
        )?;
        Ok(AskedPermission {
            created: true,
            caller_listens,
            answer: None,
        })
    }
}
