//! The source of a file's text: the disk, or a connected editor with possibly unsaved changes.

/// The source of a file's text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TextSource {
    /// The disk; no editor follows the call, or the file is not in the editor's project.
    #[default]
    Disk,
    /// The disk, although an editor has the file, for this reason: a sentence.
    DiskInstead(String),
    /// An editor.
    Editor {
        /// Its name.
        name: String,
        /// The text differs from the disk.
        unsaved: bool,
    },
}

impl TextSource {
    /// Returns a note for readers of the text if it is not on disk.
    pub fn unsaved_note(&self) -> Option<String> {
        match self {
            Self::Editor {
                name,
                unsaved: true,
            } => Some(format!("unsaved in {name}; the file on disk differs")),
            _ => None,
        }
    }

    /// Returns whether the text is not on disk.
    pub fn is_unsaved(&self) -> bool {
        matches!(self, Self::Editor { unsaved: true, .. })
    }

    /// Returns the reason why an editor that has the file was not used.
    pub fn disk_warning(&self) -> Option<&str> {
        match self {
            Self::DiskInstead(why) => Some(why),
            _ => None,
        }
    }

    /// Returns `editor` if it was one, for a reply's metadata.
    pub fn label(&self) -> Option<String> {
        matches!(self, Self::Editor { .. }).then(|| "editor".to_owned())
    }
}
