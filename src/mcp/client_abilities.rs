//! What a client says about itself: the folders that it works in, and whether it shows forms to a person.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio::time::timeout;

use super::device_link::LinkError;

/// The longest wait for the client to name its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a client's name, as a request takes it.
const MAX_NAME_BYTES: usize = 128;

/// Returns the folders that a client works in; none if it cannot name them, or names none.
#[expect(
    deprecated,
    reason = "editors name their folders so; later versions of the protocol drop it"
)]
pub(super) async fn named_roots(client: &Peer<RoleServer>) -> Result<Vec<PathBuf>, LinkError> {
    let names_roots = client
        .peer_info()
        .is_some_and(|info| info.capabilities.roots.is_some());
    if !names_roots {
        return Ok(Vec::new());
    }
    let failed = |why: &str| LinkError(format!("the client did not name its roots: {why}"));
    let listed = timeout(ROOTS_TIMEOUT, client.list_roots()).await;
    let listed = listed.map_err(|_| failed("no answer"))?;
    let roots = listed.map_err(|error| failed(&error.to_string()))?.roots;
    let folders: Result<Vec<PathBuf>, LinkError> = roots
        .iter()
        .map(|root| {
            let url = reqwest::Url::parse(&root.uri).ok();
            let path = url
                .filter(|url| url.scheme() == "file")
                .and_then(|url| url.to_file_path().ok());
            path.ok_or_else(|| {
                LinkError(format!(
                    "the root {} is no folder of this machine",
                    root.uri
                ))
            })
        })
        .collect();
    folders
}

/// Returns the name by which the client's program calls itself, for people.
pub(super) fn client_name(client: &Peer<RoleServer>) -> String {
    let info = client.peer_info();
    let named = info.map(|info| {
        let program = &info.client_info;
        program.title.as_ref().unwrap_or(&program.name).clone()
    });
    let mut name = named.unwrap_or_default();
    name.retain(|letter| !letter.is_control());
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    if name.trim().is_empty() {
        "An MCP client".clone_into(&mut name);
    }
    name
}

/// Returns whether the client shows forms to a person.
pub(super) fn has_forms(client: &Peer<RoleServer>) -> bool {
    client.peer_info().is_some_and(|info| {
        let elicitation = info.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    })
}
