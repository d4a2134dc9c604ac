//! Plans a command that a caller requests: its arguments, its environment, its confinement, and the marks that track
//! its processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::child_log::call_mark;
use super::child_tracking::ChildTracking;
use super::command_checks::{check_command, check_working_folder, resolve_program};
use super::command_environment::{DEFAULT_PATH, RequestEnvironment, insert_secrets};
#[cfg(target_os = "linux")]
use super::confinement::ConfinedProcess;
use super::confinement::Confinement;
use super::descriptor_limit;
use super::local_terminals::LocalTerminals;
use super::protected_path_watch::ProtectedPathWatch;
use super::pty;
use super::self_test_run::wrap_program;
use super::spawn_plan::SpawnPlan;
use crate::network_proxy::{CallNetwork, NetworkCaller, add_proxy_variables};
use crate::protected_path::make_named_working_trees;
use crate::terminals::CreateTerminal;
use punie_home::MountedSecrets;
use punie_sandbox::{NetworkAccess, SandboxProfile};
use punie_text::output::OutputStore;
use punie_tool::ToolError;

/// A command that can be started.
pub(super) struct PlannedCommand {
    pub plan: SpawnPlan,
    pub tracking: ChildTracking,
    /// The mark by which its processes are found.
    pub mark: String,
    /// The protected paths of the workspaces.
    pub watch: Option<ProtectedPathWatch>,
    /// Its network, if it reaches other hosts through the proxy.
    pub network: Option<Arc<CallNetwork>>,
    pub confinement: Confinement,
}

impl LocalTerminals {
    /// Plans a command, or returns why it must not run.
    pub(super) async fn plan_command(
        &self,
        request: &CreateTerminal,
    ) -> Result<PlannedCommand, ToolError> {
        // First: the confinement of a session begins with what the login shell's variables name.
        self.user_environment().await;
        if !descriptor_limit::has_free_descriptors() {
            return Err(descriptor_limit::no_descriptors_error());
        }
        check_command(&request.launch)?;
        check_working_folder(&request.cwd)?;
        let confinement = self.confinement_for(request);
        let words = confinement.wrapper_arguments(&request.cwd).await?;
        let (program, args) = resolve_program(&request.launch)?;
        let (program, args) = wrap_program(words, program, args);
        if confinement.level().await.protects_paths() {
            make_named_working_trees(&request.cwd, &request.launch.to_string());
        }
        let watch = confinement.watch_protected_paths(&request.cwd).await;
        let watch = watch.map(|watch| watch.for_command(&request.launch));
        let RequestEnvironment {
            variables: mut env,
            temp,
            network,
        } = self.environment_of_request(request).await?;
        let mounted = request.mounted.as_deref();
        let shown_folder = mounted.and_then(MountedSecrets::folder);
        let folders = (shown_folder, temp.as_deref());
        let profile = build_command_profile(&confinement, watch.as_ref(), folders, request).await?;
        let mark = call_mark(&request.request, request.output_number);
        if let Some((name, value)) = mark.split_once('=') {
            env.insert(name.to_owned(), value.to_owned());
        }
        if request.tty.is_some() {
            env.insert("TERM".to_owned(), pty::TERM_NAME.to_owned());
        }
        let tracking = self.track_command(request, &mark);
        let plan = SpawnPlan {
            program,
            args,
            env,
            cwd: request.cwd.clone(),
            stdin: request.stdin.clone(),
            serves: false,
            tty: request.tty,
            tracking: tracking.clone(),
            profile,
        };
        Ok(PlannedCommand {
            plan,
            tracking,
            mark,
            watch,
            network,
            confinement,
        })
    }

    /// Builds the environment of the programs of a request, and admits them to the network.
    pub(super) async fn environment_of_request(
        &self,
        request: &CreateTerminal,
    ) -> Result<RequestEnvironment, ToolError> {
        let user = self.user_environment().await;
        let mut variables = user.for_command(&request.env)?;
        if let Some(mounted) = request.mounted.as_deref() {
            insert_secrets(&mut variables, mounted)?;
        }
        let confinement = self.confinement_for(request);
        // Without the self-test it is not known whether there is a network for the proxy.
        confinement.level().await;
        confinement.set_temp_variables(&mut variables, &request.env);
        variables
            .entry("PATH".to_owned())
            .or_insert_with(|| DEFAULT_PATH.to_owned());
        let network = admit_to_network(&confinement, request, &mut variables);
        // Requests that name no conversation share their temporary files.
        let conversation = request.conversation.as_ref();
        let conversation = conversation.filter(|conversation| conversation.is_named());
        Ok(RequestEnvironment {
            variables,
            temp: conversation.and_then(|conversation| confinement.conversation_temp(conversation)),
            network,
        })
    }

    /// Returns the confinement of a command, narrowed to the folders of its session.
    fn confinement_for(&self, request: &CreateTerminal) -> Confinement {
        match &request.folders {
            Some(folders) => self.confinement().narrowed_to(folders),
            None => self.confinement().clone(),
        }
    }

    /// Chooses the means by which the command's processes are found, and the pipe of one that outlives the runner.
    fn track_command(&self, request: &CreateTerminal, mark: &str) -> ChildTracking {
        let mut tracking = ChildTracking::from_mark(mark, request.background);
        // A command with secrets must not keep them while no runner supervises it.
        if request.background
            && request.mounted.is_none()
            && let Some(folder) = self.shared.fifos.get()
        {
            let name = OutputStore::handle_for(&request.request, request.output_number);
            tracking.fifo = Some(folder.join(name.as_str()));
        }
        tracking
    }
}

/// Gives a command the proxy's address, if it reaches other hosts through the proxy.
fn admit_to_network(
    confinement: &Confinement,
    request: &CreateTerminal,
    env: &mut BTreeMap<String, String>,
) -> Option<Arc<CallNetwork>> {
    if request.whole_network {
        return None;
    }
    confinement.limit_network_retries(env);
    if confinement.effective_network() != NetworkAccess::Ask {
        return None;
    }
    let network = confinement.network_proxy().admit_call(NetworkCaller {
        tool: request.tool.to_owned(),
        command: request.launch.to_string(),
        request: request.request.clone(),
        conversation: request.conversation.clone(),
    });
    add_proxy_variables(network.key(), env);
    Some(network)
}

#[cfg(target_os = "linux")]
async fn build_command_profile(
    confinement: &Confinement,
    watch: Option<&ProtectedPathWatch>,
    (shown, temp): (Option<&Path>, Option<&Path>),
    request: &CreateTerminal,
) -> Result<Option<SandboxProfile>, ToolError> {
    let process = ConfinedProcess {
        watch,
        shown,
        temp,
        whole_network: request.whole_network,
    };
    confinement.sandbox_profile(process).await
}

#[cfg(not(target_os = "linux"))]
async fn build_command_profile(
    _confinement: &Confinement,
    _watch: Option<&ProtectedPathWatch>,
    _folders: (Option<&Path>, Option<&Path>),
    _request: &CreateTerminal,
) -> Result<Option<SandboxProfile>, ToolError> {
    Ok(None)
}
