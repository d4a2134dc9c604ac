//! A question of a running call to the person at the editor: one of some options. ACP's permission request carries it.
//! Not here: the question whether a call may run (permission_request).

use super::tool_call_view::ShownCall;
use crate::protocol::{
    ContentBlock, PermissionOption, PermissionOptionId, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, ToolCallContent, ToolCallUpdate,
    ToolCallUpdateFields,
};
use punie_tool::FollowerChoice;

/// The id of the option that refuses an answer.
const REFUSE: &str = "refuse";

impl ShownCall {
    /// Asks the person for one of these options. Never completes if the editor does not answer; the call ends then when
    /// another person answers, or by its own time limit.
    pub(super) async fn ask_person_to_choose(
        &self,
        question: &str,
        options: &[String],
    ) -> FollowerChoice {
        let option = |id: String, name: &str, kind| {
            PermissionOption::new(PermissionOptionId::from(id), name.to_owned(), kind)
        };
        let mut offered: Vec<PermissionOption> = options
            .iter()
            .enumerate()
            .map(|(at, label)| option(at.to_string(), label, PermissionOptionKind::AllowOnce))
            .collect();
        offered.push(option(
            REFUSE.to_owned(),
            "Refuse to answer",
            PermissionOptionKind::RejectOnce,
        ));
        let fields = ToolCallUpdateFields::new()
            .title(question.to_owned())
            .kind(self.kind)
            .content(vec![ToolCallContent::from(ContentBlock::from(
                question.to_owned(),
            ))]);
        let session = &self.turn.session;
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        let request = RequestPermissionRequest::new(session.id.clone(), call, offered);
        match session.client.request_permission(request).await {
            Ok(answer) => read_choice(&answer.outcome, options.len()),
            Err(error) => {
                tracing::warn!(%error, "the person at the editor could not be asked");
                std::future::pending().await
            }
        }
    }
}

/// Reads the outcome. Whatever is none of the options is a refusal.
fn read_choice(outcome: &RequestPermissionOutcome, options: usize) -> FollowerChoice {
    let RequestPermissionOutcome::Selected(chosen) = outcome else {
        return FollowerChoice::Refused;
    };
    let at = (0..options).find(|at| *chosen.option_id.0 == *at.to_string());
    at.map_or(FollowerChoice::Refused, FollowerChoice::Chosen)
}
