//! Trees of files that the home takes in whole: listed, hashed and copied into a staging folder, and put in place so that
//! a kill leaves the old or the new one. Imports, packages and bridges work with them. Not here: the records of what is
//! installed, which these three keep, and changes of single files in a workspace (handlers).

mod file_tree;
mod tree_change;

pub(crate) use file_tree::{FileTree, TreeLimits, create_link, create_plain_file};
pub(crate) use tree_change::{TreeChange, is_there, remove_tree, sync_staged};
