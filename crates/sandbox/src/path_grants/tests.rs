//! Grants around hidden paths, and behind links.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

pub(crate) fn rules(home: &Path) -> SandboxRules {
    let least = SandboxRules::minimal(home.join(".punie"), home.join(".punie/tmp"));
    SandboxRules {
        workspaces: vec![home.join("work")],
        user_home: Some(home.to_owned()),
        shown: vec![home.join(".punie/skills")],
        own_folder: None,
        ..least
    }
}

/// Creates a home with secrets and returns its resolved path.
pub(crate) fn home() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().canonicalize().expect("real");
    for inside in [
        "work",
        ".punie",
        ".ssh",
        ".cargo/bin",
        ".config/gh",
        ".config/app",
        "dotfiles/aws",
    ] {
        fs::create_dir_all(home.join(inside)).expect("made");
    }
    symlink("dotfiles/aws", home.join(".aws")).expect("a link");
    (folder, home)
}

pub(crate) fn uses(rules: &SandboxRules, home: &Path, wanted: PathAccess) -> Vec<String> {
    let list = compute_grants(rules).expect("known");
    let below = list.iter().filter(|place| place.access == wanted);
    let mut names: Vec<String> = below
        .filter_map(|place| place.path.strip_prefix(home).ok())
        .map(|path| path.display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn the_home_is_read_but_for_what_is_hidden_and_where_links_to_that_lead() {
    let (_kept, home) = home();
    let read = uses(&rules(&home), &home, PathAccess::Read);
    assert_eq!(
        read,
        [".cargo", ".config/app", ".punie/skills", "work"],
        "dotfiles holds what .aws is"
    );
}

#[test]
fn the_owner_shows_and_hides_by_name() {
    let (_kept, home) = home();
    let rules = SandboxRules {
        read: vec![home.join(".ssh")],
        hide: vec![home.join(".cargo")],
        ..rules(&home)
    };
    let read = uses(&rules, &home, PathAccess::Read);
    assert_eq!(read, [".config/app", ".punie/skills", ".ssh", "work"]);
    let all = SandboxRules {
        read: vec![home.clone()],
        hide: Vec::new(),
        ..rules
    };
    let read = uses(&all, &home, PathAccess::Read);
    assert!(
        !read.contains(&".aws".to_owned()) && !read.contains(&".punie".to_owned()),
        "{read:?}"
    );
    assert!(
        read.contains(&".cargo".to_owned()) && !read.contains(&".ssh".to_owned()),
        "{read:?}"
    );
    let inside = SandboxRules {
        read: vec![home.join(".config/gh")],
        hide: vec![home.join(".config")],
        ..all
    };
    assert!(uses(&inside, &home, PathAccess::Read).contains(&".config/gh".to_owned()));
}

#[test]
fn a_toolchain_is_read_with_what_lies_beside_its_programs_and_a_persons_folder_is_not() {
    for (folder, granted) in [
        ("/root/.pyenv/shims", "/root/.pyenv"),
        ("/data/tools/go/bin", "/data/tools/go"),
        ("/data/tools", "/data/tools"),
        ("/root/bin", "/root/bin"),
        ("/home/b/bin", "/home/b/bin"),
        ("/home/b/.cargo/bin", "/home/b/.cargo"),
    ] {
        assert_eq!(
            installation_folder(Path::new(folder)),
            Path::new(granted),
            "{folder}"
        );
    }
}

#[test]
fn a_link_that_commands_may_have_made_leads_no_grant_anywhere() {
    let (_kept, home) = home();
    for (link, target) in [
        ("freed", ".ssh"),
        ("venv", ".config/gh"),
        ("sub", "dotfiles"),
        ("shown", ".ssh"),
    ] {
        symlink(home.join(target), home.join("work").join(link)).expect("a link");
    }
    let work = |name: &str| home.join("work").join(name);
    let rules = SandboxRules {
        write: vec![work("freed"), work("freed/deeper")],
        read: vec![work("shown")],
        search_path: vec![work("venv"), work("venv/bin")],
        workspaces: vec![home.join("work"), work("sub")],
        ..rules(&home)
    };
    assert_eq!(
        uses(&rules, &home, PathAccess::Write),
        [".punie/tmp", "work"]
    );
    assert_eq!(
        uses(&rules, &home, PathAccess::Read),
        [".cargo", ".config/app", ".punie/skills", "work"]
    );
    // Links that the owner created are followed.
    symlink(home.join(".cargo"), home.join("mine")).expect("a link");
    let rules = SandboxRules {
        write: vec![home.join("mine")],
        ..rules
    };
    assert_eq!(
        uses(&rules, &home, PathAccess::Write),
        [".cargo", ".punie/tmp", "work"]
    );
}

#[test]
fn a_folder_that_becomes_a_link_while_it_is_granted_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (_kept, home) = home();
    let sub = home.join("work/sub");
    let link = home.join("work/link");
    fs::create_dir(&sub).expect("made");
    symlink(home.join(".config/gh"), &link).expect("a link");
    let rules = SandboxRules {
        write: vec![sub.clone()],
        read: vec![sub.clone()],
        ..rules(&home)
    };
    let secret = home.join(".config/gh");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &sub, CWD, &link, RenameFlags::EXCHANGE).expect("exchanged");
            }
        });
        for _ in 0..500 {
            let granted = compute_grants(&rules).expect("known");
            assert!(
                granted.iter().all(|place| !place.path.starts_with(&secret)),
                "{granted:?}"
            );
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_workspace_that_holds_secrets_is_written_around_them() {
    let (_kept, home) = home();
    let rules = SandboxRules {
        workspaces: vec![home.clone()],
        ..rules(&home)
    };
    let write = uses(&rules, &home, PathAccess::Write);
    assert_eq!(write, [".cargo", ".config/app", ".punie/tmp", "work"]);
    let hidden = SandboxRules {
        hide: vec![home.clone()],
        workspaces: vec![home.join("work")],
        ..rules
    };
    assert_eq!(
        uses(&hidden, &home, PathAccess::Write),
        [".punie/tmp", "work"],
        "named, so not hidden"
    );
}

#[test]
fn a_process_with_less_access_reads_the_workspaces_or_sees_nothing_of_them() {
    let (_kept, home) = home();
    let with = |access| {
        SandboxRules {
            write: vec![home.join("dotfiles")],
            user_home: None,
            ..rules(&home)
        }
        .with_workspace_access(access)
    };
    let both = ["dotfiles", "work"];
    let used = |access, wanted| {
        let mut names = uses(&with(access), &home, wanted);
        names.retain(|name| both.contains(&name.as_str()));
        names
    };
    assert_eq!(used(WorkspaceAccess::Write, PathAccess::Write), both);
    assert_eq!(used(WorkspaceAccess::Read, PathAccess::Read), both);
    assert_eq!(used(WorkspaceAccess::Hidden, PathAccess::Read), [""; 0]);
    for access in [WorkspaceAccess::Read, WorkspaceAccess::Hidden] {
        assert_eq!(used(access, PathAccess::Write), [""; 0], "{access:?}");
    }
    let in_home = SandboxRules {
        user_home: Some(home.clone()),
        ..with(WorkspaceAccess::Hidden)
    };
    let read = uses(&in_home, &home, PathAccess::Read);
    assert!(
        read.iter().all(|name| !both.contains(&name.as_str())),
        "{read:?}"
    );
}

#[test]
fn a_narrowed_process_has_its_folders_and_of_other_sessions_nothing() {
    let (_kept, home) = home();
    for project in ["work/one", "work/two", "other"] {
        fs::create_dir_all(home.join(project)).expect("made");
    }
    // A link of a command of one session is not followed for another's.
    symlink(home.join(".ssh"), home.join("work/two/link")).expect("a link");
    let whole = SandboxRules {
        search_path: vec![home.join("work/two/link")],
        ..rules(&home)
    };
    let narrowed = whole.clone().narrowed_to(&[home.join("work/one")], &[]);
    let beside = whole.clone().narrowed_to(&[home.join("other")], &[]);
    let used = |rules: &SandboxRules| {
        let mut names = uses(rules, &home, PathAccess::Write);
        names.retain(|name| !name.starts_with('.'));
        let mut read = uses(rules, &home, PathAccess::Read);
        read.retain(|name| !name.starts_with('.'));
        (names, read)
    };
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(used(&narrowed), (list(&["work/one"]), list(&[])));
    assert_eq!(used(&beside), (list(&["other"]), list(&["other"])));
    assert_eq!(used(&whole), (list(&["work"]), list(&["work"])));
}

#[test]
fn certificates_that_gits_settings_name_are_granted_where_nothing_around_them_is() {
    let (_home, home) = home();
    let other = tempfile::tempdir().expect("a folder");
    let other = other
        .path()
        .canonicalize()
        .expect("real")
        .join("company.pem");
    let own = home.join("company.pem");
    for file in [&own, &other] {
        fs::write(file, "-----BEGIN CERTIFICATE-----\n").expect("written");
    }
    let settings = format!(
        "[http]\n\tsslCAInfo = {}\n\tsslCAPath = ~/company.pem\n",
        other.display()
    );
    fs::write(home.join(".gitconfig"), settings).expect("written");
    let granted = |rules: SandboxRules| {
        let builder = crate::profile::ProfileBuilder::new(rules);
        let list = compute_grants(&builder.current_rules()).expect("known");
        [&own, &other].map(|file| list.iter().filter(|grant| grant.path == *file).count())
    };
    // Each child of a home with hidden paths is granted by itself.
    assert_eq!(granted(rules(&home)), [1, 1]);
    let hide = vec![other.clone()];
    assert_eq!(
        granted(SandboxRules {
            hide,
            ..rules(&home)
        }),
        [1, 0]
    );
}
