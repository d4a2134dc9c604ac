//! The records of changed protected paths: the trash, the log, the audit and the owner's notices.
#![cfg(unix)]

use std::io;
use std::path::Path;

use crate::cli::audit::audit_paths;
use punie_core::ids::RequestId;
use punie_engine::audit::{AuditActor, AuditEntry, AuditEvent, append_entry_durably};
use punie_engine::runner::Clock;
use punie_home::{Home, OwnerNotice, OwnerSwitches, command_to_type};
use punie_host::ReachableFolders;
use punie_host::local::protected_path_records::{
    FileContent, ProtectedPathChange, ProtectedPathRecords,
};
use punie_undo::{BeforeImageStore, Trash};

pub(super) struct HomeRecords {
    home: Home,
    trash: Trash,
    reachable: ReachableFolders,
}

impl HomeRecords {
    pub(super) fn new(home: &Home, trash: &Trash, reachable: &ReachableFolders) -> Self {
        Self {
            home: home.clone(),
            trash: trash.clone(),
            reachable: reachable.clone(),
        }
    }
}

impl ProtectedPathRecords for HomeRecords {
    fn put_back(
        &self,
        path: &Path,
        content: Option<&FileContent>,
        kept: Option<&RequestId>,
    ) -> io::Result<Option<RequestId>> {
        let store = BeforeImageStore::new(self.trash.clone(), self.reachable.current());
        store.put_back(path, content, kept)
    }

    fn is_undone(&self, request: &RequestId) -> bool {
        self.trash.is_undone(request)
    }

    fn notify_owner(&self, change: &ProtectedPathChange) {
        let ProtectedPathChange {
            path,
            request,
            text,
        } = change;
        tracing::warn!(path = %path.display(), "{text} `{}` acknowledges this", command_to_type("ack"));
        let at_ms = Clock::system().now_ms();
        let entry =
            AuditEntry::new(AuditEvent::ProtectedPath, AuditActor::Runner, at_ms).with_detail(text);
        let entry = request.iter().fold(entry, AuditEntry::with_request);
        if let Err(error) = append_entry_durably(audit_paths(&self.home), entry) {
            tracing::warn!(%error, "the change of a protected path is not in the audit");
        }
        let notice = OwnerNotice {
            at_ms,
            path: path.display().to_string(),
            request: request.as_ref().map(ToString::to_string),
            text: text.clone(),
        };
        if let Err(error) = OwnerSwitches::in_home(&self.home).add_notice(&notice) {
            tracing::warn!(%error, "the change of a protected path is not in the owner's notices");
        }
    }
}
