//! The desktop files of Linux: the programs that a menu shows.

/// A program of a menu.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DesktopEntry {
    pub name: String,
    /// The file name of the program that it starts, if that is not a launcher of other programs.
    pub program: Option<String>,
    /// Whether the menu leaves it out.
    pub is_hidden: bool,
}

/// Programs that start another one: a process of their name says nothing.
const LAUNCHERS: [&str; 10] = [
    "bash",
    "env",
    "flatpak",
    "gapplication",
    "java",
    "pkexec",
    "python3",
    "sh",
    "snap",
    "xdg-open",
];

/// Reads a desktop file. Returns `None` if it is not that of a program.
pub(super) fn parse_desktop_entry(text: &str) -> Option<DesktopEntry> {
    let mut entry = DesktopEntry {
        name: String::new(),
        program: None,
        is_hidden: false,
    };
    let mut is_application = false;
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == "[Desktop Entry]")?;
    // Other groups are further actions of the program.
    for line in lines.take_while(|line| !line.starts_with('[')) {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.trim_start();
        match key.trim_end() {
            "Type" => is_application = value == "Application",
            "Name" => value.clone_into(&mut entry.name),
            "NoDisplay" | "Hidden" => entry.is_hidden |= value == "true",
            "Exec" => entry.program = started_program(value),
            _ => {}
        }
    }
    (is_application && !entry.name.is_empty()).then_some(entry)
}

fn started_program(command: &str) -> Option<String> {
    let program = match command.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => command.split_whitespace().next(),
    };
    let name = program?.rsplit('/').next()?;
    (!name.is_empty() && !LAUNCHERS.contains(&name)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_desktop_file_is_read() {
        let text = "# comment\n[Desktop Entry]\nType = Application\nName=Text Editor\nName[de]=Editor\n\
            Exec=\"/opt/my editor/editor-bin\" %U\n[Desktop Action new]\nName=New\nExec=other\nHidden=true\n";
        let entry = parse_desktop_entry(text).expect("an entry");
        assert_eq!(entry.name, "Text Editor");
        assert_eq!(entry.program.as_deref(), Some("editor-bin"));
        assert!(!entry.is_hidden);
        let hidden = "[Desktop Entry]\nType=Application\nName=x\nNoDisplay=true\nExec=env A=1 x\n";
        let hidden = parse_desktop_entry(hidden).expect("an entry");
        assert!(hidden.is_hidden && hidden.program.is_none());
        for other in [
            "",
            "[Desktop Entry]\nType=Link\nName=x\n",
            "[X]\nType=Application\nName=x",
        ] {
            assert_eq!(parse_desktop_entry(other), None, "{other}");
        }
    }
}
