//! The owner's secrets on a real disk: sealed, for the owner alone, and never lost to a damaged file.

use std::fs;
use std::sync::Barrier;
use std::thread;

use punie_home::{
    Home, HomeFailureKind, KeyPlace, MountedSecretFile, MountedSecrets, SecretError, SecretStore,
    remove_stale_mounts,
};
use punie_text::redact::Secret;

use super::{chmod, home, mode};

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn names(secrets: &SecretStore) -> Vec<String> {
    secrets
        .list()
        .expect("readable")
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

/// What happens to a file of this text.
type Damage = fn(&Home, &str);

/// A home with one secret.
fn with_one() -> (tempfile::TempDir, Home, SecretStore) {
    let (dir, home) = home();
    let secrets = SecretStore::in_home(&home);
    assert!(
        secrets
            .set_secret("openai", &secret("correct-horse-battery"))
            .expect("kept")
    );
    (dir, home, secrets)
}

#[test]
fn a_secret_is_kept_sealed_for_its_owner_and_found_again() {
    let (_dir, home, secrets) = with_one();
    assert!(
        !secrets
            .set_secret("openai", &secret("another-horse-battery"))
            .expect("replaced")
    );
    assert!(
        secrets
            .set_secret("x/y:z@w", &secret("ä\nb\n"))
            .expect("kept")
    );
    let again = SecretStore::in_home(&Home::open_home(home.root_dir()).expect("the same home"));
    assert_eq!(names(&again), ["openai", "x/y:z@w"]);
    assert_eq!(
        again.get("openai").expect("readable"),
        Some(secret("another-horse-battery"))
    );
    assert_eq!(
        again.get("x/y:z@w").expect("readable"),
        Some(secret("ä\nb\n"))
    );
    assert_eq!(again.values().expect("readable").len(), 2);
    let sealed = fs::read_to_string(home.secrets_file()).expect("there");
    assert!(
        !sealed.contains("horse") && !sealed.contains("openai"),
        "{sealed}"
    );
    assert_eq!(mode(&home.secrets_file()), 0o600);
    assert_eq!(mode(&home.secrets_key_file()), 0o600);
    assert_eq!(mode(&home.secrets_dir()), 0o700);
    assert!(again.remove("openai").expect("removed") && !again.remove("openai").expect("gone"));
    assert_eq!(again.get("openai").expect("readable"), None);
}

#[test]
fn what_no_command_could_be_given_is_not_kept() {
    let (_dir, home) = home();
    let secrets = SecretStore::in_home(&home);
    let long = "n".repeat(129);
    for (name, value) in [
        ("", "v"),
        ("a b", "v"),
        ("a=b", "v"),
        (long.as_str(), "v"),
        ("a", ""),
        ("a", "v\0w"),
    ] {
        let refused = secrets.set_secret(name, &secret(value)).expect_err(name);
        assert!(matches!(refused, SecretError::Unusable(_)), "{refused}");
    }
    let huge = secrets
        .set_secret("a", &secret(&"v".repeat(70_000)))
        .expect_err("too long");
    assert!(huge.to_string().contains("65536 bytes"), "{huge}");
    assert!(!home.secrets_file().exists());
}

#[test]
fn a_damaged_file_is_said_to_be_and_is_never_written_over() {
    let whole = |home: &Home| fs::read_to_string(home.secrets_file()).expect("there");
    let cases: [(&str, Damage); 5] = [
        ("cut short", |home, text| {
            fs::write(home.secrets_file(), &text[..text.len() / 2]).expect("cut");
        }),
        ("was changed", |home, text| {
            let at = text.rfind("\"}").expect("its end") - 20;
            let other = if text.as_bytes()[at] == b'A' {
                "B"
            } else {
                "A"
            };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            fs::write(home.secrets_file(), changed).expect("changed");
        }),
        ("sealed with another key", |home, _| {
            let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
            fs::write(home.secrets_key_file(), other).expect("another key");
        }),
        ("32 bytes as base64", |home, _| {
            fs::write(home.secrets_key_file(), "short\n").expect("no key");
        }),
        ("is gone", |home, _| {
            fs::remove_file(home.secrets_key_file()).expect("no key");
        }),
    ];
    for (why, damage) in cases {
        let (_dir, home, secrets) = with_one();
        damage(&home, &whole(&home));
        let before = whole(&home);
        let said = secrets.list().expect_err(why);
        assert_eq!(said.failure_kind(), HomeFailureKind::Content, "{said}");
        assert!(
            said.to_string().contains(why) && said.to_string().contains("aside"),
            "{said}"
        );
        assert!(
            secrets.set_secret("another", &secret("value")).is_err(),
            "{why}"
        );
        assert!(secrets.remove("openai").is_err(), "{why}");
        let refused = secrets.move_key_to(KeyPlace::Keychain).expect_err(why);
        assert!(
            refused.to_string().contains(why),
            "nothing is moved: {refused}"
        );
        assert_eq!(whole(&home), before, "{why}: nothing is lost");
    }
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let (_dir, home, secrets) = with_one();
    for file in [home.secrets_file(), home.secrets_key_file()] {
        chmod(&file, 0o640);
        let refused = secrets.list().expect_err("too open");
        assert_eq!(refused.failure_kind(), HomeFailureKind::Safety, "{refused}");
        chmod(&file, 0o600);
    }
    assert_eq!(names(&secrets), ["openai"]);
}

#[test]
fn of_many_writers_at_once_none_loses_what_another_kept() {
    let (_dir, home) = home();
    let together = Barrier::new(8);
    thread::scope(|scope| {
        for writer in 0..8 {
            let home = &home;
            let together = &together;
            scope.spawn(move || {
                let secrets = SecretStore::in_home(home);
                together.wait();
                for round in 0..4 {
                    let name = format!("of-{writer}-{round}");
                    secrets
                        .set_secret(&name, &secret("some-value"))
                        .expect("kept");
                }
            });
        }
    });
    assert_eq!(names(&SecretStore::in_home(&home)).len(), 32);
}

fn mounted(home: &Home) -> MountedSecrets {
    let file = |path: &str, variable: Option<&str>| MountedSecretFile {
        path: path.into(),
        variable: variable.map(str::to_owned),
        value: secret("file-value"),
    };
    let variables = vec![("API_KEY".to_owned(), secret("variable-value"))];
    MountedSecrets::write(
        home,
        variables,
        vec![
            file("a/b/token", None),
            file("CREDENTIALS", Some("CREDENTIALS")),
        ],
    )
    .expect("laid out")
}

#[test]
fn files_are_for_the_owner_alone_and_go_with_what_holds_them() {
    let (_dir, home) = home();
    let one = mounted(&home);
    let folder = one.folder().expect("a folder").to_owned();
    for (path, expected) in [
        ("", 0o700),
        ("a", 0o700),
        ("a/b", 0o700),
        ("a/b/token", 0o600),
        ("CREDENTIALS", 0o600),
    ] {
        assert_eq!(mode(&folder.join(path)), expected, "{path}");
    }
    let given: Vec<(&str, &str)> = one.variables().collect();
    let credentials = folder.join("CREDENTIALS").display().to_string();
    let place = folder.display().to_string();
    assert_eq!(
        given,
        [
            ("API_KEY", "variable-value"),
            ("CREDENTIALS", &credentials),
            ("PUNIE_SECRETS", &place)
        ]
    );
    assert!(!format!("{one:?}").contains("value"));
    // Nobody takes it away while it is used, and everybody what nobody uses.
    assert_eq!(remove_stale_mounts(&home).expect("looked through"), 0);
    let left = home.mounts_dir().join("0123");
    fs::create_dir(&left).expect("made");
    fs::write(left.join("token"), "left").expect("written");
    let another = mounted(&home);
    assert!(!left.exists() && folder.join("a/b/token").exists());
    drop((one, another));
    assert!(!folder.exists());
    let names: Vec<_> = fs::read_dir(home.mounts_dir())
        .expect("there")
        .map(|e| e.expect("one").file_name())
        .collect();
    assert_eq!(names, ["turn"]);
}
