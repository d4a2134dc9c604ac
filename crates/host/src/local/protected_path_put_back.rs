//! Puts a changed protected file back, tells the owner, and ends commands that write it in a loop.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::git_config;
use super::guard_state::GuardState;
use super::protected_path_guard::SharedGuard;
use super::protected_path_records::{
    FileContent, ProtectedPathChange, Replacement, WRITERS_ENDED, describe_change,
    describe_loop_end,
};
use super::protected_path_stamp::path_stamp;

/// A path that was put back so often while commands live is written in a loop: the file would be there most of the
/// time, so the commands are ended.
const MAX_PUT_BACKS: u32 = 5;

impl SharedGuard {
    /// Returns whether the owner took this content of a path out of the trash.
    pub fn is_undone(&self, state: &GuardState, path: &Path, content: &FileContent) -> bool {
        let moved = state.moved.get(path).filter(|(moved, _)| moved == content);
        let records = self.records.get();
        moved.is_some_and(|(_, request)| records.is_some_and(|records| records.is_undone(request)))
    }

    /// Moves a changed file to the trash, puts the one from before in its place, and tells the owner.
    pub fn put_back(
        &self,
        state: &mut GuardState,
        path: &Path,
        why: &str,
        content: Option<FileContent>,
    ) {
        let known = state.forget(path);
        let writers = state.written_by.remove(path);
        // A command wrote into the file that the owner's program made, whose content is known.
        let is_owners_known = writers.is_some()
            && known.as_ref().is_some_and(|known| {
                let inode = path.symlink_metadata().map(|found| found.ino()).ok();
                known.content.is_some() && known.stamp.inode() == inode
            });
        let was_there = known.is_some();
        let before = known.and_then(|known| known.content);
        // The owner may have changed a configuration too, just before.
        let stripped = content.as_ref().filter(|_| !is_owners_known);
        let stripped = stripped.and_then(|content| {
            let before = before.as_ref().and_then(FileContent::text);
            let text = git_config::without_harmful_lines(path, content.text()?, before)?;
            let bytes = text.into_bytes();
            let mode = content.mode;
            Some(FileContent { bytes, mode })
        });
        let is_stripped = stripped.is_some();
        let before = stripped.or(before);
        let kept = state
            .moved
            .get(path)
            .filter(|(moved, _)| Some(moved) == content.as_ref());
        let kept = kept.map(|(_, request)| request.clone());
        let done = match self.records.get() {
            Some(records) => records.put_back(path, before.as_ref(), kept.as_ref()),
            None => Err(io::Error::other("there is no trash here")),
        };
        let replaced = match (&before, was_there) {
            _ if is_stripped => Replacement::WithoutHarm,
            (Some(_), _) => Replacement::ContentBefore,
            (None, true) => Replacement::Lost,
            (None, false) => Replacement::Nothing,
        };
        let put_backs = state.put_backs.entry(path.to_owned()).or_default();
        *put_backs += 1;
        let is_loop = put_backs.is_multiple_of(MAX_PUT_BACKS);
        let mut text = describe_change(path, was_there, why, replaced, &done);
        if let Some(writers) = &writers {
            text.push_str(WRITERS_ENDED);
            state.kill_commands(&writers.commands);
        } else if is_loop {
            text.push_str(&describe_loop_end(*put_backs));
            let all: Vec<u64> = state.live.iter().map(|live| live.id).collect();
            state.kill_commands(&all);
        }
        // A file that could not be moved is told of once. Another that a command made there since is not accepted.
        if let Ok(metadata) = path.symlink_metadata()
            && (done.is_err() || is_content_of(path, before.as_ref()))
        {
            state.remember(path, path_stamp(&metadata), before);
        }
        let request = done.ok().flatten();
        if let (Some(content), Some(request)) = (content, &request) {
            state
                .moved
                .insert(path.to_owned(), (content, request.clone()));
        }
        if kept.is_none() || is_loop || writers.is_some() {
            let change = ProtectedPathChange {
                path: path.to_owned(),
                request,
                text: text.clone(),
            };
            self.records
                .get()
                .iter()
                .for_each(|records| records.notify_owner(&change));
            state.told.push(text);
        }
    }
}

/// Returns whether a file has the bytes that were put back.
fn is_content_of(path: &Path, before: Option<&FileContent>) -> bool {
    let found = FileContent::read_small(path);
    before.is_some_and(|before| found.is_some_and(|found| found.bytes == before.bytes))
}
