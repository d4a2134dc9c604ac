//! The client on this machine: its file system and its processes.

pub(crate) mod argument_limit;
mod atomic_write;
#[cfg(target_os = "linux")]
mod child_descriptors;
pub mod child_log;
#[cfg(unix)]
mod child_process;
#[cfg(unix)]
mod child_tracking;
#[cfg(unix)]
mod command_capture;
#[cfg(unix)]
mod command_checks;
pub mod command_environment;
#[cfg(unix)]
mod command_plan;
#[cfg(unix)]
mod command_start;
#[cfg(unix)]
mod command_terminal;
pub mod confinement;
mod confinement_report;
#[cfg(target_os = "linux")]
mod connection_owner;
#[cfg(unix)]
mod control_group;
#[cfg(target_os = "linux")]
mod covered_files;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "covered_files_elsewhere.rs"]
mod covered_files;
pub mod descriptor_limit;
pub mod desktop_apps;
#[cfg(unix)]
mod disk_copy;
#[cfg(unix)]
pub(crate) mod editor_commands;
#[cfg(not(unix))]
#[path = "editor_commands_elsewhere.rs"]
pub(crate) mod editor_commands;
#[cfg(unix)]
mod extended_attributes;
mod file_content_writer;
mod file_form;
mod file_open;
mod file_removal;
mod folder_listing;
#[cfg(unix)]
mod folder_scan;
#[cfg(target_os = "linux")]
mod frozen_processes;
#[cfg(unix)]
mod git_config;
#[cfg(unix)]
pub mod group_limits;
#[cfg(unix)]
mod guard_state;
#[cfg(unix)]
mod guarded_places;
#[cfg(unix)]
mod hidden_output;
pub mod hook_environment;
#[cfg(unix)]
mod input_wait;
pub mod intent_recovery;
#[cfg(unix)]
mod known_repositories;
mod large_file_window;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
pub mod limit_mark;
#[cfg(unix)]
mod listening_sockets;
pub mod local_files;
#[cfg(target_os = "linux")]
mod local_ports;
#[cfg(unix)]
pub mod local_terminals;
#[cfg(not(unix))]
#[path = "local_terminals_elsewhere.rs"]
pub mod local_terminals;
#[cfg(unix)]
pub mod login_environment;
#[cfg(unix)]
pub mod memory_dumps;
mod mode_and_owner;
pub mod old_file;
#[cfg(unix)]
mod oom_kills;
pub mod other_processes;
#[cfg(unix)]
mod output_pipe;
#[cfg(unix)]
mod persistent_commands;
#[cfg(unix)]
pub mod process_attachment;
#[cfg(target_os = "linux")]
mod process_handle;
pub mod process_identity;
#[cfg(unix)]
pub mod process_kill;
#[cfg(unix)]
mod process_stat;
#[cfg(target_os = "linux")]
mod process_tags;
#[cfg(unix)]
mod process_tree;
#[cfg(unix)]
mod protected_path_guard;
#[cfg(unix)]
mod protected_path_monitor;
#[cfg(unix)]
mod protected_path_put_back;
#[cfg(unix)]
pub mod protected_path_records;
#[cfg(unix)]
mod protected_path_stamp;
#[cfg(unix)]
mod protected_path_watch;
#[cfg(unix)]
mod protected_paths;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
mod pump;
mod recent_indexes;
#[cfg(unix)]
mod recent_output;
pub mod running_program;
pub mod script_file;
#[cfg(unix)]
mod self_test_run;
pub mod service_launch;
#[cfg(unix)]
pub mod service_process;
#[cfg(not(unix))]
#[path = "service_process_elsewhere.rs"]
pub mod service_process;
pub mod shell_start_files;
mod similar_paths;
#[cfg(unix)]
mod spawn_plan;
mod stream_decoder;
#[cfg(unix)]
mod temp_cleanup;
mod temp_file;
#[cfg(target_os = "linux")]
pub mod terminal_holder;
mod text_detection;
mod text_lines;
mod text_window;
pub mod variable_names;
mod window_text;

#[cfg(unix)]
pub use command_checks::bash_path;
pub use mode_and_owner::copy_mode_and_owner;
pub use punie_sandbox::is_absent;
