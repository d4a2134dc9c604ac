//! `people` and the file of the identity map.

use serde_json::{Value, json};

use crate::harness::stage::RunnerFixture;

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

pub(super) async fn add_contact(setup: &RunnerFixture, args: &[&str]) -> Value {
    let args = [&["--json", "people", "add"], args].concat();
    let ended = setup.command(&args).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_person_has_one_alias_however_many_identifiers() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let first = add_contact(
        &setup,
        &[
            "Anna Müller",
            "--mail",
            "anna@x.org",
            "--phone",
            "+49 30 1234567",
        ],
    )
    .await;
    let again = add_contact(&setup, &["anna MÜLLER", "--also", "Anna M. Müller"]).await;
    assert_eq!(first["alias"], again["alias"]);
    let identifiers = again["identifiers"].as_array().expect("a list");
    assert_eq!(identifiers.len(), 4, "{again}");
    let alias = first["alias"].as_str().expect("a text");
    let code = &alias["Person-".len()..alias.len() - 1];
    assert!(
        identifiers[1][1]
            .as_str()
            .is_some_and(|mail| mail.starts_with(&format!("person-{code}")))
    );
    let other = add_contact(&setup, &["Ben Okoro"]).await;
    assert_lacks!(other["alias"].as_str().expect("a text"), code);
    for (args, words) in cases! {
        (&["people", "add", "Ben Okoro", "--mail", "ANNA@x.org"][..], "belongs to another person"),
        (&["people", "add", "Al"], "too short"),
        (&["people", "add", "Cleo Roy", "--phone", "12"], "no phone number"),
        (&["people", "add", "Cleo Roy", "--mail", "cleo"], "no mail address"),
        (&["people", "remove", "Nobody Here"], "Nobody in the identity map"),
    } {
        let ended = setup.command(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_contains!(ended.log, words);
    }
    let listed = setup.command(&["people"]).await;
    assert_contains!(listed.out, "Anna Müller");
    assert_lacks!(listed.out, "Cleo");
    assert_eq!(
        setup.command(&["people", "remove", alias]).await.code,
        Some(0)
    );
    let listed = setup.command(&["people"]).await;
    assert_lacks!(listed.out, "Anna");
    assert_contains!(listed.out, "Ben Okoro");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_map_is_encrypted_and_a_damaged_one_is_never_overwritten() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    add_contact(&setup, &["Anna Müller", "--phone", "+49 30 1234567"]).await;
    add_contact(&setup, &["Ben Okoro"]).await;
    for path in files_below(&setup.setting.home) {
        let bytes = std::fs::read(&path).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        assert_lacks!(text, "Müller", "1234567"; "{}", path.display());
    }
    let file = setup.setting.home.join("state/identity_map.json");
    let key = setup.setting.home.join("keys/identity_map.key");
    let whole = std::fs::read(&file).expect("the map");
    setup.write("note.txt", "Anna Müller\n");
    let args = json!({"file_path": "note.txt"}).to_string();
    let read = ["call", "Read", args.as_str()];
    let damage = |bytes: &[u8]| std::fs::write(&file, bytes).expect("written");
    let key_text = std::fs::read(&key).expect("the key");
    for step in 0..3 {
        match step {
            0 => damage(&whole[..whole.len() / 2]),
            1 => damage(b""),
            _ => {
                damage(&whole);
                std::fs::remove_file(&key).expect("removed");
            }
        }
        let before = std::fs::read(&file).expect("the map");
        let ended = setup.command(&["people", "add", "Cleo Roy"]).await;
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert_eq!(std::fs::read(&file).expect("the map"), before);
        let ended = setup.command(&read).await;
        assert_ne!(ended.code, Some(0), "{ended:?}");
        let shown = format!("{}{}", ended.out, ended.log);
        assert_contains!(shown, "list of them cannot be read");
        assert_lacks!(shown, "Müller");
        let status = setup.command(&["status", "--json"]).await.json();
        assert_contains!(status["degraded"].to_string(), "\"people\"");
    }
    std::fs::write(&key, key_text).expect("written");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("set");
    let ended = setup.command(&read).await;
    assert_contains!(ended.out, "Person-");
    assert_lacks!(ended.out, "Müller");
}
