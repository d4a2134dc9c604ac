//! The parts of `punie-runner` that every other crate of it may use.
//!
//! Read first: [`ids::RequestId`] and the other identifiers; [`durable`] for every file that must survive a crash;
//! [`request_session::RequestSession`], for whom a call works. It uses no other crate of ours.
//!
//! - [`ids`]: the identifiers of the wire, each checked once, when it comes in.
//! - [`tool_effect`]: the most that a tool may do.
//! - [`approval_answer`]: the answers to an approval question.
//! - [`bounded_file`]: files that any program may have put there, read without a wait and up to a limit.
//! - [`caller_name`]: the form of a caller's name, and the names that have a meaning of their own.
//! - [`clock`]: the clocks of this machine, and the time by which old things may be deleted.
//! - [`content_hash`]: the hash of a content that is read piece by piece.
//! - [`durable`]: files that a crash leaves whole.
//! - [`file_metadata`]: permission bits and the identity of a file, on systems that have them.
//! - [`heap_memory`]: the memory that the C library holds for the heap.
//! - [`host_traffic`]: the numbers of a command's traffic with a host.
//! - [`owner_choices`]: choices of the owner that the configuration names and other crates act on.
//! - [`record_locks`]: the locks of SQLite, held by the open file and not by the process.
//! - [`lock_wait`]: the wait for another process that keeps an SQLite file locked.
//! - [`failpoint`]: points at which a test can end the process; nothing in a normal build.
//! - [`request_session`]: the client and the folders of the session that a request belongs to.
//! - [`runner_home`]: the mark by which a folder is recognised as a home of this program.
//! - [`variable_name`]: the form of an environment variable's name.
//! - [`visible_text`]: the characters that a reader cannot see.

pub mod approval_answer;
pub mod bounded_file;
pub mod caller_name;
pub mod clock;
pub mod content_hash;
pub mod durable;
pub mod failpoint;
pub mod file_metadata;
pub mod heap_memory;
pub mod host_traffic;
pub mod ids;
pub mod lock_wait;
pub mod owner_choices;
pub mod record_locks;
pub mod request_session;
pub mod runner_home;
pub mod tool_effect;
pub mod variable_name;
pub mod visible_text;
