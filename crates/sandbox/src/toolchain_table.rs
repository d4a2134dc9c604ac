//! The folders of the user's home that hold toolchains, and the parts of each that commands see: what a toolchain needs
//! to run. Tools keep credentials beside that, under any name; nothing else of the folder exists for commands.
//!
//! A `*` in a path stands for any part of one name, and [`EXECUTABLES`] for the programs in a folder.

/// Paths in the folder of a toolchain.
type Parts = &'static [&'static str];

/// A folder of the home that holds toolchains: of it commands see only parts.
pub(super) struct Toolchain {
    /// The path in the home.
    pub at: &'static str,
    /// The folders in it, empty for itself, with the parts of each that are shown.
    pub layout: &'static [(&'static str, Parts)],
}

const fn toolchain(at: &'static str, layout: &'static [(&'static str, Parts)]) -> Toolchain {
    Toolchain { at, layout }
}

/// One version of a toolchain, an environment of its own, or a prefix in which programs are installed. Programs,
/// libraries and the certificates of authorities; no settings.
const INSTALLATION: Parts = &[
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "include",
    "share",
    "man",
    "usr",
    // Compilers for other machines.
    "*-elf",
    "*-linux-gnu",
    "*-linux-gnueabihf",
    "*-linux-musl",
    "*-mingw32",
    "*-none-eabi",
    // Python's environments.
    "pyvenv.cfg",
    // OpenSSL of its own.
    "openssl/bin",
    "openssl/include",
    "openssl/lib",
    "openssl/lib64",
    "openssl/ssl/cert.pem",
    "openssl/ssl/certs",
    "openssl/ssl/openssl.cnf",
    "ssl/cacert.pem",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "etc/ca-certificates",
    "etc/openssl*/cert.pem",
    "etc/openssl*/certs",
    "etc/openssl*/openssl.cnf",
    "etc/ssl/certs",
    // Java machines, Maven, Groovy.
    "boot",
    "conf/groovy-starter.conf",
    "conf/logging",
    "conf/logging.properties",
    "conf/net.properties",
    "conf/security",
    "jars",
    "jmods",
    "jre",
    "legal",
    "release",
    // Ruby, Erlang, Flutter.
    "gems",
    "specifications",
    "extensions",
    "bundler/gems",
    "erts-*",
    "releases",
    "packages",
    "version",
];

/// Beside them, Go's own sources.
const GO: Parts = &["api", "misc", "pkg", "src", "VERSION"];

/// Beside them, what conda keeps in an environment.
const CONDA: Parts = &[
    "compiler_compat",
    "condabin",
    "etc/fonts",
    "etc/profile.d",
    "fonts",
    "nvvm",
    "plugins",
    "qml",
    "resources",
    "shell",
    "targets",
    "translations",
];

/// The part that stands for the files in a folder that may be executed.
pub(super) const EXECUTABLES: &str = "+x";

/// A program that manages the versions of toolchains.
const MANAGER: Parts = &[
    "alias",
    "aliases",
    "asdf.sh",
    "bash_completion",
    "bin",
    "completions",
    "*env.d",
    "etc/*env.d",
    "jabba.sh",
    "lib",
    "libexec",
    "nvm-exec",
    "nvm.sh",
    "scripts",
    "settings.toml",
    "share",
    "shims",
    "version",
];

/// A manager with its versions.
const VERSIONS: &[(&str, Parts)] = &[
    ("", MANAGER),
    ("plugins/*", MANAGER),
    ("versions/*", INSTALLATION),
    ("versions/*/envs/*", INSTALLATION),
    ("versions/anaconda*", CONDA),
    ("versions/miniconda*", CONDA),
    ("versions/miniforge*", CONDA),
    ("toolchains/*", INSTALLATION),
    ("installs/*/*", INSTALLATION),
    // Single programs, and archives of some.
    ("installs/*/*", &[EXECUTABLES]),
    ("installs/*/*/*-*", &[EXECUTABLES]),
    ("installs/elixir/*", &[".mix"]),
    ("installs/pipx-*/*/*", INSTALLATION),
    ("installs/go*/*", GO),
    ("installs/go*/*/go", INSTALLATION),
    ("installs/go*/*/go", GO),
    ("installs/go*/*/packages", &["bin"]),
];

const FNM: &[(&str, Parts)] = &[
    ("", &["aliases", "fnm"]),
    ("node-versions/*/installation", INSTALLATION),
];

const PIPX: &[(&str, Parts)] = &[
    ("venvs/*", INSTALLATION),
    ("shared", INSTALLATION),
    ("py/*", INSTALLATION),
];

const CONDA_PREFIX: &[(&str, Parts)] = &[
    ("", INSTALLATION),
    ("", CONDA),
    ("envs/*", INSTALLATION),
    ("envs/*", CONDA),
];

/// A folder around programs that the PATH names: it may be an installation or a manager.
pub(super) const UNKNOWN: &[&[(&str, Parts)]] = &[VERSIONS, &[("", INSTALLATION), ("", GO)]];

/// The folders that hold toolchains.
pub(super) const TOOLCHAINS: &[Toolchain] = &[
    // Rust, Go, C and C++.
    toolchain(".rustup", VERSIONS),
    toolchain("sdk", &[("go*", INSTALLATION), ("go*", GO)]),
    toolchain(".goenv", VERSIONS),
    toolchain(".goenv", &[("versions/*", GO)]),
    toolchain(
        ".gvm",
        &[
            ("", MANAGER),
            ("gos/*", INSTALLATION),
            ("gos/*", GO),
            ("pkgsets/*/*", &["bin"]),
        ],
    ),
    toolchain(
        ".vcpkg",
        &[(
            "",
            &[
                "vcpkg",
                "vcpkg.path.txt",
                "installed",
                "ports",
                "scripts",
                "triplets",
                "versions",
            ],
        )],
    ),
    // JavaScript.
    toolchain(
        ".nvm",
        &[
            ("", MANAGER),
            ("versions/*/*", INSTALLATION),
            ("v*", INSTALLATION),
        ],
    ),
    toolchain(".fnm", FNM),
    toolchain(".local/share/fnm", FNM),
    toolchain(
        ".volta",
        &[
            ("", &["bin", "layout.v*"]),
            ("tools/user", &["bin", "packages", "platform.json"]),
            ("tools/inventory/node", &["node-v*-npm"]),
            ("tools/image/*/*", INSTALLATION),
            (
                "tools/image/*/*",
                &["dist", "index.js", "node_modules", "package.json"],
            ),
            ("tools/image/packages/*/*", INSTALLATION),
        ],
    ),
    toolchain(".nodenv", VERSIONS),
    toolchain(".npm-global", &[("", INSTALLATION)]),
    toolchain(".npm-packages", &[("", INSTALLATION)]),
    // Python.
    toolchain(".pyenv", VERSIONS),
    toolchain(
        ".local/share/uv",
        &[("python/*", INSTALLATION), ("tools/*", INSTALLATION)],
    ),
    toolchain(".local/pipx", PIPX),
    toolchain(".local/share/pipx", PIPX),
    toolchain(".local/share/virtualenvs", &[("*", INSTALLATION)]),
    toolchain(".virtualenvs", &[("*", INSTALLATION)]),
    toolchain(
        ".rye",
        &[
            ("", &["shims"]),
            ("py/*", INSTALLATION),
            ("py/*/install", INSTALLATION),
            ("self", INSTALLATION),
            ("tools/*", INSTALLATION),
            ("uv/*", &["uv"]),
        ],
    ),
    toolchain("miniconda3", CONDA_PREFIX),
    toolchain("miniforge3", CONDA_PREFIX),
    toolchain("mambaforge", CONDA_PREFIX),
    toolchain("anaconda3", CONDA_PREFIX),
    toolchain(".conda", &[("envs/*", INSTALLATION), ("envs/*", CONDA)]),
    // Java, Kotlin, Scala.
    toolchain(
        ".sdkman",
        &[
            ("", &["bin", "contrib", "libexec", "src"]),
            ("var", &["candidates", "platform", "version"]),
            ("candidates/*/*", INSTALLATION),
            ("candidates/*/*", &["VERSION", "maven2", "mvn", "python"]),
        ],
    ),
    toolchain(".jenv", VERSIONS),
    toolchain(".jabba", &[("", MANAGER), ("jdk/*", INSTALLATION)]),
    toolchain(".jdks", &[("*", INSTALLATION)]),
    toolchain(
        ".m2/wrapper",
        &[
            ("dists/*/*", INSTALLATION),
            ("dists/*/*", &["*.zip"]),
            ("dists/*/*/*", INSTALLATION),
        ],
    ),
    // Others.
    toolchain(".rbenv", VERSIONS),
    toolchain(
        ".rvm",
        &[
            ("", MANAGER),
            ("", &["RELEASE", "VERSION", "environments", "wrappers"]),
            ("rubies/*", INSTALLATION),
            ("gems/*", INSTALLATION),
            ("usr", INSTALLATION),
        ],
    ),
    toolchain(".gem/ruby", &[("*", INSTALLATION)]),
    toolchain(
        ".ghcup",
        &[
            ("", &["bin"]),
            ("ghc/*", INSTALLATION),
            ("hls/*", INSTALLATION),
        ],
    ),
    toolchain(
        ".opam",
        &[
            ("", &["opam-init", "lock", "config.lock"]),
            ("repo", &["lock"]),
            ("*", INSTALLATION),
            (
                "*/.opam-switch",
                &[
                    "config",
                    "environment",
                    "lock",
                    "switch-config",
                    "switch-state",
                ],
            ),
        ],
    ),
    toolchain(".elan", VERSIONS),
    toolchain(".elan", &[("toolchains/*", &["src"])]),
    toolchain(".juliaup", &[("", &["bin"]), ("*", INSTALLATION)]),
    toolchain(
        ".dotnet",
        &[(
            "",
            &[
                "dotnet",
                "host",
                "metadata",
                "packs",
                "sdk",
                "sdk-manifests",
                "shared",
                "templates",
                "tools",
            ],
        )],
    ),
    toolchain(".swiftly", VERSIONS),
    toolchain(".swiftly", &[("", &["config.json"])]),
    toolchain(".local/share/swiftly", VERSIONS),
    toolchain(".local/share/swiftly", &[("", &["config.json"])]),
    toolchain(".asdf", VERSIONS),
    toolchain(".local/share/mise", VERSIONS),
    toolchain(
        ".nix-profile",
        &[("", INSTALLATION), ("", &["etc/profile.d"])],
    ),
    toolchain(
        ".linuxbrew",
        &[
            ("", INSTALLATION),
            // Formulas keep their settings beside these, in `etc`.
            ("", &["Cellar", "opt"]),
            ("Homebrew", &["bin", "Library/Homebrew"]),
        ],
    ),
];

/// Files that are there and empty: programs look whether they exist, and they may hold addresses with a password.
pub(super) const EMPTIED: &[&str] = &[
    "*conda3/conda-meta/history",
    "*conda3/envs/*/conda-meta/history",
    "*forge*/conda-meta/history",
    "*forge*/envs/*/conda-meta/history",
    ".conda/envs/*/conda-meta/history",
];

/// Files and folders in shown ones in which people keep their variables and logins.
pub(super) const HIDDEN: &[&str] = &[
    ".virtualenvs/*/bin/postactivate",
    ".virtualenvs/*/bin/postdeactivate",
    ".virtualenvs/*/bin/preactivate",
    ".virtualenvs/*/bin/predeactivate",
    ".gradle/wrapper/dists/*/*/*/gradle.properties",
    ".gradle/wrapper/dists/*/*/*/init.d",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_toolchain_is_shown_as_a_whole() {
        for toolchain in TOOLCHAINS {
            let at = crate::home_table::SHOWN.contains(&toolchain.at);
            assert!(!at, "{}", toolchain.at);
            for (folder, parts) in toolchain.layout {
                assert!(!parts.is_empty(), "{}/{folder}", toolchain.at);
                for part in *parts {
                    assert!(
                        !part.is_empty() && *part != "*",
                        "{}/{folder}",
                        toolchain.at
                    );
                }
            }
        }
    }
}
