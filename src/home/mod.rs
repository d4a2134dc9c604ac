//! The runner's home, `~/.punie`: its layout, its file modes, and the owner's files in it.
//!
//! Read first: [`Home`], the folder, whose methods name each file in it; [`SecretStore`], the owner's secrets, and which
//! commands get them; [`CatalogEntry`], a skill or an agent as the backend and the tools see it.
//!
//! The engine, the tools, the editor, undo, this machine and the program use this crate. It uses `punie-core` and
//! `punie-text`.

#![cfg_attr(
    not(all(
        feature = "bridges",
        feature = "packages",
        feature = "people",
        feature = "signals"
    )),
    allow(dead_code, reason = "some helpers serve a left-out part alone")
)]

mod agents;
mod approvals;
mod background_runner;
#[cfg(feature = "bridges")]
mod bridges;
mod canary_file;
mod catalog_size;
mod catalog_watch;
mod command_hint;
mod device_identity;
mod disk_usage;
mod document_checks;
mod document_file;
mod embedded_backend;
mod error;
mod file_modes;
mod folder_watch;
mod frontmatter;
#[cfg(any(fuzzing, debug_assertions))]
pub mod fuzzing;
mod home_document;
mod home_problem;
mod home_removal;
#[cfg(feature = "people")]
mod identity_map;
mod import;
mod in_force_file;
mod installed_tree;
mod keychain;
mod layout;
mod layout_check;
mod loaded_versions;
mod machine_id;
mod mcp_token;
#[cfg(feature = "packages")]
mod mods;
#[cfg(feature = "packages")]
mod mods_layout;
mod mounted_secrets;
mod name_grammar;
mod new_device;
mod owner_notices;
#[cfg(feature = "packages")]
mod packages;
mod people;
mod plugin_folder;
mod plugins;
mod policy_files;
mod presence;
mod private_files;
mod question_input;
mod request_key;
mod runner_lock;
mod sealed_text;
mod secret_mounts;
mod secrets;
mod secrets_key;
#[cfg(feature = "signals")]
mod signal_consents;
mod skills;
mod state_file;
mod stop_orders;
mod supervision;
mod switches;
mod threads;
mod tokens;
mod trash_layout;

pub use agents::{AgentDefinition, load_agents};
pub use approvals::{AnswerResult, ApprovalQuestions, ListedQuestion, OpenQuestion};
pub use background_runner::{BackgroundRunner, RunnerStartLock, SuccessorProgram};
#[cfg(feature = "bridges")]
pub use bridges::{
    BridgeError, BridgeFolders, BridgeLock, BridgeRecord, BridgeRun, BridgeStore, BridgesState,
    StagedBridge, WantedState, check_bridge_name, check_pin, check_variable_name,
};
pub use canary_file::CanaryFile;
pub use catalog_size::fit_catalog;
pub use catalog_watch::CatalogWatch;
pub use command_hint::{GivenFlags, change_hint_flags, command_to_type, shell_word};
pub use device_identity::DeviceIdentity;
pub use embedded_backend::EmbeddedBackendAddress;
pub use error::{HomeError, HomeFailureKind};
pub use folder_watch::{FolderSignal, FolderWatch};
pub use home_document::{CatalogEntry, CopyTexts, DocumentKind, plugin_of_document, sort_keys};
pub use home_problem::{HomeProblem, ProblemEffect};
#[cfg(feature = "people")]
pub use identity_map::{
    IdentityMapError, IdentityMapStore, ListedPerson, NamedPerson, NewPerson, TextAliases,
};
pub use import::{
    DocumentImport, ImportHelp, ImportLine, ImportOptions, ImportResult, ImportSource,
    list_import_sources,
};
pub use in_force_file::InForceFile;
pub use layout::Home;
pub use layout_check::LayoutFaults;
pub use machine_id::MachineId;
pub use mcp_token::load_mcp_token;
#[cfg(feature = "packages")]
pub use mods::{
    AppliedBatch, AppliedFile, ChangePhase, FeatureRecord, FeatureStatus, FileState, ModLock,
    ModStore, PendingChange, PendingFinish, PendingStep, StagedFile, StagedFiles,
};
pub use mounted_secrets::{
    FOLDER_VARIABLE, MountedSecretFile, MountedSecrets, count_stale_mounts, remove_stale_mounts,
};
pub use new_device::set_identity_aside;
pub use owner_notices::OwnerNotice;
#[cfg(feature = "packages")]
pub use packages::{
    CanvasPackage, InstallResult, InstalledPackage, ListedPackage, NewPackage, PackageError,
    PackageKind, PackageReceipt, PackageStore, PluginPackage, RemovedPackage, SkillPackage,
    ThemePackage, check_package_id, describe_plugin_package, list_skill_secrets,
};
pub use people::{AskPeople, NobodyToAsk, PeopleAnswer, PeopleAsker, RunnerPeople};
pub use plugin_folder::{plugin_fingerprint, read_plugin_tools, store_plugin_tools};
pub use plugins::{ConfiguredServer, Plugin, RemoteServer, load_plugins};
pub use policy_files::{GrantFiles, PolicyFile, PolicyStamp};
pub use presence::{ApproverPresence, ClientPresence};
pub use question_input::{ChoiceOption, PersonReply, QuestionInput, read_own_words};
pub use request_key::{make_request_key, read_request_key};
pub use runner_lock::{ConfigLock, LockError, RunnerLock, RunnerLockHolder};
pub use secret_mounts::{MountPlace, SecretMount};
pub use secrets::{SecretEntry, SecretError, SecretRequest, SecretStore, check_secret_name};
pub use secrets_key::KeyPlace;
#[cfg(feature = "signals")]
pub use signal_consents::{ConsentAct, ConsentRecord, ConsentsInForce, SignalConsents};
pub use skills::{Skill, load_skills};
pub use stop_orders::{StopOrder, StopOutcome, StopTarget};
pub use supervision::{AskedConversations, StoppedConversation, SupervisionStore};
pub use switches::{OwnerSwitch, OwnerSwitches, SwitchState};
pub use threads::{StoredThread, ThreadAttachment, ThreadEvent, ThreadStore};
pub use tokens::{BackendTokens, TokenName, random_token};
