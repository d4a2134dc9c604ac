//! The owner's orders to end what runs: a file for each, which the runner removes when it takes the order, and a file
//! of its outcome. They lie in the folder of the switches, which a running runner watches.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::private_files::{remove_file_if_exists, replace_private_file};
use super::switches::OwnerSwitches;
use punie_core::ids::RequestId;

/// The ending of the file of an order.
const ORDER: &str = "stop";
/// The ending of the file of its outcome.
const OUTCOME: &str = "stopped";

/// An order to end what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopOrder {
    /// Its own id.
    pub id: RequestId,
    /// The calls and commands to end.
    pub target: StopTarget,
}

/// The calls and commands that an order ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopTarget {
    /// All running calls, background shells and lasting terminals.
    Everything,
    /// The call of this request, or the background shell or lasting terminal of this id.
    One(String),
}

/// The outcome of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopOutcome {
    /// The calls that ended, by request.
    pub calls: Vec<RequestId>,
    /// The calls that had not begun and never will, by request.
    pub withdrawn: Vec<RequestId>,
    /// The background shells and lasting terminals that ended, by id.
    pub shells: Vec<String>,
    /// The calls, shells and processes that did not end, for people.
    pub left: Vec<String>,
}

impl OwnerSwitches {
    fn order_file(&self, id: &RequestId, ending: &str) -> PathBuf {
        self.folder.join(format!("{id}.{ending}"))
    }

    /// Submits an order to the running runner. Returns the order's id.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: a target is always JSON.
    pub fn submit_stop_order(&self, target: &StopTarget) -> Result<RequestId, HomeError> {
        let id = RequestId::new();
        let text = serde_json::to_vec(target).expect("a word and a text are JSON");
        replace_private_file(&self.order_file(&id, ORDER), &text)?;
        Ok(id)
    }

    /// Takes all submitted orders. Each is taken only once.
    pub fn take_stop_orders(&self) -> Vec<StopOrder> {
        let mut orders: Vec<StopOrder> = self
            .files_with_ending(ORDER)
            .into_iter()
            .filter_map(|path| {
                let id = RequestId::parse(path.file_stem()?.to_str()?).ok()?;
                let text = fs::read(&path).ok()?;
                if !remove_file_if_exists(&path).ok()? {
                    return None;
                }
                let target = serde_json::from_slice(&text)
                    .inspect_err(|error| tracing::warn!(%error, "a stop order cannot be read"))
                    .ok()?;
                Some(StopOrder { id, target })
            })
            .collect();
        orders.sort_by(|a, b| a.id.cmp(&b.id));
        orders
    }

    /// Records the outcome of an order for the command that waits for it.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: lists of texts are always JSON.
    pub fn record_stop_outcome(
        &self,
        id: &RequestId,
        outcome: &StopOutcome,
    ) -> Result<(), HomeError> {
        let text = serde_json::to_vec(outcome).expect("lists of texts are JSON");
        replace_private_file(&self.order_file(id, OUTCOME), &text)
    }

    /// Takes the outcome of an order, once it is there.
    pub fn take_stop_outcome(&self, id: &RequestId) -> Option<StopOutcome> {
        let path = self.order_file(id, OUTCOME);
        let outcome = serde_json::from_slice(&fs::read(&path).ok()?).ok();
        self.withdraw_stop_order(id);
        outcome
    }

    /// Removes an order that nobody waits for any more.
    pub fn withdraw_stop_order(&self, id: &RequestId) {
        for ending in [ORDER, OUTCOME] {
            remove_with_warning(&self.order_file(id, ending));
        }
    }

    /// Removes the orders that were submitted to an earlier run of the runner.
    pub fn remove_stop_orders(&self) {
        for ending in [ORDER, OUTCOME] {
            for path in self.files_with_ending(ending) {
                remove_with_warning(&path);
            }
        }
    }

    fn files_with_ending(&self, ending: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|own| own == ending))
            .collect()
    }
}

fn remove_with_warning(path: &Path) {
    if let Err(error) = remove_file_if_exists(path) {
        tracing::warn!(path = %path.display(), %error, "a stop order stays though it is over");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    #[test]
    fn an_order_is_taken_once_and_its_outcome_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let switches = OwnerSwitches::in_home(&home);
        let one = StopTarget::One("sh_1".to_owned());
        let ids = [&StopTarget::Everything, &one]
            .map(|target| switches.submit_stop_order(target).expect("written"));
        fs::write(home.switches_dir().join("torn.stop"), "{").expect("written");
        let taken = switches.take_stop_orders();
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(|order| ids.contains(&order.id)));
        assert!(taken.iter().any(|order| order.target == one));
        assert_eq!(switches.take_stop_orders(), []);
        let outcome = StopOutcome {
            shells: vec!["sh_1".to_owned()],
            ..StopOutcome::default()
        };
        assert_eq!(switches.take_stop_outcome(&ids[1]), None);
        switches
            .record_stop_outcome(&ids[1], &outcome)
            .expect("written");
        assert_eq!(switches.take_stop_outcome(&ids[1]), Some(outcome));
        assert_eq!(switches.take_stop_outcome(&ids[1]), None);
        switches.submit_stop_order(&one).expect("written");
        switches.remove_stop_orders();
        let left = fs::read_dir(home.switches_dir()).expect("a folder").count();
        assert_eq!((switches.take_stop_orders().len(), left), (0, 0));
    }
}
