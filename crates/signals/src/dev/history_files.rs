//! The formats of the history files of shells.

/// The format of a history, by the shell that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryFormat {
    /// bash, and other shells that write one command a line.
    Bash,
    Zsh,
    Fish,
    PowerShell,
}

/// Returns the commands of a history file, the oldest first. A command can have several lines.
pub(super) fn parse_history(format: HistoryFormat, bytes: &[u8]) -> Vec<String> {
    match format {
        HistoryFormat::Bash => parse_bash(&String::from_utf8_lossy(bytes)),
        HistoryFormat::Zsh => parse_zsh(&String::from_utf8_lossy(&remove_zsh_meta(bytes))),
        HistoryFormat::Fish => parse_fish(&String::from_utf8_lossy(bytes)),
        HistoryFormat::PowerShell => parse_power_shell(&String::from_utf8_lossy(bytes)),
    }
}

/// Returns whether a text is written as zsh writes it with `EXTENDED_HISTORY`.
pub(super) fn is_extended_zsh(bytes: &[u8]) -> bool {
    let first_line = bytes.split(|&byte| byte == b'\n').next().unwrap_or(bytes);
    without_zsh_prefix(&String::from_utf8_lossy(first_line)).is_some()
}

/// With `HISTTIMEFORMAT` bash writes a line with the time before each command, which then can have several lines.
fn parse_bash(text: &str) -> Vec<String> {
    let is_time = |line: &str| {
        line.strip_prefix('#').is_some_and(|seconds| {
            !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let mut commands: Vec<String> = Vec::new();
    let mut has_time = false;
    let mut is_first_line = true;
    for line in text.lines() {
        if is_time(line) {
            (has_time, is_first_line) = (true, true);
        } else if let Some(command) = commands.last_mut()
            && has_time
            && !is_first_line
        {
            command.push('\n');
            command.push_str(line);
        } else {
            commands.push(line.to_owned());
            is_first_line = false;
        }
    }
    commands
}

/// The byte before each byte that zsh uses inside itself. That one is written with its sixth bit changed.
const ZSH_META: u8 = 0x83;

fn remove_zsh_meta(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            ZSH_META => plain.extend(bytes.next().map(|byte| byte ^ 0x20)),
            byte => plain.push(byte),
        }
    }
    plain
}

/// Returns the command after `: TIME:DURATION;`.
fn without_zsh_prefix(line: &str) -> Option<&str> {
    let (times, command) = line.strip_prefix(": ")?.split_once(';')?;
    let (start, duration) = times.split_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(start.trim()) && is_number(duration)).then_some(command)
}

/// zsh writes a line break within a command as a backslash at the end of a line.
fn parse_zsh(text: &str) -> Vec<String> {
    join_continued_lines(text, '\\', |line| without_zsh_prefix(line).unwrap_or(line))
}

/// Joins the lines of each command. All but its last line end with the mark; the first one is shortened by `command_of`.
fn join_continued_lines(text: &str, mark: char, command_of: impl Fn(&str) -> &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut command = command_of(line).to_owned();
        while command.ends_with(mark) {
            command.pop();
            let Some(next) = lines.next() else { break };
            command.push('\n');
            command.push_str(next);
        }
        commands.push(command);
    }
    commands
}

/// fish writes `- cmd: COMMAND` with line breaks and backslashes escaped, and lines with details that are indented.
fn parse_fish(text: &str) -> Vec<String> {
    let command = |line: &str| {
        let mut command = String::new();
        let mut characters = line.strip_prefix("- cmd: ")?.chars();
        while let Some(character) = characters.next() {
            if character != '\\' {
                command.push(character);
                continue;
            }
            match characters.next() {
                Some('n') => command.push('\n'),
                Some('\\') | None => command.push('\\'),
                Some(other) => command.extend(['\\', other]),
            }
        }
        Some(command)
    };
    text.lines().filter_map(command).collect()
}

/// PSReadLine writes a line break within a command as a backtick at the end of a line.
fn parse_power_shell(text: &str) -> Vec<String> {
    join_continued_lines(text.trim_start_matches('\u{feff}'), '`', |line| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(format: HistoryFormat, bytes: impl AsRef<[u8]>) -> Vec<String> {
        parse_history(format, bytes.as_ref())
    }

    #[test]
    fn bash_with_and_without_times() {
        let plain = parse(HistoryFormat::Bash, "git pull\n#comment\nls\n");
        assert_eq!(plain, ["git pull", "#comment", "ls"]);
        let timed = "old\n#1700000000\nfor x in a b\ndo git pull\ndone\n#1700000001\nls\n";
        assert_eq!(
            parse(HistoryFormat::Bash, timed),
            ["old", "for x in a b\ndo git pull\ndone", "ls"]
        );
    }

    #[test]
    fn zsh_extended_multi_line_and_metafied() {
        let extended =
            ": 1700000000:0;git pull\n: 1700000001:12;echo a\\\necho b\nplain; command\n";
        assert_eq!(
            parse(HistoryFormat::Zsh, extended),
            ["git pull", "echo a\necho b", "plain; command"]
        );
        assert!(is_extended_zsh(extended.as_bytes()) && !is_extended_zsh(b": a:b;c"));
        assert_eq!(
            parse(HistoryFormat::Zsh, ": not a time;x\n"),
            [": not a time;x"]
        );
        // As zsh 5.9 writes `cd /tmp/Käse/naïve/日本`.
        let written = b"cd /tmp/K\xc3\xa4se/na\xc3\xafve/\xe6\x83\xb7\xa5\xe6\x83\xbc\xac\n";
        assert_eq!(
            parse(HistoryFormat::Zsh, written),
            ["cd /tmp/Käse/naïve/日本"]
        );
        assert_eq!(parse(HistoryFormat::Zsh, b"end\\"), ["end"]);
        assert_eq!(parse(HistoryFormat::Zsh, b"end\x83"), ["end"]);
    }

    #[test]
    fn fish_and_power_shell() {
        let fish = "- cmd: git pull\n  when: 1700000000\n- cmd: echo a\\\\n\\nb \\$x\n  when: 1\n  paths:\n    - x\n- cmd: ";
        assert_eq!(
            parse(HistoryFormat::Fish, fish),
            ["git pull", "echo a\\n\nb \\$x", ""]
        );
        let power_shell = "\u{feff}cd C:\\dev\r\nGet-Item `\r\n  x\r\n";
        assert_eq!(
            parse(HistoryFormat::PowerShell, power_shell),
            ["cd C:\\dev", "Get-Item \n  x"]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_history(bytes: Vec<u8>) {
            for format in [HistoryFormat::Bash, HistoryFormat::Zsh, HistoryFormat::Fish, HistoryFormat::PowerShell] {
                let lines = bytes.split(|&byte| byte == b'\n').count();
                proptest::prop_assert!(parse_history(format, &bytes).len() <= lines + bytes.len());
            }
        }

        #[test]
        fn commands_are_read_as_zsh_wrote_them(commands: Vec<String>) {
            let commands: Vec<String> = commands
                .into_iter()
                .map(|command| command.replace(['\r', '\0'], "") + "x")
                .collect();
            let mut written = Vec::new();
            for command in &commands {
                written.extend(b": 1700000000:0;");
                for &byte in command.as_bytes() {
                    // The bytes that zsh 5.9 marks.
                    match byte {
                        0x83..=0xa2 => written.extend([ZSH_META, byte ^ 0x20]),
                        b'\n' => written.extend(b"\\\n"),
                        other => written.push(other),
                    }
                }
                written.push(b'\n');
            }
            proptest::prop_assert_eq!(parse_history(HistoryFormat::Zsh, &written), commands);
        }
    }
}
