//! The setup that makes a command remove into the trash: names of this program in a folder that its PATH begins with,
//! and a variable that says for whom.
#![expect(
    clippy::disallowed_methods,
    reason = "this file lays out the names of the shims"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Trash;
use super::item_mover::ItemMover;
use super::shim::{NAMES, ShimEnv, VARIABLE};
use punie_core::ids::RequestId;
use punie_host::local::command_environment::{PathPrefix, PathPrefixSource};
use punie_host::{ReachableFolders, Workspace};

/// The trash, for commands in these workspaces.
#[derive(Debug)]
pub struct CommandShims {
    trash: Trash,
    workspaces: Vec<PathBuf>,
    mover: Option<ItemMover>,
}

impl CommandShims {
    /// Lays the names out for this program, which is found here, and opens the socket by which the shims have items moved.
    /// `hidden` are the paths that commands may not read. Without the socket, shims copy items one by one.
    ///
    /// # Errors
    /// The system's.
    pub fn install(
        trash: Trash,
        workspace: &Workspace,
        reachable: &ReachableFolders,
        hidden: &[PathBuf],
        program: &Path,
    ) -> io::Result<Self> {
        let folder = trash.home.trash_programs_dir();
        for name in NAMES {
            let link = folder.join(name);
            if fs::read_link(&link).is_ok_and(|target| target == program) {
                continue;
            }
            // Under another name first: a command that runs meanwhile finds the old one or the new one.
            let draft = folder.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
            std::os::unix::fs::symlink(program, &draft)?;
            fs::rename(&draft, &link)?;
        }
        let mover = ItemMover::start_serving(&trash.home, reachable, hidden)
            .inspect_err(|cause| tracing::warn!(%cause, "shims copy what they could have moved"));
        Ok(Self {
            mover: mover.ok(),
            trash,
            workspaces: workspace.root_paths().map(Path::to_owned).collect(),
        })
    }
}

impl PathPrefixSource for CommandShims {
    fn prefix_for_request(
        &self,
        request: &RequestId,
        folders: Option<&[PathBuf]>,
    ) -> Option<PathPrefix> {
        // An earlier command may have closed the folder, and with it the trash.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        if let Err(cause) = fs::set_permissions(self.trash.home.trash_incoming_dir(), open) {
            tracing::warn!(%cause, "commands may not be able to remove into the trash");
        }
        // What earlier commands removed is out of this one's reach.
        if let Err(cause) = self.trash.collect_removed() {
            tracing::warn!(%cause, "what commands have removed stays where they can reach it");
        }
        let programs = self.trash.home.trash_programs_dir();
        let proof = self.trash.proofs.make(&self.trash.home, request);
        let proof = proof
            .inspect_err(|cause| tracing::warn!(%cause, "nothing that commands remove is kept"));
        let env = ShimEnv {
            request: request.clone(),
            proof: proof.ok()?,
            into: self.trash.home.trash_incoming_dir(),
            // Half is for what file tools change.
            max_bytes: self.trash.limits().max_bytes / 2,
            workspaces: folders.unwrap_or(&self.workspaces).to_vec(),
            programs: programs.clone(),
            mover: self.mover.as_ref().map(|mover| mover.socket().to_owned()),
        };
        Some(PathPrefix {
            path: programs.to_str()?.to_owned(),
            variable: (VARIABLE.to_owned(), env.to_variable()?),
        })
    }
}
