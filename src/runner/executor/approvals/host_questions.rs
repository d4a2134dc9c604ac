//! Questions about hosts that a running command wants to reach: to the person at this device and to the caller's side.
//! Not here: which hosts are asked about, and what an answer covers (the network's proxy).

use super::ApprovalService;
use super::open_question::DeviceQuestion;
use super::verdicts::ApprovalReply;
use crate::approval_answer::ApprovalOption;
use crate::backend::{Backend as _, RemoteQuestion};
use crate::home::{AskPeople, NobodyToAsk, OpenQuestion, PeopleAnswer};

impl AskPeople for ApprovalService {
    fn ask_people(&self, question: OpenQuestion) -> PeopleAnswer<'_> {
        Box::pin(self.ask_about_host(question))
    }
}

impl ApprovalService {
    async fn ask_about_host(
        &self,
        open: OpenQuestion,
    ) -> Result<Option<ApprovalOption>, NobodyToAsk> {
        // The backend refuses a question of a request that it does not know, or that is over.
        let asks_caller = self.backend.remote_approvals().is_some();
        let can_ask_here = self.has_approver().await;
        if !asks_caller && !can_ask_here {
            return Err(NobodyToAsk);
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of some minutes")]
        let patience_ms = (open.expires_at_ms - open.asked_at_ms) as f64;
        let question = RemoteQuestion {
            id: open.id.clone(),
            request: open.request_id.clone(),
            title: open.title.clone(),
            is_cut: open.is_cut,
            expires_at_ms: self.server_clock.now_ms() + patience_ms,
        };
        let listed = DeviceQuestion::list_question(self.memory.open.clone(), open);
        let reply = tokio::select! {
            biased;
            () = self.phases.stopping.cancelled() => ApprovalReply::NobodyToAsk,
            reply = self.wait_for_listed_answer(&question, asks_caller, can_ask_here) => reply,
        };
        listed.unlist_question().await;
        match reply {
            ApprovalReply::Answer(answer) => Ok(answer.map(|answer| answer.option)),
            ApprovalReply::InEditor(_) | ApprovalReply::NobodyToAsk => Err(NobodyToAsk),
        }
    }
}
