//! The bundle of a bridge: a file or a folder that the owner names. It is checked and copied without following any
//! link.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::package_lock::BundlePackage;
use crate::installed_tree::{FileTree, TreeLimits};

/// The most files and bytes of a bundle.
const LIMITS: TreeLimits = TreeLimits {
    files: 2_000,
    bytes: 32 << 20,
};
/// The files that Node runs where the bundle names none.
const MAIN_FILES: &[&str] = &[
    "bridge.js",
    "bridge.mjs",
    "bridge.cjs",
    "index.js",
    "index.mjs",
    "index.cjs",
];
/// Files by which a bundle would tell npm what to do.
const NPM_FILES: &[&str] = &[".npmrc", "package-lock.json", "npm-shrinkwrap.json"];

/// A bundle whose files may be copied.
#[derive(Debug)]
pub(super) struct BridgeBundle {
    /// Its files.
    pub files: FileTree,
    /// The part of its `package.json` that is used.
    pub package: BundlePackage,
    /// The file that Node runs.
    pub main: String,
}

impl BridgeBundle {
    /// Lists and checks a bundle; an error is a part of a sentence.
    pub fn open(source: &Path) -> Result<Self, String> {
        let meta = fs::symlink_metadata(source).map_err(|error| error.to_string())?;
        if meta.is_file() {
            let name = source.file_name().unwrap_or_default();
            let is_script = ["js", "mjs", "cjs"]
                .iter()
                .any(|end| source.extension() == Some(end.as_ref()));
            let name = name.to_str().filter(|_| is_script);
            let name = name.ok_or("it is neither a folder nor a file .js, .mjs or .cjs")?;
            return Ok(Self {
                files: FileTree::list(source, name, LIMITS)?,
                package: BundlePackage::default(),
                main: name.to_owned(),
            });
        }
        if !meta.is_dir() {
            return Err("it is neither a folder nor a plain file".to_owned());
        }
        let mut bundle = Self {
            files: list_files(source)?,
            package: BundlePackage::default(),
            main: String::new(),
        };
        if bundle.has_file("package.json") {
            let mut text = String::new();
            let file = bundle.files.open_file(Path::new("package.json"));
            file.and_then(|file| file.take(1 << 20).read_to_string(&mut text))
                .map_err(|error| format!("its package.json: {error}"))?;
            bundle.package = BundlePackage::parse(&text)?;
        }
        bundle.main = bundle.find_main()?;
        Ok(bundle)
    }

    fn has_file(&self, name: &str) -> bool {
        let mut files = self.files.relative_paths();
        files.any(|(file, _)| file == Path::new(name))
    }

    fn find_main(&self) -> Result<String, String> {
        if let Some(main) = &self.package.main {
            let main = main.strip_prefix("./").unwrap_or(main);
            if self.has_file(main) {
                return Ok(main.to_owned());
            }
            return Err(format!(
                "its package.json names {main:?} as main, and there is no such file"
            ));
        }
        let found = MAIN_FILES.iter().find(|name| self.has_file(name));
        found.map(|name| (*name).to_owned()).ok_or_else(|| {
            "it has neither bridge.js nor index.js. Name the file as main in its package.json"
                .to_owned()
        })
    }
}

/// Lists the files of a folder, and refuses those by which a bundle would lead elsewhere.
fn list_files(source: &Path) -> Result<FileTree, String> {
    let files = FileTree::list(source, "", LIMITS)?;
    for (within, is_link) in files.relative_paths() {
        if is_link {
            return Err(format!(
                "{} is a link. Copy the file instead",
                within.display()
            ));
        }
        let is_named = |name: &str| within.iter().any(|part| part.eq_ignore_ascii_case(name));
        if is_named("node_modules") {
            return Err(
                "it has a folder node_modules. Remove that, and name what it needs with --dependency name@1.2.3".to_owned(),
            );
        }
        if NPM_FILES.iter().any(|name| is_named(name)) {
            return Err(format!(
                "{} would tell npm what to do. Remove it: deploy writes its own",
                within.display()
            ));
        }
    }
    Ok(files)
}

/// Returns the hash of the code of a bridge with its dependencies; an error is a part of a sentence. Blocks, for seconds
/// where there are many.
pub(super) fn hash_code(code: &Path) -> Result<String, String> {
    let limits = TreeLimits {
        files: 100_000,
        bytes: 1 << 30,
    };
    FileTree::list(code, "", limits)?.content_hash()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn refused(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        }
        let opened = BridgeBundle::open(folder.path());
        opened.expect_err("refused")
    }

    #[test]
    fn a_bundle_tells_npm_nothing() {
        for (name, words) in [
            (".npmrc", "would tell npm"),
            ("lib/.NPMRC", "would tell npm"),
            ("package-lock.json", "would tell npm"),
            ("node_modules/a/index.js", "node_modules"),
        ] {
            let why = refused(&[("bridge.js", ""), (name, "")]);
            assert!(why.contains(words), "{name}: {why}");
        }
        assert!(refused(&[("other.js", "")]).contains("neither bridge.js"));
        let why = refused(&[("package.json", r#"{"main":"../x.js"}"#)]);
        assert!(why.contains("no such file"), "{why}");
    }

    #[cfg(unix)]
    #[test]
    fn no_link_of_a_bundle_is_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("secret")).expect("made");
        fs::write(at("secret/key.js"), "key").expect("written");
        fs::create_dir_all(at("bundle/lib")).expect("made");
        for name in ["bundle/bridge.js", "bundle/lib/key.js"] {
            fs::write(at(name), "own").expect("written");
        }
        let bundle = BridgeBundle::open(&at("bundle")).expect("usable");
        // Exchanged after it was looked at.
        fs::remove_dir_all(at("bundle/lib")).expect("removed");
        symlink(at("secret"), at("bundle/lib")).expect("a link");
        if cfg!(target_os = "linux") {
            let copied = bundle.files.copy_to(&at("copy"));
            copied.expect_err("a link on the way");
        }
        let why = BridgeBundle::open(&at("bundle")).expect_err("a link");
        assert!(why.contains("link"), "{why}");
        symlink(at("bundle"), at("alias")).expect("a link");
        BridgeBundle::open(&at("alias")).expect_err("a link itself");
    }
}
