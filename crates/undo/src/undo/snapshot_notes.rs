//! What an undo says besides the paths: what the snapshots of a call do not cover, and which other requests' changes
//! they show as well.

use super::super::display_path;
use super::super::snapshot::{CallStart, MovedRef, SnapshotEnd};
use super::UndoPlan;
use super::snapshot_coverage::SnapshotCoverage;

const UNCOVERED: &str =
    "not covered: most of what git ignores, .git, and what lies outside of the workspaces";

/// The shortest run in which a person may well have changed something meanwhile.
const LONG_RUN_MS: i64 = 10_000;

/// Says of a long run that what others changed meanwhile cannot be told apart.
fn describe_long_run(ran_ms: i64) -> Option<String> {
    let seconds = ran_ms / 1_000;
    (ran_ms >= LONG_RUN_MS).then(|| {
        format!("the request ran for {seconds} s: what you changed in the workspaces meanwhile counts as its own")
    })
}

impl UndoPlan<'_> {
    /// Says what the snapshots do not show: refs, folders without a snapshot.
    pub(super) fn add_snapshot_notes(&mut self, coverage: &SnapshotCoverage) {
        if !coverage.ends.is_empty() {
            self.notes.push(UNCOVERED.to_owned());
        }
        let ended_at_ms = coverage.ends.iter().map(|end| end.ended_at_ms).max();
        let ran_ms = ended_at_ms.map(|ended| ended - self.entry.at_ms);
        self.notes.extend(ran_ms.and_then(describe_long_run));
        for end in &coverage.ends {
            let folder = display_path(&end.folder.0);
            if let Some(why) = &end.off {
                self.notes.push(format!("not covered: {folder} ({why})"));
            }
            if end.is_end_unseen {
                self.notes.push(format!(
                    "the runner did not see the end of this request: what was changed in {folder} until the next start \
                     counts as its own"
                ));
            }
            self.add_notes_on_refs(end);
        }
    }

    fn add_notes_on_refs(&mut self, end: &SnapshotEnd) {
        if end.moved_refs.iter().any(MovedRef::is_repository_gone) {
            let shown = display_path(&end.folder.0.join(".git"));
            self.notes.push(format!(
                "{shown}: the request removed it, and it is not put back"
            ));
            return;
        }
        let ways = end.moved_refs.iter();
        self.notes
            .extend(ways.map(|moved| moved.describe_way_back(&end.folder.0)));
    }

    /// Names the other requests whose changes the snapshots show as well.
    pub(super) fn add_notes_on_others(
        &mut self,
        coverage: &SnapshotCoverage,
        running: &[CallStart],
    ) {
        let ended_at_ms = coverage.ends.iter().map(|end| end.ended_at_ms).max();
        for other in self.all {
            let theirs = SnapshotCoverage::from_entry(other);
            let their_end = theirs.ends.iter().map(|end| end.ended_at_ms).max();
            let is_beside = other.request != self.entry.request
                && other.undone_at_ms.is_none()
                && ended_at_ms.is_some_and(|ended| other.at_ms < ended)
                && their_end.unwrap_or(other.at_ms) > self.entry.at_ms
                && other
                    .changed_paths()
                    .into_iter()
                    .any(|path| coverage.changes.contains_key(path));
            if is_beside {
                self.notes.push(format!(
                    "request {} ran at the same time: the changes of the two cannot be told apart",
                    other.request
                ));
            }
        }
        let is_covered = |call: &CallStart| {
            let mut tops = call.folders.iter().map(|start| &start.top);
            tops.any(|top| coverage.ends.iter().any(|end| end.folder == *top))
        };
        for call in running {
            if ended_at_ms.is_some_and(|ended| call.at_ms < ended) && is_covered(call) {
                self.notes.push(format!(
                    "request {} ran at the same time, and still runs: the changes of the two cannot be told apart",
                    call.request
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::describe_long_run;

    #[test]
    fn only_a_long_run_is_named() {
        assert_eq!(describe_long_run(9_999), None);
        assert_eq!(describe_long_run(-5), None);
        let text = describe_long_run(61_000).expect("long");
        assert!(text.contains("ran for 61 s"), "{text}");
    }
}
