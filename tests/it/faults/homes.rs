//! A home that is not where it belongs.

use crate::harness::caller::Ask;
use crate::harness::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f57_a_home_of_another_machine_is_refused_until_it_is_a_device_of_its_own() {
    let stage = Stage::new().await;
    let file = stage.setting.home.join("device.json");
    let own = std::fs::read_to_string(&file).expect("an identity");
    let mut record: serde_json::Value = serde_json::from_str(&own).expect("JSON");
    if record.get("machine").is_none() {
        println!("not shown here: this machine has no id of its own, so that nothing is bound to it");
        return;
    }
    let id = stage.ask(Ask::bash("echo ran > ran")).await;
    // As the machine that it was copied from has it.
    record["machine"] = "00112233445566778899aabbccddeeff".into();
    let copied = record.to_string();
    std::fs::write(&file, &copied).expect("written");
    for args in [&["run"][..], &["--once"], &["pair", stage.pairing_code()]] {
        let ended = stage.command(args).await;
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert!(ended.log.contains("another machine") && ended.log.contains("--new-device"), "{ended:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("there"), copied, "it was left alone");
    assert_eq!(stage.read("ran"), "", "nothing of the other machine's was run");

    let paired = stage.command(&["--json", "pair", "--new-device", stage.pairing_code()]).await;
    assert_eq!(paired.code, Some(0), "{paired:?}");
    assert_ne!(paired.json()["deviceId"], record["id"], "a device of its own");
    let pass = stage.once().await;
    assert_eq!((&pass["polled"], stage.read("ran").as_str()), (&serde_json::json!(0), ""), "{pass}");
    assert!(stage.caller.result(&id).await.is_none(), "the other device's is the other device's to answer");
}
