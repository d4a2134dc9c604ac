//! The proxy for reaching the backend: the configured one, else the usual proxy variables. Not here: choosing a proxy
//! for an address (backend).

use std::fmt;

use reqwest::Url;

use super::sources::ProcessEnvironment;
use super::toml_document::TomlValue;
use super::value::{ConfigValue, ValueError, quote_toml, read_text};
use punie_core::owner_choices::ProxyVariables;

/// The value of `backend.proxy`.
#[derive(Clone, PartialEq, Eq)]
pub enum ProxySetting {
    /// No proxy; the environment is ignored.
    Direct,
    /// One proxy for every address. It may hold a password.
    Server(String),
}

impl fmt::Debug for ProxySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_credentials())
    }
}

impl ProxySetting {
    /// Parses the setting. Errors do not repeat the text, because it may hold a password.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "none" {
            return Ok(Self::Direct);
        }
        let url = Url::parse(text)
            .map_err(|error| format!("the proxy's address is not a URL ({error})"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(
                "write the proxy's address as http://host:port; other kinds are not supported"
                    .into(),
            );
        }
        Ok(Self::Server(url.as_str().to_owned()))
    }

    /// Formats the setting without user name and password.
    fn without_credentials(&self) -> String {
        let Self::Server(text) = self else {
            return "none".to_owned();
        };
        let Ok(mut url) = Url::parse(text) else {
            return "set".to_owned();
        };
        // These fail only for addresses without a host.
        let _ = (url.set_username(""), url.set_password(None));
        url.as_str().trim_end_matches('/').to_owned()
    }
}

impl ConfigValue for Option<ProxySetting> {
    const WANTED: &'static str = "an address in quotes, or \"none\"";
    const EXAMPLE: &'static str = "\"http://proxy.example.com:8080\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let parsed = ProxySetting::parse(read_text(plain)?);
        parsed.map(Some).map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref()
            .map(|proxy| quote_toml(&proxy.without_credentials()))
    }
}

/// Takes the configured proxy, else those of the environment.
pub(super) fn resolve_proxies(
    setting: Option<&ProxySetting>,
    environment: &ProcessEnvironment,
) -> ProxyVariables {
    let variable = |upper: &str| {
        let value = environment
            .get(upper)
            .or_else(|| environment.get(&upper.to_ascii_lowercase()));
        value
            .and_then(|value| value.to_str())
            .unwrap_or_default()
            .to_owned()
    };
    match setting {
        Some(ProxySetting::Direct) => ProxyVariables::default(),
        Some(ProxySetting::Server(url)) => ProxyVariables {
            all: url.clone(),
            ..ProxyVariables::default()
        },
        None => ProxyVariables {
            http: variable("HTTP_PROXY"),
            https: variable("HTTPS_PROXY"),
            all: variable("ALL_PROXY"),
            no: variable("NO_PROXY"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(setting: Option<&str>) -> ProxyVariables {
        let variables = [
            ("https_proxy", "http://a:1"),
            ("HTTPS_PROXY", "http://b:2"),
            ("no_proxy", "c"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let setting = setting.map(|text| ProxySetting::parse(text).expect(text));
        resolve_proxies(
            setting.as_ref(),
            &ProcessEnvironment::new(variables, None, None),
        )
    }

    #[test]
    fn the_configuration_goes_before_the_environment() {
        let from_environment = ProxyVariables {
            https: "http://b:2".to_owned(),
            no: "c".to_owned(),
            ..ProxyVariables::default()
        };
        assert_eq!(resolved(None), from_environment);
        assert_eq!(resolved(Some("none")), ProxyVariables::default());
        let all = "http://d:3/".to_owned();
        assert_eq!(
            resolved(Some("http://d:3")),
            ProxyVariables {
                all,
                ..ProxyVariables::default()
            }
        );
    }

    #[test]
    fn a_password_is_neither_shown_nor_repeated() {
        let proxy = ProxySetting::parse("http://me:hunter2@proxy:3128").expect("a proxy");
        assert_eq!(
            Some(proxy.clone()).to_toml().as_deref(),
            Some("\"http://proxy:3128\"")
        );
        assert!(!format!("{proxy:?}").contains("hunter2"));
        for wrong in [
            "socks5://me:hunter2@proxy",
            "me:hunter2@proxy:1",
            "hunter2",
            "",
        ] {
            let refused = ProxySetting::parse(wrong).expect_err(wrong);
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
