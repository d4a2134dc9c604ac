//! `permissions:answer`: the caller or a person at the device decides. The first answer in time counts.

use serde::{Deserialize, Serialize};

use super::{Answer, Choice, Party, Stored};
use crate::dev_backend::args::optional;
use crate::dev_backend::failure::{Code, Failure};
use crate::dev_backend::functions::Mutation;
use crate::dev_backend::store::Commit;
use crate::ids::{DeviceId, RequestId};

/// The arguments of `permissions:answer`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct AnswerPermission {
    #[serde(default, deserialize_with = "optional")]
    caller_token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    device_id: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    token: Option<String>,
    permission_id: String,
    option_id: String,
}

/// The value of `permissions:answer`.
#[derive(Serialize)]
pub(in crate::dev_backend) struct Answered {
    /// True if this answer is the one that counts.
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

impl Mutation for AnswerPermission {
    const PATH: &'static str = "permissions:answer";
    type Reply = Answered;

    fn run(self, db: &mut Commit<'_>) -> Result<Answered, Failure> {
        let party =
            Party::of(db, self.caller_token.as_deref(), self.device_id.as_deref(), self.token.as_deref())?;
        let permission = RequestId::parse(&self.permission_id)?;
        let stored = Stored::of(db, permission.as_str())?.filter(|stored| match &party {
            Party::Caller => true,
            Party::Device(device) => stored.device == device.as_str(),
        });
        let Some(stored) = stored else {
            return Err(Failure::thrown(Code::RequestUnknown, "there is no permission of this id"));
        };
        let options: Vec<Choice> = serde_json::from_str(&stored.options)?;
        if options.iter().all(|choice| choice.option_id != self.option_id) {
            return Err(Failure::invalid("the permission has no option of this id"));
        }
        if let Some(answer) = stored.answer {
            let accepted = answer.option_id == self.option_id && answer.by == party.name();
            return Ok(Answered { accepted, answer: Some(answer) });
        }
        if !stored.open || db.now_ms > stored.expires_at_ms {
            return Ok(Answered { accepted: false, answer: None });
        }
        let now_ms = db.now_ms;
        db.prepare_cached(
            "UPDATE permissions SET option_id = ?1, answered_by = ?2, answered_at_ms = ?3 WHERE permission_id = ?4",
        )?
        .execute((&self.option_id, party.name(), now_ms, permission.as_str()))?;
        db.touch(&DeviceId::parse(&stored.device)?);
        let answer =
            Answer { option_id: self.option_id, by: party.name().to_owned(), answered_at_ms: now_ms };
        Ok(Answered { accepted: true, answer: Some(answer) })
    }
}
