//! The runner's home, `~/.punie`: its layout, its file modes, and the owner's files in it. Not here: the content of the
//! journal and the stored outputs, and parsing `config.toml`.

mod agents;
mod approvals;
mod device;
mod document;
mod error;
mod frontmatter;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod keychain;
mod layout;
mod lock;
mod machine;
mod modes;
mod mounted;
mod new_device;
mod policy;
mod request_key;
mod sealed;
mod secret_mounts;
mod secrets;
mod skills;
mod supervision;
mod switches;
mod threads;
mod tokens;
mod watch;

pub use agents::{Agent, load_agents};
pub use approvals::{Approvals, OpenQuestion};
pub use device::DeviceIdentity;
pub use document::{CatalogItem, Problem};
pub use error::{Cause, HomeError};
pub use layout::Home;
pub use lock::{Holder, LockError, RunnerLock};
pub use machine::Machine;
pub use mounted::{FOLDER_VARIABLE, Mounted, MountedFile, remove_left};
pub use new_device::set_aside;
pub use policy::{GrantFiles, PolicyFile, PolicyStamp};
pub use request_key::{make_request_key, read_request_key};
pub use secret_mounts::{MountPlace, SecretMount};
pub use secrets::{KeyPlace, SecretEntry, SecretError, Secrets, SecretsWatch};
pub use skills::{Skill, load_skills};
pub use supervision::{AskedConversations, StoppedConversation, Supervision};
pub use switches::{Switch, SwitchWatch, SwitchedOn, Switches};
pub use threads::{Attachment, Thread, ThreadEvent, Threads};
pub use tokens::{TokenName, Tokens, fresh_token};
pub use watch::Watch;
