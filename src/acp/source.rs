//! Where the text of a file comes from: the disk, or an editor that is connected and may have changed it since. Not
//! here: who decides that (`acp::editor`).

/// Where a file's text came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// The disk; no editor follows the call, or the file is none of its own.
    #[default]
    Disk,
    /// The disk, though an editor has the file, for this reason: a sentence.
    DiskInstead(String),
    /// An editor.
    Editor {
        /// Its name.
        name: String,
        /// The text is not what is on the disk.
        unsaved: bool,
    },
}

impl Source {
    /// What a reader of the text must know: that it is not on the disk.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Editor { name, unsaved: true } => {
                Some(format!("unsaved in {name}; the file on disk differs"))
            }
            _ => None,
        }
    }

    /// Whether it is text that is not on the disk.
    pub fn is_unsaved(&self) -> bool {
        matches!(self, Self::Editor { unsaved: true, .. })
    }

    /// Why an editor that has the file was left out.
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::DiskInstead(why) => Some(why),
            _ => None,
        }
    }

    /// `editor` where it was one; for an answer's facts.
    pub fn fact(&self) -> Option<String> {
        matches!(self, Self::Editor { .. }).then(|| "editor".to_owned())
    }
}
