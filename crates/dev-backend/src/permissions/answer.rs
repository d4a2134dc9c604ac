//! `permissions:answer`: the caller or a person at the device decides. The first answer in time counts.

use serde::{Deserialize, Serialize};

use super::{ApprovalParty, PermissionOption, StoredAnswer, StoredPermission};
use crate::args::{self, optional};
use crate::commit_transaction::CommitTransaction;
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{DeviceId, RequestId};

/// The most bytes of an answer in words.
const TEXT_LIMIT: usize = 4 * 1024;

/// The option that wants an answer in words.
const TEXT_OPTION: &str = "text";

/// The arguments of `permissions:answer`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerPermission {
    #[serde(default, deserialize_with = "optional")]
    caller_token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    device_id: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    token: Option<String>,
    permission_id: String,
    option_id: String,
    /// The answer in words, to an option that asks for it.
    #[serde(default, deserialize_with = "optional")]
    text: Option<String>,
}

/// The value of `permissions:answer`.
#[derive(Serialize)]
pub(crate) struct AnsweredPermission {
    /// True if this answer is the one that counts.
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<StoredAnswer>,
}

impl MutationFunction for AnswerPermission {
    const PATH: &'static str = "permissions:answer";
    type Reply = AnsweredPermission;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<AnsweredPermission> {
        let party = ApprovalParty::authenticate(
            db,
            self.caller_token.as_deref(),
            self.device_id.as_deref(),
            self.token.as_deref(),
        )?;
        let permission = RequestId::parse(&self.permission_id)?;
        if let Some(text) = &self.text {
            args::check_payload_size("text", text, TEXT_LIMIT)?;
        }
        let stored =
            StoredPermission::find(db, permission.as_str())?.filter(|stored| match &party {
                ApprovalParty::Caller => true,
                ApprovalParty::Device(device) => stored.device == device.as_str(),
            });
        let Some(stored) = stored else {
            return Err(FunctionFailure::with_code(
                FailureCode::RequestUnknown,
                "there is no permission of this id",
            ));
        };
        let options: Vec<PermissionOption> = serde_json::from_str(&stored.options)?;
        if options
            .iter()
            .all(|choice| choice.option_id != self.option_id)
        {
            return Err(FunctionFailure::invalid_argument(
                "the permission has no option of this id",
            ));
        }
        if self.option_id == TEXT_OPTION
            && self.text.as_ref().is_none_or(|text| text.trim().is_empty())
        {
            return Err(FunctionFailure::invalid_argument(
                "the option \"text\" wants a text that is not blank",
            ));
        }
        if let Some(answer) = stored.answer {
            let is_same = answer.option_id == self.option_id && answer.text == self.text;
            let accepted = is_same && answer.by == party.name();
            return Ok(AnsweredPermission {
                accepted,
                answer: Some(answer),
            });
        }
        if !stored.open || db.now_ms > stored.expires_at_ms {
            return Ok(AnsweredPermission {
                accepted: false,
                answer: None,
            });
        }
        let now_ms = db.now_ms;
        db.execute_cached(
            "UPDATE permissions SET option_id = ?1, answered_by = ?2, answered_at_ms = ?3, answer_text = ?4 \
             WHERE permission_id = ?5",
            (&self.option_id, party.name(), now_ms, &self.text, permission.as_str()),
        )?;
        db.wake_after_commit(&DeviceId::parse(&stored.device)?);
        let answer = StoredAnswer {
            option_id: self.option_id,
            by: party.name().to_owned(),
            answered_at_ms: now_ms,
            text: self.text,
        };
        Ok(AnsweredPermission {
            accepted: true,
            answer: Some(answer),
        })
    }
}
