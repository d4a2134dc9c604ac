//! The `package.json` that npm gets, and the check of the `package-lock.json` that it writes. Nothing of a bundle
//! reaches npm but the names and versions of packages.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bridge_record::check_pin;

/// The part of a bundle's `package.json` that is used.
#[derive(Debug, Default, Deserialize)]
pub(super) struct BundlePackage {
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub main: Option<String>,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
    #[serde(default, rename = "optionalDependencies")]
    optional: BTreeMap<String, String>,
    #[serde(default)]
    overrides: BTreeMap<String, Value>,
}

impl BundlePackage {
    /// Reads the file; an error is a part of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let package: Self =
            serde_json::from_str(text).map_err(|error| format!("its package.json: {error}"))?;
        if !package.optional.is_empty() || !package.overrides.is_empty() {
            return Err(
                "its package.json has optionalDependencies or overrides. Name what it needs under dependencies"
                    .to_owned(),
            );
        }
        match package.kind.as_deref() {
            None | Some("module" | "commonjs") => Ok(package),
            Some(other) => Err(format!("its package.json has the type {other:?}")),
        }
    }

    /// Returns its dependencies with those of the command line; an error is a part of a sentence.
    pub fn merge_pins(&self, named: &[String]) -> Result<Vec<String>, String> {
        let mut pins = BTreeMap::new();
        let own = self.dependencies.iter();
        let own = own.map(|(name, version)| format!("{name}@{version}"));
        for pin in own.chain(named.iter().cloned()) {
            let (name, version) = check_pin(&pin)?;
            let before = pins.insert(name.to_owned(), version.to_owned());
            if before.is_some_and(|before| before != version) {
                return Err(format!("two versions of {name} are named"));
            }
        }
        let pins = pins.into_iter();
        Ok(pins
            .map(|(name, version)| format!("{name}@{version}"))
            .collect())
    }
}

/// Writes the `package.json` of a bridge.
pub(super) fn package_text(name: &str, kind: Option<&str>, pins: &[String]) -> String {
    let pairs = pins.iter().filter_map(|pin| pin.rsplit_once('@'));
    let dependencies: BTreeMap<&str, &str> = pairs.collect();
    let mut package = json!({
        "name": format!("bridge-{name}"),
        "version": "0.0.0",
        "private": true,
        "dependencies": dependencies,
    });
    if let Some(kind) = kind {
        package["type"] = Value::from(kind);
    }
    format!("{package:#}\n")
}

#[derive(Deserialize)]
struct PackageLock {
    packages: BTreeMap<String, LockedPackage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockedPackage {
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    resolved: Option<String>,
    #[serde(default)]
    integrity: Option<String>,
    #[serde(default)]
    link: bool,
    #[serde(default)]
    in_bundle: bool,
}

/// Checks that all packages of a lock file come from the registry by version and hash; an error is a part of a sentence.
pub(super) fn check_package_lock(text: &str) -> Result<(), String> {
    let lock: PackageLock = serde_json::from_str(text)
        .map_err(|error| format!("the lock file that npm wrote cannot be read: {error}"))?;
    for (place, package) in lock.packages.iter().filter(|(place, _)| !place.is_empty()) {
        // A package in the archive of another one has that one's hash.
        let is_pinned = package.integrity.is_some() || package.in_bundle;
        // npm writes an address for what does not come from the registry, as it is told to.
        if package.link || package.resolved.is_some() || package.version.is_none() || !is_pinned {
            return Err(format!(
                "{place} does not come from the registry by its version and hash. Packages from git, addresses and \
                 folders are refused"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pins_of_a_package_json_are_used() {
        let package = BundlePackage::parse(
            r#"{"type":"module","scripts":{"postinstall":"evil"},"dependencies":{"a":"1.0.0"}}"#,
        )
        .expect("usable");
        let pins = package.merge_pins(&["b@2.0.0".to_owned(), "a@1.0.0".to_owned()]);
        assert_eq!(pins.expect("pins"), ["a@1.0.0", "b@2.0.0"]);
        package
            .merge_pins(&["a@1.0.1".to_owned()])
            .expect_err("two versions");
        let text = package_text("x", Some("module"), &["a@1.0.0".to_owned()]);
        assert!(
            !text.contains("scripts") && text.contains("\"a\": \"1.0.0\""),
            "{text}"
        );
        for bad in [
            r#"{"dependencies":{"a":"^1.0.0"}}"#,
            r#"{"dependencies":{"a":"git+ssh://x"}}"#,
            r#"{"dependencies":{"a":"file:../a"}}"#,
            r#"{"dependencies":{"a":"1.0.0"},"overrides":{"b":"file:b"}}"#,
            r#"{"optionalDependencies":{"b":"1.0.0"}}"#,
            r#"{"type":"text/evil"}"#,
        ] {
            let parsed = BundlePackage::parse(bad).and_then(|package| package.merge_pins(&[]));
            parsed.expect_err(bad);
        }
    }

    #[test]
    fn a_lock_names_packages_of_the_registry_alone() {
        let lock =
            |package: &str| format!(r#"{{"packages":{{"":{{}},"node_modules/a":{package}}}}}"#);
        check_package_lock(&lock(r#"{"version":"1.0.0","integrity":"sha512-x"}"#)).expect("pinned");
        for bad in [
            r#"{"version":"1.0.0"}"#,
            r#"{"version":"1.0.0","integrity":"sha512-x","link":true}"#,
            r#"{"version":"1.0.0","resolved":"git+ssh://git@x.org/a.git#1","integrity":"sha512-x"}"#,
            r#"{"resolved":"../a","link":true}"#,
        ] {
            check_package_lock(&lock(bad)).expect_err(bad);
        }
    }
}
